"""Every estimator with nothing set, against linear models and boosted trees with nothing set.

Ours read parquet under 512 MiB; the rivals hold a frame, whose numbers they scale and whose words
they write as levels (boosted trees take them as categories).  Tables are cut to 20,000 rows by a
fixed seed, or to ``--rows``.  Quality is the share of held-out rows whose class is right, or R^2.
Defaults were chosen on the tables marked so; the others were only reported.
"""

from pathlib import Path

import numpy as np

from .data import shared_folder

BUDGET = "512MiB"
ROWS = 20_000
"""Most rows of a table, in training and in test."""
CLASSIFIERS = ("LogisticRegression", "LinearSVC", "HistGradientBoostingClassifier")
REGRESSORS = ("Ridge", "HistGradientBoostingRegressor")
LINEAR = ("LogisticRegression", "LinearSVC", "Ridge")
TINY = ("breast cancer", "diabetes"), 300
"""Tables and rows of the tiny run."""
CHOSEN_ON = (
    *("adult", "satimage", "covtype", "california_housing", "planted classes"),
    *("isolet", "diabetes"),
)
NOISE = 2.0
"""Standard errors of a model's own quality by which it may be behind: that is called noise."""


def run(session):
    rows = TINY[1] if session.options.tiny else session.options.rows or ROWS
    found = {}
    for name, make in TABLES.items():
        if session.options.tiny and name not in TINY[0]:
            continue
        models = [*ours(name in NUMBERS)]
        if session.options.rival_seconds:
            models += REGRESSORS if name in NUMBERS else CLASSIFIERS
        models = [model for model in models if session.wants(f"{name}: {model}")]
        if not models:
            continue
        train, test = written(session.options.data, name, make, rows)
        for model in models:
            report = session.measure(
                "defaults",
                label=f"{name}: {model}",
                timeout=session.options.rival_seconds or 7200,
                may_fail=True,
                model=model,
                budget=BUDGET,
                train=str(train),
                test=str(test),
                seed=session.options.seed,
            )
            found[name, model] = report
            session.add(row(name, model, report))
    for model in dict.fromkeys(model for _, model in found):
        compare(session, found, model)


def ours(regression):
    """Names of the public estimators that learn classes, or numbers."""
    import streamlearn as sl
    from streamlearn.estimator.base import StreamClassifier, StreamRegressor

    kind = StreamRegressor if regression else StreamClassifier
    public = {name: getattr(sl, name) for name in sorted(sl.__all__)}
    return [name for name, it in public.items() if isinstance(it, type) and issubclass(it, kind)]


def row(name, model, report):
    peak = report.get("over_baseline_bytes")
    converged = report.get("converged")
    return {
        "table": name,
        "chosen on": "yes" if name in CHOSEN_ON else "",
        "model": model,
        "right, or R^2": report.get("quality"),
        "log-loss": report.get("log_loss"),
        "converged": None if converged is None else ("yes" if converged else "no"),
        "user s": report.get("fit_user_s"),
        "seconds": report.get("fit_s"),
        "peak, MiB": None if peak is None else peak / 2**20,
        "reads": report.get("n_passes"),
        "why not": report.get("error"),
    }


def compare(session, found, model):
    """A note: where a model is worse than the best linear one by more than noise."""
    import streamlearn as sl

    if model not in sl.__all__:
        return
    lost, n, stopped = [], 0, []
    for name in dict.fromkeys(name for name, _ in found):
        own = found.get((name, model), {})
        linear = [found.get((name, one), {}).get("quality") for one in LINEAR]
        linear = [quality for quality in linear if quality is not None]
        if own.get("converged") is False:
            stopped.append(name)
        if "quality" not in own or not linear:
            continue
        n += 1
        behind = max(linear) - own["quality"]
        if behind > NOISE * own["standard_error"]:
            lost.append(f"{name} by {behind:.3f}{' (chosen on)' * (name in CHOSEN_ON)}")
    session.note(
        f"{model}: no worse than the best linear model, to {NOISE:g} standard errors, on "
        f"{n - len(lost)} of {n} tables; worse: {', '.join(lost) or 'none'}; not converged: "
        f"{', '.join(stopped) or 'none'}"
    )


# Tables: functions of nothing that give (train, test) as arrow tables with a column "target".


