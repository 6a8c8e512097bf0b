"""``python -m docs.pictures``: the pictures of README and pages, of models and measurements.

The curves are of *adult*, which is looked for in the folder ``STREAMLEARN_DATA`` (default
``../shared/data``); without it they are left as they are.  Each number of the picture of memory
is read from the tables of ``docs/measured.md``.
"""

import os
import re
from pathlib import Path

import matplotlib.pyplot as plt

import streamlearn as sl

from .families import PICTURES

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "measured.md"
DATA = Path(os.environ.get("STREAMLEARN_DATA", HERE.parents[2] / "shared" / "data"))
COLUMNS = ["age", "education_num", "hours_per_week", "marital_status"]
ROWS = (2.5e6, 10e6, 40e6)
BUDGETS = ("64MiB", "256MiB")
PEAK, WRITTEN_OUT = 6, 8
"""Columns of the table of ``python -m bench memory``: our peak, and `SplineTransformer`'s."""
STYLE = {
    "svg.hashsalt": "streamlearn",
    "svg.fonttype": "none",  # letters, not their outlines
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def draw_curves(path):
    """Four terms of an additive model of adult, of 20 splines; whether the table is there."""
    train = DATA / "adult" / "train.parquet"
    if not train.exists():
        return False
    import pyarrow.parquet as pq

    target = pq.read_schema(train).names[-1]
    model = sl.AdditiveClassifier(C=1.0, n_bases=20, interactions=0)
    model.fit(sl.open_dataset(train, target=target))
    figure = sl.AdditiveDisplay.from_estimator(model, features=COLUMNS).figure_
    figure.set_size_inches(8, 5)
    figure.savefig(path, metadata={"Date": None})
    return True


def measured_peaks(text):
    """Peaks in bytes of the sizes in `ROWS`: ours by budget, and of splines written out.

    Of the last are what was measured, and what the sizes that do not fit would take.
    """
    ours, measured, needed = {budget: [] for budget in BUDGETS}, [], []
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    for n_rows in ROWS:
        of_size = [row for row in rows if row[:1] == [f"generated {round(n_rows):,} x 50"]]
        for budget, peaks in ours.items():
            [row] = [
                row
                for row in of_size
                if row[1].startswith("parquet, ") and row[3:6] == [budget, "newton", "2 threads"]
            ]
            peaks.append(float(row[PEAK]) * 2**20)
        if about := re.fullmatch(r"does not fit \(about (\d+) GB\)", row[WRITTEN_OUT]):
            needed.append(float(about[1]) * 1e9)
        else:
            measured.append(float(row[WRITTEN_OUT].split()[0]) * 2**20)
    return ours, measured, needed


def draw_memory(path):
    """Memory against rows, both on logarithmic axes; what would be taken is hollow."""
    ours, measured, needed = measured_peaks(PAGE.read_text())
    figure, ax = plt.subplots(figsize=(8, 3.6), layout="constrained")
    for (budget, peaks), color in zip(ours.items(), ("C0", "C2"), strict=True):
        label = f"streamlearn, budget {budget.replace('MiB', ' MiB')}"
        ax.loglog(ROWS, peaks, "o-", color=color, label=label)
    n = len(measured)
    ax.loglog(ROWS, measured + needed, "--", color="C3", lw=1)
    ax.loglog(ROWS[:n], measured, "s", color="C3", label="SplineTransformer, measured")
    ax.loglog(ROWS[n:], needed, "s", color="C3", mfc="w", label="the same, would take")
    ax.set_xticks(ROWS, ["2.5 million", "10 million", "40 million"])
    ax.xaxis.minorticks_off()
    ax.set_yticks([2**25, 2**30, 2**35], ["32 MiB", "1 GiB", "32 GiB"])
    ax.yaxis.minorticks_off()
    ax.set(xlabel="rows of 50 columns of float32", ylabel="peak over the libraries")
    ax.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    with plt.rc_context(STYLE):
        draw_memory(HERE / "memory.svg")
        for name, draw in PICTURES.items():
            draw().savefig(HERE / f"{name}.svg", metadata={"Date": None})
        if not draw_curves(HERE / "curves.svg"):
            print(f"no adult in {DATA}: the curves are left as they are")
