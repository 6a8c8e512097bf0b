"""``streamlearn demo``: a dataset several times larger than the budget, from writing to plots.

Memory is measured in fresh processes: this module run as a program is one such process, which reads
a job as JSON, its one argument, and answers in JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import streamlearn as sl

from .data.files.regular import refuse_unwritable
from .warming import load_newton

if TYPE_CHECKING:
    from .data.dataset import Dataset

N_ROWS, N_COLUMNS = 3_000_000, 20
BLOCK_ROWS = 65_536
DRAWN = "abcdefgh"
"""Columns of which the target depends."""
SAMPLE = 10
"""Splines are computed for every tenth row; for all they take ten times that memory."""


def run_demo(
    n_rows: int | None,
    folder: str | None,
    plots: str,
    memory_budget: str,
    say: Callable[[str], object],
    *,
    overwrite: bool = False,
) -> dict[str, object]:
    """Write, describe, plan, train, evaluate and compare; what was found, as plain values.

    What an earlier demo left in `folder` is replaced only with `overwrite`.
    """
    refuse_unwritable(plots, folder=True)
    with tempfile.TemporaryDirectory(prefix="streamlearn-demo-") as temporary:
        root = Path(folder or temporary)
        refuse_unwritable(root, folder=True)
        root.mkdir(parents=True, exist_ok=True)
        return _run(
            N_ROWS if n_rows is None else n_rows, root, Path(plots), memory_budget, say, overwrite
        )


def _run(
    n_rows: int,
    root: Path,
    plots: Path,
    memory_budget: str,
    say: Callable[[str], object],
    overwrite: bool,
) -> dict[str, object]:
    from .config import format_bytes, parse_bytes

    began = time.perf_counter()
    budget = parse_bytes(memory_budget)
    data_path, model_path = str(root / "data.parquet"), str(root / "model.slm")
    small_path = str(root / "small.parquet")
    for path in (data_path, small_path, model_path):
        if Path(path).exists() and not overwrite:
            raise FileExistsError(f"{path} exists already; pass overwrite=True, or another folder")
    job = {"small": small_path, "budget": budget, "model": model_path}
    write_data(
        small_path, 3 * BLOCK_ROWS, overwrite=overwrite
    )  # more than a sample holds, in lanes that merge
    # Where kernels must be compiled that takes longest: it goes on while the table is written, in
    # two processes.  One takes the passes of Newton's method first, the other reading and splines,
    # so that each finds compiled what the other began with.
    with ExitStack() as stack:
        loading = [
            stack.enter_context(fresh_process({**job, "job": kind, "data": small_path}))
            for kind in ("load", "embed")
        ]
        say(f"Writing {n_rows:,} rows x {N_COLUMNS} columns to {data_path}")
        floor = write_data(data_path, n_rows, overwrite=overwrite)
        say("\nLoading libraries and kernels; the first time on a machine compiles them")
        seconds = [answer_of(process, "compiling")["load_seconds"] for process in loading]
        say(f"  {max(seconds):.1f} s")
    data = sl.open_dataset(data_path, target="y")
    train, test = data.split(0.9, seed=0)
    times = data.decoded_nbytes / budget
    say(f"\n{data!r}\n  {times:.1f} times the memory budget of {format_bytes(budget)}")
    with sl.config_context(memory_budget=budget):
        say(f"\nWhat one read says about it\n{data.summary()}")
        say(f"\nThe plan\n{sl.plan(make_model(), train)}")

    say("\nTraining in a fresh process")
    with fresh_process({**job, "job": "fit", "data": data_path}) as process:
        fitted = answer_of(process, "training")
    model = sl.load(model_path)
    say(f"{model}\n{model.certificate_!r}")

    from .estimator.scores.scoring import evaluate

    plots.mkdir(parents=True, exist_ok=True)
    with (
        fresh_process({**job, "job": "embed", "data": data_path}) as process,
        sl.config_context(memory_budget=budget),
    ):
        scores = evaluate(model, test, scoring=["accuracy", "log_loss"])
        report = model.report(test, output=plots / "streamlearn-demo.html")
        embedded = answer_of(process, "splines of all rows")

    result = {
        "rows": n_rows,
        "columns": N_COLUMNS,
        "data_bytes": data.decoded_nbytes,
        "memory_budget_bytes": budget,
        "peak_over_baseline_bytes": fitted["peak_over_baseline_bytes"],
        "baseline_bytes": fitted["baseline_bytes"],
        "precomputed_embeddings_bytes": SAMPLE * embedded["peak_over_baseline_bytes"],
        "fit_seconds": fitted["seconds"],
        "reads": model.n_passes_,
        "relative_gap": model.certificate_.relative_gap,
        **scores,
        "best_possible_log_loss": floor,
        "plots": draw(model, plots),
        "report": report,
        "seconds": time.perf_counter() - began,
    }
    rows = [
        ("the features as an array", result["data_bytes"]),
        ("memory budget", budget),
        ("peak over the baseline, this fit", result["peak_over_baseline_bytes"]),
        ("the same for precomputed splines (CSR)", result["precomputed_embeddings_bytes"]),
        ("baseline: the libraries, kernels loaded", result["baseline_bytes"]),
    ]
    say("\nMemory")
    for label, n_bytes in rows:
        say(f"  {label:<40} {'unknown' if n_bytes is None else format_bytes(n_bytes):>10}")
    say(f"  (splines: measured on every {SAMPLE}th row, times {SAMPLE}, before any solver has run)")
    say(
        f"\nAccuracy {scores['accuracy']:.4f}, log loss {scores['log_loss']:.4f} on held-out rows; "
        f"no model can do better than {floor:.4f}.\n"
        f"{result['reads']} reads, {result['fit_seconds']:.1f} s to fit, "
        f"relative gap {result['relative_gap']:.1e}; the demo took {result['seconds']:.0f} s."
    )
    if result["plots"]:
        say(f"Plots: {', '.join(result['plots'])}")
    else:
        say("\nWhat each column adds to the log-odds, from its least to its largest value")
        say("\n".join(text_curves(model, DRAWN)))
    say(f"Report: {report} (open it in a browser)")
    return result


def write_data(path: str, n_rows: int, *, overwrite: bool = False) -> float:
    """Write the rows in parts; returns the log loss of their true probabilities.

    Columns are uniform on [0, 1).  P(y = 1) = 1 / (1 + exp(-F)), where
    F = 2 sin 6a + 2 cos 9b + 12 (c - 1/2)^2 + d + e + f + g + h - 3; other columns are noise.
    """
    import numpy as np

    from .data.write.sink import open_sink
    from .engine.checkpoint.stopping import orderly_end

    names = [chr(ord("a") + j) for j in range(N_COLUMNS)]
    columns = [(name, "float32") for name in names] + [("y", "int8")]
    loss = 0.0
    with (
        orderly_end(),
        open_sink(path, columns=columns, format="parquet", reads=(), overwrite=overwrite) as sink,
    ):
        for part, start in enumerate(range(0, n_rows, BLOCK_ROWS)):
            rng = np.random.Generator(np.random.Philox(key=[0, part]))
            X = rng.random((N_COLUMNS, min(BLOCK_ROWS, n_rows - start)), dtype=np.float32)
            F = 2 * np.sin(6 * X[0]) + 2 * np.cos(9 * X[1]) + 12 * (X[2] - 0.5) ** 2
            F += X[3:8].sum(axis=0) - 3
            y = (rng.random(len(F)) < 1 / (1 + np.exp(-F))).astype(np.int8)
            loss += float(np.logaddexp(0, np.where(y == 1, -F, F), dtype=np.float64).sum())
            sink.write(part, 0, {**dict(zip(names, X, strict=True)), "y": y})
        sink.commit(n_rows)
    return loss / n_rows


def draw(model: object, folder: Path) -> list[str]:
    """Save the learned curves; nothing without matplotlib."""
    if find_spec("matplotlib") is None:
        return []
    import matplotlib as mpl

    mpl.use("Agg")
    path = folder / "streamlearn-demo.png"
    display = sl.AdditiveDisplay.from_estimator(model, features=list(DRAWN))
    display.figure_.savefig(path, dpi=120)
    return [str(path)]


def text_curves(model: sl.AdditiveClassifier, features: str, width: int = 60) -> list[str]:
    """The curves as lines of characters, a line a column, all with one vertical scale.

    Columns of numbers; the least and the largest value stand at the ends of a line.
    """
    import numpy as np

    knots = dict(zip(model.feature_names_in_, model.knots_, strict=True))
    curves = [
        model.shape_function(name, np.linspace(knots[name][0], knots[name][-1], width))
        for name in features
    ]
    low = min(float(curve.min()) for curve in curves)
    high = max(float(curve.max()) for curve in curves)
    utf = (sys.stdout.encoding or "").lower().startswith("utf")
    levels = np.array(
        list("\u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588" if utf else "_.-~=+*#")
    )
    scale = (len(levels) - 1) / ((high - low) or 1.0)
    return [
        f"  {name}  {''.join(levels[np.rint(scale * (curve - low)).astype(int)])}  "
        f"{curve.min():+.2f} to {curve.max():+.2f}"
        for name, curve in zip(features, curves, strict=True)
    ]


def fresh_process(job: dict[str, object]) -> subprocess.Popen[str]:
    """A job of this module, begun in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", __name__, json.dumps(job)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def answer_of(process: subprocess.Popen[str], doing: str) -> dict[str, float]:
    """The answer of a job's process, once it is done; a terminal is told the seconds it takes."""
    began, show = time.perf_counter(), sys.stderr.isatty()
    while True:
        try:
            answer, problems = process.communicate(timeout=1.0)
            break
        except subprocess.TimeoutExpired:
            if show:
                seconds = time.perf_counter() - began
                print(f"\r  {doing}: {seconds:.0f} s", end="", file=sys.stderr, flush=True)
    if show:
        print("\r" + 40 * " " + "\r", end="", file=sys.stderr, flush=True)
    if process.returncode:
        last = problems.strip().splitlines()[-1:] or ["no message"]
        raise sl.StreamlearnError(f"{doing}: a process of the demo failed: {last[0]}")
    return json.loads(answer.splitlines()[-1])


