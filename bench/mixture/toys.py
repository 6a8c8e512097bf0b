"""Circle and spirals of Fu 2010, Fig. 3 and 4: five seeds of ours and of the paper's own gate."""

from pathlib import Path

import numpy as np

from . import generated, models


def run(session):
    from sklearn.svm import SVC

    from streamlearn import MixtureDisplay, SVMMixtureClassifier

    n_starts = 2 if session.options.tiny else 5
    for name, (X, y), k, parameters in (
        (
            "circle",
            generated.circle(),
            4,
            {"gate": "linear", "expert_loss": "log_loss", "C": 100.0},
        ),
        ("spirals", generated.spirals(), 20, {"gate": "generative", "C": 1000.0}),
    ):
        fits = [
            SVMMixtureClassifier(k, nu=0.0, random_state=seed, **parameters).fit(X, y)
            for seed in range(n_starts)
        ]
        right = [model.score(X, y) for model in fits]
        best = fits[int(np.argmax(right))]
        own = [
            SVMMixtureClassifier(k, nu=0.0, C=100.0, n_init=3, random_state=seed, **models.PAPER)
            for seed in range(n_starts)
        ]
        of_own = [model.fit(X, y).score(X, y) for model in own]
        svm = SVC(C=parameters["C"], gamma="scale").fit(X, y)
        picture(session, name, MixtureDisplay, best, X, y)
        session.add(
            {
                "data": name,
                "rows": len(y),
                "ours, %": 100 * max(right),
                "at least, %": {"circle": 97.0, "spirals": 98.0}[name],
                "components": best.n_components_,
                "RBF gate and hinge, each seed, %": " ".join(f"{100 * r:.1f}" for r in of_own),
                "each at least, %": {"circle": 95.0, "spirals": 98.0}[name],
                "their components": " ".join(str(model.n_components_) for model in own),
                "paper, %": {"circle": None, "spirals": 99.7}[name],
                "linear, %": 100 * models.linear().fit(X, y).score(X, y),
                "RBF SVM, %": 100 * svm.score(X, y),
                "its vectors": len(svm.support_),
                "paper's vectors": {"circle": "71", "spirals": "over 750"}[name],
            }
        )


def picture(session, name, display, model, X, y):
    """The map of the best start beside the likelihood of its iterations."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained")
    display.from_estimator(model, X, y, ax=left)
    first = [record for record in model.history_ if record["phase"] == "sample-1"]
    for key in ("objective", "log_likelihood"):
        right.plot([record[key] for record in first], label=key)
    right.set(xlabel="iteration", title=f"{name}: {100 * model.score(X, y):.1f} %")
    right.legend()
    path = Path(session.options.results, f"mixture-{name}.png")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)
    session.note(f"{name}: picture in {path.name}")
