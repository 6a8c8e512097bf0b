"""gamfit: a binomial GAM with a smooth a column, smoothness by REML, from columns in memory."""

import time

from .frames import columns, scores


def prepare(**options):
    import gamfit  # noqa: F401


def run(report, *, task, rows=50_000, **options):
    import gamfit
    import numpy as np

    table, y, varied = columns(task, "train", rows)
    formula = "y ~ " + " + ".join(f"s({name})" if name in varied else name for name in table)
    start = time.perf_counter()
    model = gamfit.fit({**table, "y": y.astype(float)}, formula, family="binomial")
    report["fit_s"] = time.perf_counter() - start
    report["rows"] = len(y)

    def score():
        test, y_test, _ = columns(task, "test")
        answer = model.predict({name: test[name] for name in table}, return_type="dict")
        return scores(y_test, np.asarray(answer["mean"]))

    return score
