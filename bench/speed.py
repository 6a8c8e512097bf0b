"""Seconds as ratios, each from one run on one machine: ours from parquet under a 256 MiB budget,
theirs from arrays in memory, the same number of threads each.
"""

import subprocess

from . import data, pixels, shapes
from .peers.ours import SAID

RIVALS = (
    "rustystats_bs",
    "lightgbm_stumps",
    "sgd_splines",
    "vowpal_bins",
    "pygam_logistic",
    "gamfit_reml",
)
"""Measured with ``--rivals``, each held to ``--rival-seconds``; no limit is set for them."""
BUDGET = "256MiB"
KINDS = ("fold", "cache")


def run(session):
    session.note(SAID)
    session.measure("startup", label="compile", what="warm")  # so that no fit below pays for it
    for section in (covtype, million, gradient_pass, sparse_hinge, dense_epoch, start):
        if session.wants(section.__name__):
            section(session)
    if session.options.only.startswith("shapes"):  # alone: an hour, and a table of its own
        shapes.run(session)


def covtype(session):
    """Log-loss fit on covtype, class 2 against the rest, 20 bases."""
    if session.options.tiny:
        task = data.generated(session.options.data, 6_000, 8, seed=session.options.seed)
    else:
        try:
            task = data.real(session.options.data, "covtype2")
        except data.Absent as reason:
            return session.note(f"covtype left out: {reason}")
    # the rival's C = 1 bears on 20 coefficients a column apart, ours on the roughness of a curve
    ours = fit(session, "ours", task, C=10.0)
    label = f"fit, {task.name}"
    against(session, label, ours, fit(session, "spline_linear", task), 0.5)
    against(session, label, ours, sparse(session, task), None)
    against(session, label, ours, fit(session, "ebm", task), 0.05)
    more_rivals(session, label, task, ours)
    null(session, task, ours)


def million(session):
    """The 1 M x 20 task to a certified gap of 1e-6."""
    rows, columns = (8_000, 8) if session.options.tiny else (1_000_000, 20)
    task = data.generated(session.options.data, rows, columns, seed=session.options.seed)
    ours = fit(session, "ours", task, tol=1e-6)
    theirs = fit(session, "spline_linear", task)
    label = f"fit to a gap of 1e-6, {task.name}"
    against(session, label, ours, theirs, 0.25)
    against(session, label, ours, sparse(session, task), None)
    more_rivals(session, label, task, ours)
    null(session, task, ours)
    if "error" not in ours:
        session.note(
            f"{task.name}: {ours['n_passes']} reads (at most 8), relative gap "
            f"{ours['relative_gap']:.1e} (at most 1e-6)."
        )
        if "error" not in theirs:
            session.note(
                f"{task.name}: test log-loss {ours['log_loss'] - theirs['log_loss']:+.5f} against "
                "SplineTransformer + LogisticRegression (within 0.0003)."
            )


def gradient_pass(session):
    """One gradient pass against reading the same row groups and computing nothing."""
    rows, columns = (8_000, 8) if session.options.tiny else (20_000_000, 50)
    for pages, limit in (("dictionary", 1.5), ("plain", 2.0)):
        task = data.generated(
            session.options.data, rows, columns, pages=pages, seed=session.options.seed
        )
        label = f"gradient pass, {task.name}, {pages} pages"
        floor = session.best("read_only", label=label, task=task.asdict())
        direct = passes(session, label, task, scratch=False)
        against(session, label, direct, floor, limit, theirs_is="read_row_group")
        if pages == "plain":
            label = f"gradient pass from scratch, {task.name}"
            cached = passes(session, label, task, scratch=str(session.folder))
            against(session, label, cached, floor, 1.0, theirs_is="read_row_group, plain pages")
            if cached.get("write_s"):
                session.note(f"{task.name}: the pass that writes it: {cached['write_s']:.2f} s")


def passes(session, label, task, *, scratch):
    """A few passes of a fit; `fit_s` becomes the seconds of its quickest gradient pass."""
    report = session.measure(
        "ours",
        label=label,
        task=task.asdict(),
        budget=BUDGET,
        solver="newton",
        max_passes=5,
        tol=1e-7,  # smaller ones are computed in float64 throughout
        scratch=scratch,
    )
    if "error" in report:
        return report
    # neither the summary nor the reads that score the model
    newton = [r for r in report["reads"] if r["name"].startswith("newton-")]
    seconds = {kind: [r["s"] for r in newton if r["kind"] == kind] for kind in KINDS}
    gradient = seconds["fold"]
    if not gradient:
        return {**report, "error": "the fit made no gradient pass"}
    return {**report, "fit_s": min(gradient), "write_s": min(seconds["cache"], default=None)}


