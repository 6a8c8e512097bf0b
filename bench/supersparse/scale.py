"""Scale: 10 M rows x 20 columns (``--rows``), m = 50, 512 MiB budget; a read beside decoding.

The ratio is CPU seconds of a read that scores one candidate (its equations and its gradients) over
the larger of decoding alone, and similarities and products alone on rows in memory.
"""

import time

import numpy as np

import streamlearn as sl
from bench import data
from bench.run import mib
from streamlearn.data.source import Chunk
from streamlearn.engine.blas import one_blas_thread
from streamlearn.passes.fold import Fold, run_fold
from streamlearn.supersparse.prototypes import Candidate, Problem, candidates_fold
from streamlearn.supersparse.similarity import make_similarity

PASSES = 5
"""The summary's read included: what the search gains with more of them is not the matter here."""


def run(session):
    tiny = session.options.tiny
    rows, columns, m = (8_000, 8, 5) if tiny else (session.options.rows or 10_000_000, 20, 50)
    task = data.generated(session.options.data, rows, columns, seed=session.options.seed)
    report = session.measure(
        "supersparse",
        label=f"scale: {task.name}, m = {m}",
        task=task.asdict(),
        budget="512MiB",
        n_prototypes=m,
        passes=PASSES,
    )
    session.add(
        {
            "table": "scale",
            "data": task.name,
            "m": m,
            "budget": "512MiB",
            "peak, MiB": mib(report.get("over_baseline_bytes")),
            "seconds": report.get("fit_s"),
            "passes": report.get("n_passes"),
            "accuracy": report.get("accuracy"),
            **costs(task, m, session.options.repeat),
        }
    )


def costs(task, m, repeat):
    dataset = sl.open_dataset(task.train, target=task.target)
    refs = dataset.refs()[:8]
    with dataset.reader() as reader:
        chunks = [copy(reader.read(ref)) for ref in refs]
    rng = np.random.default_rng(0)
    Z = chunks[0].X[rng.permutation(chunks[0].n_rows)[:m]].astype(np.float64)
    problem = Problem(make_similarity("rbf", gamma=0.5), 1e-6, 2, np.zeros(1))
    fold = candidates_fold(problem, [Candidate(Z, rng.standard_normal((m + 1, 1)))])
    with one_blas_thread():
        decode = least(repeat, lambda: decode_only(dataset, refs))
        own = least(repeat, lambda: run_fold(Fold(list, products(problem, Z)), chunks))
        both = least(repeat, lambda: score(dataset, refs, fold))
    return {
        "decoding, CPU s": decode,
        "similarities and products, CPU s": own,
        "read that scores one, CPU s": both,
        "ratio": both / max(decode, own),
    }


def products(problem, Z):
    """The same matrix products as a candidate's, and nothing else."""

    def step(state, chunk):
        for a in range(0, chunk.n_rows, 512):
            X = np.ascontiguousarray(chunk.X[a : a + 512], np.float64)
            S = problem.similarity.values(X, Z)
            S.T @ S
            (S.T @ X)
        return state

    return step


def decode_only(dataset, refs):
    with dataset.reader() as reader:
        for ref in refs:
            reader.read(ref)


def score(dataset, refs, fold):
    state = fold.start()
    with dataset.reader() as reader:
        for ref in refs:
            chunk = reader.read(ref)
            chunk.y = chunk.y.astype(np.float64)
            state = fold.step(state, chunk)
    return fold.finish(state)


def copy(chunk):
    return Chunk(np.array(chunk.X), chunk.y.astype(np.float64), None, range(chunk.n_rows))


def least(repeat, function):
    seconds = []
    for _ in range(repeat):
        start = time.process_time()
        function()
        seconds.append(time.process_time() - start)
    return min(seconds)
