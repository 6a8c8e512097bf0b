"""The records that an archive may hold, by names that do not change when a file moves.

Nothing is imported by a name that a file gives: a name is looked up here, and the class is taken
from the place in this package that the table says.  A record (NamedTuple or dataclass) that a fold
state, a model's `_state` or a checkpoint holds needs an entry; a law in ``tests/laws`` says which
one is missing.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module

_PACKAGE = __name__.partition(".")[0]

RECORDS: dict[str, tuple[str, str | None]] = {
    "additive.Averaged": ("additive.stochastic.pegasos:Averaged", "additive.pegasos:Averaged"),
    "additive.Densities": ("additive.inspect.densities:Densities", None),
    "additive.Density": ("additive.inspect.densities:Density", "additive.distribution:Density"),
    "additive.DualState": ("additive.dual.epochs:DualState", "additive.dual_epochs:DualState"),
    "additive.GramSums": ("additive.basis.kernels:GramSums", "additive.kernels:GramSums"),
    "additive.MovedRows": ("additive.dual.cached_rows:MovedRows", None),
    "additive.Moments": ("additive.choose.gram:Moments", "additive.fold_gram:Moments"),
    "additive.Posterior": ("additive.smooth.posterior:Posterior", None),
    "additive.RowMoments": ("additive.smooth.moments:RowMoments", None),
    "additive.Sums": ("additive.basis.kernels:Sums", "additive.kernels:Sums"),
    "additive.Sweep": ("additive.dual.descent:Sweep", "additive.dual_cd:Sweep"),
    "data.Coding": ("data.encoding:Coding", None),
    "data.Csr": ("data.source:Csr", "data.source:Csr"),
    "data.Encoding": ("data.encoding:Encoding", None),
    "engine.Plan": ("engine.plan:Plan", "engine.plan:Plan"),
    "engine.Term": ("engine.plan:Term", "engine.plan:Term"),
    "estimator.Certificate": (
        "estimator.certificate:Certificate",
        "estimator.certificate:Certificate",
    ),
    "estimator.ClassOrder": ("estimator.rows.streams:ClassOrder", None),
    "mixture.Online": ("mixture.em.online:Online", "mixture.online:Online"),
    "mixture.Parameters": ("mixture.objective:Parameters", "mixture.objective:Parameters"),
    "mixture.Point": ("mixture.objective:EStep", "mixture.objective:Point"),
    "mixture.Problem": ("mixture.objective:Problem", "mixture.objective:Problem"),
    "mixture.Streamed": ("mixture.em.stream:Streamed", None),
    "mixture.Tree": ("mixture.gate:Tree", "mixture.gate:Tree"),
    "numeric.Bases": ("numeric.bases.bsplines:Bases", "numeric.bsplines:Bases"),
    "passes.Cdf": ("passes.summary.counts.quantiles:Cdf", "passes.quantiles:Cdf"),
    "passes.ColumnFacts": ("passes.summary.facts:ColumnFacts", None),
    "passes.Labels": ("passes.summary.labels:Labels", "passes.labels:Labels"),
    "passes.OrderBias": ("passes.summary.labels:OrderBias", "passes.labels:OrderBias"),
    "passes.RowState": ("passes.fold:RowState", "passes.fold:RowState"),
    "passes.Sample": ("passes.sample:Sample", "passes.sample:Sample"),
    "passes.Summary": ("passes.summary.summary:Summary", "passes.summary:Summary"),
    "passes.Waiting": ("passes.shuffling:Waiting", None),
    "pursuit.BoostAnswer": (
        "pursuit.boosting.reads:BoostAnswer",
        "pursuit.boost_reads:BoostAnswer",
    ),
    "pursuit.Boosted": ("pursuit.boosting.boosting:Boosted", "pursuit.boosting:Boosted"),
    "pursuit.Cells": ("pursuit.kernels:Cells", "pursuit.search:Cells"),
    "pursuit.Columns": ("pursuit.kernels:ScaledColumns", "pursuit.columns:Columns"),
    "pursuit.Divided": ("pursuit.boosting.reads:Divided", "pursuit.boost_reads:Divided"),
    "pursuit.Grown": ("pursuit.regression.growing:Grown", "pursuit.growing:Grown"),
    "pursuit.Learner": ("pursuit.boosting.rows:Learner", "pursuit.boost_rows:Learner"),
    "pursuit.Measured": ("pursuit.regression.reads:Measured", "pursuit.ridge_reads:Measured"),
    "pursuit.PSpline": ("pursuit.regression.smoothers:PSpline", "pursuit.smoothers:PSpline"),
    "pursuit.RidgeAnswer": (
        "pursuit.regression.reads:RidgeAnswer",
        "pursuit.ridge_reads:RidgeAnswer",
    ),
    "pursuit.Strength": ("pursuit.search:Strength", "pursuit.search:Strength"),
    "pursuit.SuperSmoother": (
        "pursuit.regression.supsmu:SuperSmoother",
        "pursuit.supsmu:SuperSmoother",
    ),
    "pursuit.Term": ("pursuit.regression.reads:Term", "pursuit.ridge_reads:Term"),
    "pursuit.Trial": ("pursuit.search:Trial", "pursuit.search:Trial"),
    "shareboost.Columns": (
        "shareboost.selection.candidates:SingleColumns",
        "shareboost.candidates:Columns",
    ),
    "shareboost.Layout": ("shareboost.design:Layout", "shareboost.design:Layout"),
    "shareboost.Pieces": ("shareboost.selection.candidates:Pieces", "shareboost.candidates:Pieces"),
    "shareboost.Point": ("shareboost.path:PathPoint", "shareboost.path:Point"),
    "shareboost.Products": (
        "shareboost.selection.candidates:Products",
        "shareboost.candidates:Products",
    ),
    "shareboost.Stumps": ("shareboost.selection.candidates:Stumps", "shareboost.candidates:Stumps"),
    "solvers.Calibration": ("solvers.calibration:Calibration", "solvers.calibration:Calibration"),
    "solvers.Clusters": ("solvers.kmeans:Clusters", "solvers.kmeans:Clusters"),
    "solvers.Evaluation": ("solvers.newton:Evaluation", "solvers.newton:Evaluation"),
    "supersparse.Curve": ("supersparse.selection:Curve", "supersparse.selection:Curve"),
    "supersparse.Deviation": ("supersparse.compress:Deviation", "supersparse.deviation:Deviation"),
    "supersparse.Equations": ("supersparse.equations:Equations", "supersparse.equations:Equations"),
    "supersparse.Found": ("supersparse.prototypes:Found", "supersparse.prototypes:Found"),
    "supersparse.Loss": ("supersparse.logistic:Loss", "supersparse.logistic:Loss"),
    "supersparse.Probe": ("supersparse.compress:_Probe", "supersparse.compress:_Probe"),
}
"""Name in the file -> where the class is defined today, and the place by which archives written
before this table name it (None for records that are younger)."""

_BY_PLACE = {f"{_PACKAGE}.{place}": name for name, (place, _) in RECORDS.items()}
_BY_OLD_PLACE = {f"{_PACKAGE}.{old}": name for name, (_, old) in RECORDS.items() if old}


def record_name(kind: type) -> str | None:
    """The name under which an archive holds records of a class; None if it may not hold them."""
    return _BY_PLACE.get(f"{kind.__module__}:{kind.__qualname__}")


@cache
def record_class(name: str) -> type | None:
    """The class of the records that an archive calls `name`; None if there is none."""
    name = _BY_OLD_PLACE.get(name, name)
    if name not in RECORDS:
        return None
    module, _, of_module = RECORDS[name][0].partition(":")
    found: type = getattr(import_module(f"{_PACKAGE}.{module}"), of_module)
    return found
