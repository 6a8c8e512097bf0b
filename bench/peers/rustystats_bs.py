"""rustystats: a binomial GLM on B-splines (bs, df as ours), from a polars frame in memory."""

import time

from .frames import columns, scores


def prepare(**options):
    import polars  # noqa: F401
    import rustystats  # noqa: F401


def run(report, *, task, n_bases=20, rows=None, **options):
    import polars as pl
    import rustystats as rs

    table, y, varied = columns(task, "train", rows)
    terms = {
        name: {"type": "bs", "df": n_bases - 1} if name in varied else {"type": "linear"}
        for name in table
    }
    frame = pl.DataFrame({**table, "y": y.astype(float)})
    start = time.perf_counter()
    model = rs.glm_dict(response="y", terms=terms, data=frame, family="binomial").fit()
    report["fit_s"] = time.perf_counter() - start
    report["rows"] = len(y)

    def score():
        test, y_test, _ = columns(task, "test")
        test = pl.DataFrame({name: test[name] for name in table})
        return scores(y_test, model.predict(test))

    return score
