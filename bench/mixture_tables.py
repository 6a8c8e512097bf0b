"""Fu 2010's toys and tables: mixtures of linear SVMs beside linear, RBF, boosted and additive ones.

Ours have gate="linear" and expert_loss="log_loss" on the real sets; C and nu are fixed by the
number of training rows (`settings`), never by test rows.  Prediction times are the least of
``--repeat``, as multiples of `LinearSVC` on the same rows in the same process.
"""

import time
import warnings
from pathlib import Path

import numpy as np

from . import data, toys

SIZES = (100, 500, 1_000, 5_000, 10_000)
RBF_ROWS = 10_000
"""Most training rows of the RBF SVM, and BOOSTED_ROWS of the boosted one, here."""
BOOSTED_ROWS = 1_000
TEST_ROWS = 20_000
"""Rows that models of covtype are tested on."""
PAPER = {
    ("mnist", "linear"): (80.62, 82.71, 84.71, 88.47, 89.60, 90.28),
    ("mnist", "ours"): (82.82, 90.12, 92.82, 93.91, 94.89, 95.20),
    ("covtype", "linear"): (64.79, 73.34, 74.78, 75.97, 76.19),
    ("covtype", "ours"): (65.98, 73.62, 74.89, 77.12, 77.34),
}


def run(session):
    warnings.simplefilter("ignore")
    if session.wants("toys"):
        toy_rows(session)
    for name, table in (("mnist", mnist), ("covtype", covtype)):
        if session.wants(name):
            try:
                tables(session, name, *table())
            except data.Absent as error:
                session.note(f"{name} left out: {error}")
    if session.wants("pixels"):
        pixels(session)


def settings(name, n):
    """Parameters of ours for n training rows."""
    common = {"gate": "linear", "expert_loss": "log_loss", "nu": min(0.02 * n, 50.0)}
    if name == "mnist":
        C = 1.0 if n < 5_000 else 0.1
        return common | {"C": C, "scaling": "range", "max_passes": 40, "tol": 1e-4}
    if n > 20_000:
        return common | {"C": 1.0, "n_components": 50, "max_passes": 50}
    return common | {"C": 0.01 if n < 1_000 else 0.1, "max_passes": 30}