def sparse_hinge(session):
    """Additive hinge on CSR pixels in memory, to within 1 % of the optimum, reading included."""
    try:
        task = pixels.pixel_task(session.options)
    except data.Absent as reason:
        return session.note(f"sparse pixels left out: {reason}")
    linear = session.best("hinge_linear", label="linear SVM, sparse pixels", task=task)
    explicit = session.measure("hinge_explicit", label="explicit splines, sparse pixels", task=task)
    fits = {
        name: session.best("hinge_ours", label=f"additive hinge, {name}", task=task, **options)
        for name, options in {
            "order 0": {"penalty_order": 0},
            "order 1": {"penalty_order": 1},
            "order 1, ten classes": {"penalty_order": 1, "classes": 10},
        }.items()
    }
    zero, one, ten = fits.values()
    against(session, "additive hinge, order 0, to 1 %", zero, linear, 0.7)
    theirs = "SplineTransformer + LIBLINEAR"
    against(session, "additive hinge, order 0", zero, explicit, 0.05, theirs_is=theirs)
    against(session, "order 1 against order 0", one, zero, 1.5, theirs_is="order 0")
    against(session, "ten classes against one", ten, one, 4.0, theirs_is="one class")


def dense_epoch(session):
    """One epoch of dual coordinate descent on dense float32."""
    rows, columns = (500, 20) if session.options.tiny else (20_000, 656)
    size = {"rows": rows, "columns": columns}
    theirs = session.best("epoch_linear", label="linear epoch, dense", **size)
    for order, limit in ((0, 0.7), (1, None)):
        label = f"epoch, dense {rows:,} x {columns}, order {order}"
        ours = session.best("epoch_ours", label=label, penalty_order=order, **size)
        against(session, label, ours, theirs, limit, theirs_is="LIBLINEAR, linear")


def start(session):
    """Import, warm, first fit; the demo as a stranger meets it, with nothing compiled."""
    runs = {
        "import streamlearn": ("import_s", "import", "shared", 0.5),
        "warm(), cached kernels": ("warm_s", "warm", "shared", 3.0),
        "first small fit, cached kernels": ("fit_s", "fit", "shared", 3.0),
        "first small fit, cold kernels": ("fit_s", "fit", "cold", 30.0),
        "demo, cold kernels": ("demo_s", "demo", "cold, demo", 75.0),
    }
    rows = 20_000 if session.options.tiny else None
    for label, (key, what, cache, limit) in runs.items():
        report = session.best("startup", label=label, what=what, rows=rows, cache=cache, key=key)
        session.add(
            {
                "what": label,
                "ours, s": report.get(key),
                "theirs": "",
                "theirs, s": None,
                "ratio": None,
                "limit": f"{limit:g} s",
                "held": verdict(report.get(key), limit),
            }
        )
        for line in report.get("said", ()):
            session.note(f"{label}: {line}")


def fit(session, peer, task, **options):
    if peer == "ours":
        options |= {"budget": BUDGET}
    return session.best(peer, label=task.name, task=task.asdict(), n_bases=20, **options)


def sparse(session, task):
    """The rival with `sparse_output=True`; no limit is set for it, it stands beside the default."""
    report = fit(session, "spline_linear", task, sparse=True)
    return {**report, "peer": "spline_linear, sparse_output=True"}


def more_rivals(session, label, task, ours):
    """The rivals that are asked for; some are given fewer rows, which their row says."""
    if not session.options.rivals:
        return
    for peer in RIVALS:
        options = {"label": task.name, "task": task.asdict(), "n_bases": 20}
        try:
            report = session.measure(peer, timeout=session.options.rival_seconds, **options)
        except subprocess.TimeoutExpired:
            session.note(f"{peer}: not done after {session.options.rival_seconds:.0f} s")
            continue
        rows = report.get("rows", task.n_rows)
        of = "" if rows == task.n_rows else f", {rows:,} rows"
        against(session, label, ours, report, None, theirs_is=peer + of)


def against(session, label, ours, theirs, limit, *, theirs_is=None):
    both = "error" not in ours and "error" not in theirs
    ratio = ours["fit_s"] / theirs["fit_s"] if both else None
    session.add(
        {
            "what": label,
            "ours, s": ours.get("fit_s"),
            "theirs": theirs_is or theirs["peer"],
            "theirs, s": theirs.get("fit_s"),
            "ratio": ratio,
            "limit": None if limit is None else f"{limit:g} x",
            "held": verdict(ratio, limit),
            "our log-loss": None if theirs_is else ours.get("log_loss"),
            "their log-loss": theirs.get("log_loss"),
        }
    )


def null(session, task, ours):
    """What the class shares alone would score, beside ours."""
    zeros = session.measure("zeros", label=task.name, task=task.asdict())
    if "error" not in zeros and "error" not in ours:
        session.note(
            f"{task.name}: test log-loss {ours['log_loss']:.4f}, null model "
            f"{zeros['log_loss']:.4f}."
        )


def verdict(value, limit):
    if value is None or limit is None:
        return None
    return "yes" if value <= limit else "no"