def measure(job: dict[str, object]) -> dict[str, float]:
    """The job's peak memory over what is resident once a small job has loaded all it needs."""
    began = time.perf_counter()
    from .engine.memory import peak_resident_bytes, resident_bytes

    run_job({**job, "data": job["small"]})
    load_seconds = time.perf_counter() - began
    if job["data"] == job["small"]:  # loading was all
        return {"load_seconds": load_seconds}
    with suppress(OSError):  # start the high-water mark again, where the system lets us
        Path("/proc/self/clear_refs").write_text("5")
    baseline, began = resident_bytes(), time.perf_counter()
    run_job(job)
    return {
        "load_seconds": load_seconds,
        "baseline_bytes": baseline,
        "peak_over_baseline_bytes": peak_resident_bytes() - baseline,
        "seconds": time.perf_counter() - began,
    }


def run_job(job: dict[str, object]) -> None:
    """Do what the job says on the training rows of its data, within its budget."""
    if job["job"] == "load":  # before anything that the other process compiles first
        load_newton()
    train, _ = sl.open_dataset(job["data"], target="y").split(0.9, seed=0)
    with sl.config_context(memory_budget=job["budget"]):
        JOBS[str(job["job"])](job, train)


def make_model() -> sl.AdditiveClassifier:
    """The model of the demo: curves alone, since the table is a sum of curves.

    The search for pairs would find none, and its kernels take seconds to compile.
    """
    return sl.AdditiveClassifier(interactions=0)


def fit_job(job: dict[str, object], train: Dataset) -> None:
    """Fit within the budget and save the model."""
    sl.save(make_model().fit(train), job["model"])


def embed_job(job: dict[str, object], train: Dataset) -> None:
    """The way without streamlearn: all rows as an array, and their spline features beside it."""
    import numpy as np

    rows, at = train.take(1 / SAMPLE), 0
    assert rows.n_rows is not None
    X = np.empty((rows.n_rows, rows.n_features), rows.dtype)
    for chunk in rows.iter_chunks():
        X[at : at + chunk.n_rows] = chunk.X
        at += chunk.n_rows
    sl.SplineEmbedding(output="phi").fit(X).transform(X)


def load_job(job: dict[str, object], train: Dataset) -> None:
    """A fit and what is asked of the model, with the kernels of all of it."""
    make_model().fit(train).score(train)


JOBS = {"fit": fit_job, "embed": embed_job, "load": load_job}


if __name__ == "__main__":
    print(json.dumps(measure(json.loads(sys.argv[1]))))