def written(folder, name, make, rows):
    """Parquet files of at most so many rows, drawn by a fixed seed in the order of the file."""
    import pyarrow.parquet as pq

    stem = f"defaults-{name.replace(' ', '-')}-{rows}"
    paths = [Path(folder) / f"{stem}-{part}.parquet" for part in ("train", "test")]
    if not all(path.exists() for path in paths):
        for path, table in zip(paths, make(), strict=True):
            pq.write_table(drawn(table, rows), path)
    return paths


def drawn(table, rows):
    import pyarrow as pa

    if len(table) <= rows:
        return table
    some = np.sort(np.random.default_rng(0).permutation(len(table))[:rows])
    return table.take(pa.array(some))


def given(name, train="train.parquet", test="test.parquet", without=()):
    import pyarrow.parquet as pq

    both = (pq.read_table(shared_folder() / name / file) for file in (train, test))
    return tuple(table.drop_columns(list(without)) for table in both)


def divided(table):
    """A quarter of the rows held out, by a fixed seed."""
    import pyarrow as pa

    rows = np.random.default_rng(0).permutation(len(table))
    cut = len(table) * 3 // 4
    return tuple(table.take(pa.array(part)) for part in (rows[:cut], rows[cut:]))


def read(name, file):
    import pyarrow.parquet as pq

    return pq.read_table(shared_folder() / name / file)


def retargeted(table, column):
    """Another column of a table as the target, as a number; the old target is a column no more."""
    import pyarrow as pa

    y = pa.array(table[column].to_numpy().astype(np.float32))
    return table.drop_columns(["target", column]).append_column("target", y)


def bundled(load):
    """A small table that comes with scikit-learn."""
    import pyarrow as pa
    from sklearn import datasets

    frame = getattr(datasets, f"load_{load}")(as_frame=True).frame
    return divided(pa.Table.from_pandas(frame, preserve_index=False))


def planted():
    """Three classes of 20 columns: curves, a product, regions, units that differ by 10,000."""
    rng = np.random.default_rng(0)
    X = rng.random((60_000, 20), dtype=np.float32)
    f = np.column_stack(
        [
            3 * np.sin(6 * X[:, 0]) + 2 * X[:, 1],
            12 * (X[:, 2] - 0.5) * (X[:, 3] - 0.5) + 4 * (X[:, 4] > 0.7),
            3 * np.abs(X[:, 5] - 0.5) + 2 * X[:, 6] + X[:, 7],
        ]
    )
    y = (f + rng.gumbel(scale=0.5, size=f.shape)).argmax(axis=1).astype(np.int8)
    return divided(arrow(in_units(X), y))


def friedman():
    """The first function of Friedman (1991), ten columns of noise, units that differ."""
    rng = np.random.default_rng(1)
    X = rng.random((60_000, 15), dtype=np.float32)
    y = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2
    y += 10 * X[:, 3] + 5 * X[:, 4] + rng.standard_normal(len(X))
    return divided(arrow(in_units(X), y.astype(np.float32)))


def in_units(X):
    """Columns in units from 0.01 to 100, and shifted by three of each."""
    factor = (10.0 ** np.linspace(-2, 2, X.shape[1])).astype(np.float32)
    return (X + 3) * factor


def arrow(X, y):
    import pyarrow as pa

    return pa.table({**{f"x{j}": X[:, j] for j in range(X.shape[1])}, "target": y})


TABLES = {
    "adult": lambda: given("adult"),
    "a9a": lambda: given("a9a"),
    "satimage": lambda: given("satimage"),
    "pendigits": lambda: given("pendigits"),
    "isolet": lambda: given("isolet", "isolet1_train.parquet", "isolet5_test.parquet"),
    "covtype": lambda: divided(read("covtype", "covtype_sample16.parquet")),
    "kdd99": lambda: given("kdd99", "train10pct.parquet", "test_corrected.parquet", ["label"]),
    "mnist": lambda: given("mnist"),
    "breast cancer": lambda: bundled("breast_cancer"),
    "planted classes": planted,
    "california_housing": lambda: divided(read("california_housing", "cal_housing.parquet")),
    "covtype's elevation": lambda: divided(
        retargeted(read("covtype", "covtype_sample16.parquet"), "Elevation")
    ),
    "adult's hours": lambda: tuple(retargeted(part, "hours_per_week") for part in given("adult")),
    "diabetes": lambda: bundled("diabetes"),
    "friedman": friedman,
}
"""Name -> () -> (train, test)."""
NUMBERS = ("california_housing", "covtype's elevation", "adult's hours", "diabetes", "friedman")
"""Tables whose target is a number."""
