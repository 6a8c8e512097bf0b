"""Nanoseconds a value of one epoch of additive dual coordinate descent on dense float32 rows."""

import time


def prepare(**options):
    import streamlearn

    streamlearn.warm()


def run(report, *, rows, columns, penalty_order=0, n_bases=10, C=0.01, seed=0, **options):
    import numpy as np

    from bench.pixels import dense_pixels
    from streamlearn.additive.basis.kernels import NONE, DualProblem, coordinates_rows
    from streamlearn.additive.dual.descent import shuffled
    from streamlearn.additive.dual.epochs import DualEpochs, DualState
    from streamlearn.numeric.bases.bsplines import make_bases
    from streamlearn.numeric.bases.roughness import make_reference, make_roughness
    from streamlearn.numeric.losses import Hinge

    X, y = dense_pixels(rows, columns, seed)
    bases = make_bases([np.linspace(0, 1, n_bases)] * columns, [1] * columns)
    U, prepared = coordinates_rows(X, bases, "C"), bases._replace(prepared=True)
    roughness = make_roughness(bases, penalty_order, "paper" if penalty_order == 0 else "integral")
    reference = make_reference(roughness, np.full(bases.dim, 1 / n_bases))
    problem = DualProblem(roughness, reference, C, 1.0)
    state = DualState(np.zeros((rows, 1), np.float32), np.zeros((1, bases.dim)), np.zeros(1))
    epochs = DualEpochs(U, prepared, Hinge(), problem, y, NONE, state)
    seconds = []
    for epoch in range(6):
        order, start = shuffled(rows, (seed, epoch)), time.perf_counter()
        epochs.visit([order])
        seconds.append(time.perf_counter() - start)
    report["fit_s"] = min(seconds)
    report["ns_a_value"] = 1e9 * min(seconds) / X.size