def toy_rows(session):
    from streamlearn import MixtureDisplay, SVMMixtureClassifier

    n_starts = 2 if session.options.tiny else 5
    for name, (X, y), k, parameters in (
        ("circle", toys.circle(), 4, {"gate": "linear", "expert_loss": "log_loss", "C": 100.0}),
        ("spirals", toys.spirals(), 20, {"gate": "generative", "C": 1000.0}),
    ):
        fits = [
            SVMMixtureClassifier(k, nu=0.0, random_state=seed, **parameters).fit(X, y)
            for seed in range(n_starts)
        ]
        right = [model.score(X, y) for model in fits]
        best = fits[int(np.argmax(right))]
        picture(session, name, MixtureDisplay, best, X, y)
        session.add(
            {
                "data": name,
                "rows": len(y),
                "ours, %": 100 * max(right),
                "components": best.n_components_,
                "linear, %": 100 * linear().fit(X, y).score(X, y),
                "limit, %": {"circle": 97.0, "spirals": 98.0}[name],
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


def tables(session, name, X, y, X_test, y_test):
    sizes = (100,) if session.options.tiny else SIZES
    n_draws = 1 if session.options.tiny else 10
    for at, n in enumerate(sizes):
        draws = [draw(session, name, X, y, X_test, y_test, n, seed) for seed in range(n_draws)]
        summarise(session, name, n, at, draws)
    if session.options.tiny:
        return
    n = len(y) if name == "mnist" else 70_000
    summarise(session, name, n, 5, [draw(session, name, X, y, X_test, y_test, n, 0)])


def draw(session, name, X, y, X_test, y_test, n, seed):
    """All models on one draw of n training rows: accuracy, seconds, components."""
    import streamlearn as sl

    rows = np.random.default_rng([session.options.seed, seed]).permutation(len(y))
    train = rows[:n]
    if X_test is None:  # of the rest
        X_test, y_test = (part[rows[n:][:TEST_ROWS]] for part in (X, y))
    if session.options.tiny:
        X_test, y_test = X_test[:500], y_test[:500]
    A, b = X[train], y[train]
    found = {}

    def measure(label, model):
        start = time.perf_counter()
        model.fit(A, b)
        fitted = time.perf_counter()
        times = []
        for _ in range(session.options.repeat):
            begin = time.perf_counter()
            predicted = model.predict(X_test)
            times.append(time.perf_counter() - begin)
        right = 100 * float(np.mean(predicted == y_test))
        found[label] = {"right": right, "fit_s": fitted - start, "predict_s": min(times)}
        return model

    ours = measure("ours", sl.SVMMixtureClassifier(random_state=seed, **settings(name, n)))
    found["ours"]["components"] = ours.n_components_
    found["ours"]["passes"] = ours.n_passes_
    measure("linear", linear())
    if seed == 0 and not (session.options.tiny and name == "mnist"):
        measure("additive", sl.AdditiveClassifier(n_bases=8 if name == "covtype" else 4))
    rivals = session.options.rival_seconds > 0 and seed < 3
    if rivals and n <= RBF_ROWS:
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler
        from sklearn.svm import SVC

        gamma = {"gamma": 0.02} if name == "mnist" else {"C": 10.0}
        first = scaler() if name == "mnist" else StandardScaler()
        measure("RBF", make_pipeline(first, SVC(**gamma)))
    if rivals and n <= BOOSTED_ROWS:
        from sklearn.ensemble import AdaBoostClassifier
        from sklearn.pipeline import make_pipeline
        from sklearn.svm import LinearSVC

        weak = LinearSVC(loss="hinge")
        boosted = AdaBoostClassifier(weak, n_estimators=100, random_state=0)
        measure("boosted", make_pipeline(scaler(), boosted))
    return found


def scaler():
    from sklearn.preprocessing import MinMaxScaler

    return MinMaxScaler()


def linear():
    """`LinearSVC(loss="hinge")` on columns scaled to [0, 1]."""
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import LinearSVC

    return make_pipeline(scaler(), LinearSVC(loss="hinge"))


def summarise(session, name, n, at, draws):
    def values(label, key):
        return [found[label][key] for found in draws if label in found]

    def shown(label):
        right = values(label, "right")
        return f"{np.mean(right):.2f} ± {np.std(right):.2f}" if right else None

    def ratio(label, other, key):
        a, b = values(label, key), values(other, key)
        return float(np.median(a) / np.median(b)) if a and b else None

    paper, paper_linear = PAPER[name, "ours"], PAPER[name, "linear"]
    session.add(
        {
            "data": name,
            "rows": n,
            "draws": len(draws),
            "ours, %": shown("ours"),
            "paper, %": paper[at] if at < len(paper) else None,
            "components": f"{np.mean(values('ours', 'components')):.1f}",
            "linear, %": shown("linear"),
            "paper linear, %": paper_linear[at] if at < len(paper_linear) else None,
            "RBF, %": shown("RBF"),
            "boosted, %": shown("boosted"),
            "additive, %": shown("additive"),
            "predict / linear": ratio("ours", "linear", "predict_s"),
            "RBF predict / ours": ratio("RBF", "ours", "predict_s"),
            "fit / linear": ratio("ours", "linear", "fit_s"),
        }
    )


def mnist():
    shared = data.shared_folder()
    (_, X, y), (_, X_test, y_test) = data.mnist(shared)
    return np.column_stack(X).astype(np.float32), y, np.column_stack(X_test).astype("f4"), y_test


def covtype():
    _, X, y = data.read_table(data.shared_folder() / "covtype" / "covtype_sample16.parquet")
    return np.column_stack(X).astype(np.float32), (y == 2).astype(np.int8), None, None


def pixels(session):
    """10 M pixels of 33 channels from disk: trained, scored and predicted in bounded memory."""
    import streamlearn as sl

    n = 5_000 if session.options.tiny else 10_000_000
    budget = "256MiB"
    path = toys.pixel_file(session.options.data, n)
    rows = sl.open_dataset(str(path), target="y")
    parameters = {"gate": "linear", "expert_loss": "log_loss", "max_passes": 12}
    with sl.config_context(memory_budget=budget):
        start = time.perf_counter()
        model = sl.SVMMixtureClassifier(**parameters).fit(rows)
        fitted = time.perf_counter()
        out = session.folder / "answers"
        model.predict_to(rows, str(out))
        done = time.perf_counter()
        right = model.score(rows)
    session.add(
        {
            "data": "pixels",
            "rows": n,
            "ours, %": 100 * right,
            "components": model.n_components_,
            "passes": model.n_passes_,
            "budget": budget,
            "plan, MiB": model.plan_.peak_bytes / 2**20,
            "fit, s": fitted - start,
            "predict, s": done - fitted,
        }
    )
