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
    """Peaks in bytes at 0.5, 2 and 8 GB: ours with each budget, and splines written out."""
    ours = {}
    for budget in ("64 MiB", "256 MiB"):
        row = re.search(rf"^\| parquet \| {budget} \| newton \| 2 threads \|(.*)\|$", text, re.M)
        ours[budget] = [float(cell) * 2**20 for cell in row.group(1).split("|")[:3]]
    sentence = re.search(
        r"0\.5 GB takes ([\d.]+) GB with `SplineTransformer`; 2 GB would take (\d+) GB and "
        r"8 GB (\d+)",
        " ".join(text.split()),
    )
    return ours, [float(number) * 1e9 for number in sentence.groups()]


def draw_memory(path):
    """Memory against rows, both on logarithmic axes; what would be taken is hollow."""
    ours, written_out = measured_peaks(PAGE.read_text())
    figure, ax = plt.subplots(figsize=(8, 3.6), layout="constrained")
    for budget, color in (("64 MiB", "C0"), ("256 MiB", "C2")):
        ax.loglog(ROWS, ours[budget], "o-", color=color, label=f"streamlearn, budget {budget}")
    ax.loglog(ROWS, written_out, "--", color="C3", lw=1)
    ax.loglog(ROWS[:1], written_out[:1], "s", color="C3", label="SplineTransformer, measured")
    ax.loglog(ROWS[1:], written_out[1:], "s", color="C3", mfc="w", label="the same, would take")
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
