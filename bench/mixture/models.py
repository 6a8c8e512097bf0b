"""Settings of ours in the mixture tables, chosen on training rows alone, and the models beside it.

gate="linear", expert_loss="log_loss", nu = min(rows / 50, 50), columns from 0 to 1 for pixels and
standardised for measurements, 10 components to begin with, 50 for more than 20,000 rows of covtype:
rules that see no test row; gate and loss are those that ``--only choice`` finds best on a held-out
quarter of 10,000 training rows of either set.  C is the best of `GRID` on a held-out quarter of the
training rows (`choose`).
"""

import time

import numpy as np

GRID = (0.01, 0.1, 1.0)
CHOICE_DRAWS = 3
"""Draws whose held-out quarters choose C; ten below FEW rows, where a quarter is little."""
FEW = 1_000
CHOICE_ROWS = 10_000
"""Most training rows that choose C: all of MNIST takes the C of a sixth of them."""
CHOICE_PASSES = 20
"""Of a fit that only tells one C from another: the fits in memory may take ten times as many."""
RBF_ROWS = 10_000
"""Most training rows of the RBF SVM, and of the boosted one, here."""
BOOSTED_ROWS = 5_000
PAPER = {"gate": "rbf", "expert_loss": "hinge"}
"""The paper's own gate and loss."""
PAPER_ROWS = 1_000
"""Most training rows of a mixture with these."""


def settings(name, n):
    """Parameters of ours for n training rows, but C."""
    common = {"gate": "linear", "expert_loss": "log_loss", "nu": min(0.02 * n, 50.0)}
    if name == "mnist":
        return common | {"scaling": "range", "max_passes": 40, "tol": 1e-4}
    if n > 20_000:
        return common | {"n_components": 50, "max_passes": 60, "tol": 1e-4}
    return common | {"max_passes": 30}


def choose(name, n, draws, *, tiny=False):
    """C of highest mean accuracy on the last quarters of some draws' training rows."""
    import streamlearn as sl

    right = np.zeros(len(GRID))
    for A, b in draws[: None if n < FEW else CHOICE_DRAWS if n < 20_000 else 1]:
        A, b = A[:CHOICE_ROWS], b[:CHOICE_ROWS]
        cut = len(b) * 3 // 4
        for at, C in enumerate(GRID[1:] if tiny else GRID):
            given = settings(name, len(b)) | {"max_passes": CHOICE_PASSES}
            model = sl.SVMMixtureClassifier(C=C, **given)
            right[at] += model.fit(A[:cut], b[:cut]).score(A[cut:], b[cut:])
    return GRID[int(right.argmax()) + tiny]


def models(name, n, seed, C, *, tiny=False, rivals=True):
    """(label, unfitted model) of a draw."""
    import streamlearn as sl
    from bench.peers.ours import AS_RIVALS

    yield "ours", sl.SVMMixtureClassifier(C=C, random_state=seed, **settings(name, n))
    yield "linear", linear()
    if n <= PAPER_ROWS:
        own = settings(name, n) | PAPER
        yield "own", sl.SVMMixtureClassifier(C=C, random_state=seed, **own)
    few = seed < (CHOICE_DRAWS if n <= FEW else 1)
    if few and rivals and not (tiny and name == "mnist"):
        few = 8 if name == "covtype" else 4
        yield "additive", sl.AdditiveClassifier(**AS_RIVALS, n_bases=few)
    if few and rivals and n <= RBF_ROWS:
        yield "RBF", rbf(name)
    if few and rivals and n <= BOOSTED_ROWS:
        yield "boosted", boosted()


def scaler():
    from sklearn.preprocessing import MinMaxScaler

    return MinMaxScaler()


def linear():
    """`LinearSVC(loss="hinge")` on columns scaled to [0, 1]."""
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import LinearSVC

    return make_pipeline(scaler(), LinearSVC(loss="hinge"))


def rbf(name):
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    if name == "mnist":
        return make_pipeline(scaler(), SVC(gamma=0.02))
    return make_pipeline(StandardScaler(), SVC(C=10.0))


def boosted():
    """The paper's: 100 linear SVMs by AdaBoost."""
    from sklearn.ensemble import AdaBoostClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import LinearSVC

    weak = LinearSVC(loss="hinge")
    return make_pipeline(scaler(), AdaBoostClassifier(weak, n_estimators=100, random_state=0))


def measured(model, A, b, X, y, repeat):
    """Fit on (A, b), answer X: accuracy in %, seconds of the fit and of the quickest answer."""
    start = time.perf_counter(), time.process_time()
    model.fit(A, b)
    fitted = time.perf_counter() - start[0], time.process_time() - start[1]
    times = []
    for _ in range(repeat):
        begin = time.perf_counter()
        predicted = model.predict(X)
        times.append(time.perf_counter() - begin)
    return {
        "right": 100 * float(np.mean(predicted == y)),
        "fit_s": fitted[0],
        "fit_cpu_s": fitted[1],
        "predict_s": min(times),
    }
