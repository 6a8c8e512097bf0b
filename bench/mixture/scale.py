"""The use that Fu 2010 closes with: many hyperspectral pixels, from disk, in bounded memory."""

from bench.run import mib

from . import generated

BUDGET = "256MiB"


def run(session):
    """Pixels of 33 channels trained on, answered and scored: 10 M of them, or ``--rows``."""
    n = session.options.rows or (5_000 if session.options.tiny else 10_000_000)
    path = generated.pixel_file(session.options.data, n)
    report = session.measure(
        "mixture_pixels",
        label=f"pixels-{n}",
        path=str(path),
        answers=str(session.folder / "answers"),
        budget=BUDGET,
    )
    if "error" in report:
        return
    session.add(
        {
            "data": "pixels",
            "rows": n,
            "ours, %": report["right"],
            "components": report["n_components"],
            "iterations": report["iterations"],
            "reads": report["n_passes"],
            "budget, MiB": BUDGET.removesuffix("MiB"),
            "plan, MiB": mib(report["plan_bytes"]),
            "peak, MiB": mib(report["over_baseline_bytes"]),
            "file, MiB": mib(path.stat().st_size),
            "fit, s": report["fit_s"],
            "fit CPU, s": report["fit_cpu_s"],
            "answers, s": report["predict_s"],
        }
    )
