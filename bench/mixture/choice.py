"""Gate and loss of the tables' mixtures, compared on training rows alone."""

import itertools

import numpy as np

from . import models

ROWS = 10_000
GATES = ("linear", "generative", "rbf")
LOSSES = ("log_loss", "squared_hinge")


def run(session, name, X, y, *_):
    """A row for each gate and loss: accuracy on the last quarter of the rows, at its best C."""
    from streamlearn import SVMMixtureClassifier

    tiny = session.options.tiny
    n = 200 if tiny else ROWS
    rows = np.random.default_rng(session.options.seed).permutation(len(y))[:n]
    A, b, cut = X[rows], y[rows], n * 3 // 4
    given = models.settings(name, n) | {"max_passes": models.CHOICE_PASSES}
    for gate, loss in itertools.product(GATES, LOSSES):
        right = {}
        for C in (1.0,) if tiny else (*models.GRID, 10.0):
            model = SVMMixtureClassifier(C=C, **given | {"gate": gate, "expert_loss": loss})
            right[C] = 100 * model.fit(A[:cut], b[:cut]).score(A[cut:], b[cut:])
        best = max(right, key=right.get)
        session.add(
            {
                "data": f"choice, {name}",
                "rows": cut,
                "gate": gate,
                "loss": loss,
                "C": best,
                "held out, %": right[best],
            }
        )
