"""Incremental EM (Neal & Hinton 1998) against EM, by the objective after as many reads.

The incremental form keeps the sums of the E-step of each chunk, takes the old ones out and the new
ones in, and makes an M-step after every chunk: exact for the generative gate's centres and mixing
coefficients; each expert maximises its penalty and the chunks' quadratic surrogates, gradients as
they were when the chunk was last read, curvature taken once a read.  Sixteen chunks.
"""

import numpy as np

from bench import data

from . import generated

CHUNKS, COMPONENTS, ROWS = 16, 10, 16_384
READS = (1, 3, 5, 12)


def run(session):
    for name, table in (("pixels", pixels), ("covtype", covtype)):
        try:
            X, y = table(1_000 if session.options.tiny else ROWS)
        except data.Absent as error:
            session.note(f"{name} left out: {error}")
            continue
        rows, starts = begin(X, y)
        for start, (problem, at) in starts.items():
            plain = em(problem, at, rows, max(READS))
            other = incremental(problem, at, rows, max(READS))
            for n in READS:
                session.add(
                    {
                        "data": f"incremental, {name}",
                        "rows": len(y),
                        "start": start,
                        "reads": n,
                        "EM, objective a row": f"{plain[n - 1]:.4f}",
                        "incremental, objective a row": f"{other[n - 1]:.4f}",
                    }
                )


def begin(X, y):
    """The rows, and problems with where to start: clusters, or the optimum of an eighth of them."""
    from streamlearn.data.source import Chunk
    from streamlearn.mixture.em import initial
    from streamlearn.mixture.objective import Problem

    deviation = X.std(axis=0)
    X = (X - X.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
    rows = Chunk(X, y.astype(np.float64), None, range(len(y)))
    few = Chunk(X[::8], rows.y[::8], None, range(len(y[::8])))
    centres, tree = initial.clusters(rows, COMPONENTS, np.random.default_rng(0))
    tau, k = initial.temperature(rows, centres), tree.n_leaves
    problem = Problem("generative", "log_loss", tree, 1, tau, 1.0, 0.0, np.arange(k), None, None)
    clusters = initial.begin(problem, centres, rows)
    sample = maximise(problem._replace(C=8.0), clusters, few, 1e-4, 100, [])
    kept = sample.problem._replace(C=problem.C)  # some of its components may be gone
    return rows, {"clusters": (problem, clusters), "sample": (kept, sample.point.at)}


def em(problem, at, rows, n):
    """Objective a row after each of n reads of EM as it is."""
    seen = []
    maximise(problem, at, rows, 0.0, n + 1, seen)
    return (np.array(seen[1:]) / len(rows.y)).tolist()


def maximise(problem, at, rows, tol, max_reads, seen):
    from streamlearn.mixture.em import iteration
    from streamlearn.mixture.em.curvature import Curvature

    def record(state, *, trial, event):
        seen.append(state.point.objective)
        return ""

    return iteration.maximise(
        lambda problem, at, number, last: measure(problem, at, rows),
        lambda problem, at: Curvature(problem, at, rows, 1.0, form="newton"),
        problem,
        at,
        tol=tol,
        max_reads=max_reads,
        record=record,
    )


def measure(problem, at, rows):
    from streamlearn.mixture.objective import evaluation_fold

    fold = evaluation_fold(problem, at)
    return fold.finish(fold.step(fold.start(), rows))


def incremental(problem, at, rows, n):
    """The same, with an M-step after every chunk."""
    from streamlearn.data.source import Chunk
    from streamlearn.mixture.em.curvature import Curvature
    from streamlearn.mixture.objective import Parameters

    cuts = np.linspace(0, len(rows.y), CHUNKS + 1).astype(int)
    chunks = [
        Chunk(rows.X[a:b], rows.y[a:b], None, range(b - a))
        for a, b in zip(cuts[:-1], cuts[1:], strict=True)
    ]
    g = problem.tree.n_gates
    free = problem._replace(C=1e300)  # the penalty is that of all chunks together
    kept, seen = {}, []
    for _ in range(n):
        bend = Curvature(problem, at, rows, 1.0, form="newton")
        for c, chunk in enumerate(chunks):
            here = measure(free, at, chunk)
            sums = here.gradient[:g] / (2 * problem.tau) + here.mass[:, None] * at.rows[:g]
            kept[c] = (here.mass, sums, here.gradient[g:], len(chunk.y) * at.rows[g:])
            mass, sums, slopes, weighted = (
                sum(parts) for parts in zip(*kept.values(), strict=True)
            )
            share = sum(len(chunks[i].y) for i in kept) / len(rows.y)
            middle = weighted / (share * len(rows.y))
            step = np.zeros_like(at.rows)
            step[g:] = slopes / share - middle / problem.C
            experts = middle + bend.solve(step)[g:]
            mass = np.maximum(mass, 1e-9)
            at = Parameters(np.vstack([sums / mass[:, None], experts]), np.log(mass / mass.sum()))
        seen.append(measure(problem, at, rows).objective / len(rows.y))
    return seen


def pixels(n):
    X, y = next(generated.pixel_blocks(n, n))
    return X.astype(np.float64), y


def covtype(n):
    path = data.shared_folder() / "covtype" / "covtype_sample16.parquet"
    _, X, y = data.read_table(path)
    return np.column_stack(X)[:n].astype(np.float64), (y == 2)[:n]
