"""ShareBoost: the few words that tell documents apart, from sparse counts of 3,000 words."""

import numpy as np
from scipy import sparse

import streamlearn as sl

WORDS, DOCUMENTS = 3000, 2000

rng = np.random.default_rng(0)
subject = rng.integers(0, 3, DOCUMENTS)
counts = sparse.random(DOCUMENTS, WORDS, density=0.01, format="lil", random_state=0)
for k in range(3):  # words 10k to 10k + 4 belong to subject k
    mine = np.flatnonzero(subject == k)
    for word in range(10 * k, 10 * k + 5):
        counts[rng.choice(mine, len(mine) // 2, replace=False), word] = 1
X = counts.tocsr().astype(np.float32)

model = sl.ShareBoostClassifier(12).fit(X[:1500], subject[:1500])
test = X[1500:]
print("words:", np.sort(model.get_support(indices=True)))
for n in (3, 6, 12):  # the models on the way cost no read
    print(f"{n:2} words, right on new documents: {model.at(n).score(test, subject[1500:]):.3f}")
sl.ShareBoostDisplay.from_estimator(model)  # which word speaks for which subject
