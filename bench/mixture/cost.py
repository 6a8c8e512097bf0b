"""What a mixture costs beside a linear and an RBF SVM, all from one run on the same arrays."""

from .models import RBF_ROWS, measured, settings

LIMITS = {"fit / linear": 15.0, "predict / linear": 10.0, "RBF predict / ours": 20.0}
C = 0.1
"""As good as what the tables choose; times are the matter here."""


def run(session, name, X, y, X_test, y_test):
    """Odd or even digits, pixels from 0 to 1: ours, bare `LinearSVC(loss="hinge")`, RBF SVM.

    The RBF SVM learns from 10,000 rows only, so it has fewer vectors, and answers faster, than one
    of all rows.
    """
    from sklearn.svm import SVC, LinearSVC

    import streamlearn as sl

    n = 500 if session.options.tiny else len(y)
    A, b, T = X[:n] / 255, y[:n], X_test / 255
    ours = sl.SVMMixtureClassifier(C=C, **settings(name, n) | {"scaling": "none"})
    sl.warm("mixture")
    repeat = session.options.repeat
    models = {"ours": ours, "linear": LinearSVC(loss="hinge")}
    found = {label: measured(model, A, b, T, y_test, repeat) for label, model in models.items()}
    found["RBF"] = measured(SVC(gamma=0.02), A[:RBF_ROWS], b[:RBF_ROWS], T, y_test, 1)
    reads = [record for record in ours.history_ if record["phase"] == "all rows"]
    ratios = {
        "fit / linear": found["ours"]["fit_s"] / found["linear"]["fit_s"],
        "predict / linear": found["ours"]["predict_s"] / found["linear"]["predict_s"],
        "RBF predict / ours": found["RBF"]["predict_s"] / found["ours"]["predict_s"],
    }
    for what, ratio in ratios.items():
        session.add(
            {
                "data": f"cost, {name}",
                "rows": n,
                "what": what,
                "ratio": ratio,
                "limit": LIMITS[what],
                "ours, %": f"{found['ours']['right']:.2f}",
                "linear, %": f"{found['linear']['right']:.2f}",
                "fit, s": found["ours"]["fit_s"],
                "fit CPU, s": found["ours"]["fit_cpu_s"],
                "iterations": len(ours.history_),
                "iterations over all rows": len(reads),
                "reads": ours.n_passes_,
            }
        )
