"""The matrix of families and tables: its cells, those that are refusals, and its page.

``python tests/laws/matrix.py`` runs every cell and writes ``docs/matrix.md``.
"""

import contextlib
import re
import sys
import tempfile
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parents[1])

import pandas as pd
from laws import cells
from laws.subjects import Subject, names

import streamlearn as sl

PAGE = Path(__file__).parents[2] / "docs" / "matrix.md"

COLUMNS = {
    "several classes": cells.multiclass,
    "weights": cells.weights,
    "class_weight": cells.class_weight,
    "CSR": cells.csr,
    "missing values": cells.missing,
    "strings": cells.strings,
    "100,000 levels": cells.levels,
    "dates": cells.dates,
    "booleans": cells.booleans,
    "partial_fit": cells.partial_fit,
    "checkpoint": cells.checkpoint,
    "cluster": cells.cluster,
    "cross_validate": cells.cross_validate,
    "probability": cells.probability,
    "picture": cells.picture,
    "save and load": cells.save,
    "command line": cells.command_line,
}
"""Head of a column -> its cell."""

SLOW = ("100,000 levels", "cluster")
"""Columns of large tables and of other processes."""

REGRESSORS, EMBEDDINGS = r".*Regressor(CV)?", ".*Embedding"
WITHOUT_STREAM = r"(?!AdditiveClassifier$|AdditiveRegressor$|SVMMixtureClassifier$|compress$).*"
NUMBERS = "it makes features of numbers; families that take words learn their levels themselves"
NO_CLASSES = "the target of a regressor has no classes"
REFUSALS = {
    (REGRESSORS, "several classes"): ("the target 'y' holds strings, .* needs numbers", NO_CLASSES),
    (REGRESSORS, "class_weight"): ("Invalid parameter 'class_weight'", NO_CLASSES),
    (REGRESSORS, "probability"): (".* has no attribute 'predict_proba'", NO_CLASSES),
    (WITHOUT_STREAM, "partial_fit"): (".* has no partial_fit: .*", None),
    (EMBEDDINGS, "class_weight"): ("Invalid parameter 'class_weight'", "it looks at no target"),
    (EMBEDDINGS, "strings"): ("the columns 'city' hold strings", NUMBERS),
    (EMBEDDINGS, "100,000 levels"): ("the columns 'city' hold strings", NUMBERS),
    (EMBEDDINGS, "checkpoint"): (
        ".* unexpected keyword argument 'checkpoint'",
        "its fit is one read",
    ),
    (EMBEDDINGS, "cross_validate"): ("cross_validate scores predictions", "it predicts nothing"),
    (EMBEDDINGS, "probability"): (".* has no attribute 'predict_proba'", "it predicts nothing"),
    (EMBEDDINGS, "picture"): (".* has nothing to draw", "it has learned nothing of a target"),
    (EMBEDDINGS, "command line"): ("--model .* is not known", "it predicts nothing"),
    ("compress", "missing values"): (
        "column 'a' holds .* NaN",
        "prototypes are points: it takes numbers",
    ),
    ("compress", "strings"): (
        "compress takes tables of numbers",
        "prototypes are points: it takes numbers",
    ),
    ("compress", "100,000 levels"): (
        "compress takes tables of numbers",
        "prototypes are points: it takes numbers",
    ),
    ("compress", "partial_fit"): (".* has no attribute 'partial_fit'", "it is a function"),
    ("compress", "cross_validate"): ("cross_validate scores predictions", "it is a function"),
    ("compress", "probability"): (
        ".* has no attribute 'predict_proba'",
        "it is a regression on decisions; fit a super-sparse classifier for probabilities",
    ),
}
"""(pattern of names, column) -> (how the error begins, the reason; None: the error gives it).

Every other cell passes.
"""


class Tools:
    """What cells share: a folder, a table on disk, worker processes."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self._cluster = None

    def path(self, subject):
        """The table with the subject's target, in row groups of 40."""
        path = self.folder / f"rows-{subject.classifies}.parquet"
        if not path.exists():
            X, z = cells.table()
            frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=subject.target(z))
            frame.to_parquet(path, row_group_size=40, index=False)
        return str(path)

    def dataset(self, subject):
        target = None if subject.transforms else "y"
        features = ["a", "b", "c"]
        return sl.open_dataset(self.path(subject), target=target, features=features, chunk_rows=40)

    @contextlib.contextmanager
    def workers(self):
        """Fits run on two worker processes, which stay for the next cell."""
        from promises.cluster_kit import Cluster

        if self._cluster is None:
            self._cluster = Cluster(self.folder / "cluster", 2)
        self._cluster.scale(2)
        with self._cluster.client() as client, sl.config_context(scheduler=client):
            yield

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        if self._cluster is not None:
            self._cluster.__exit__(*exc)


def refusal(name, column):
    """How the error of this cell begins and its reason; None where it must pass."""
    found = [
        said
        for (pattern, where), said in REFUSALS.items()
        if where == column and re.fullmatch(pattern, name)
    ]
    assert len(found) <= 1, (name, column)
    return found[0] if found else None


def run(name, column, tools):
    """ "yes" if the cell passes; else the reason for which the subject refuses."""
    expected = refusal(name, column)
    if expected is None:
        COLUMNS[column](Subject(name), tools)
        return "yes"
    begins, reason = expected
    try:
        COLUMNS[column](Subject(name), tools)
    except (AttributeError, TypeError, ValueError, sl.StreamlearnError) as error:
        words = " ".join(str(error).split())
        assert re.match(begins, words), words
        return reason or words.partition(": ")[2]
    raise AssertionError(f"{name} does not refuse {column} any more: {begins}")


HEAD = """# What each family takes and keeps

Every public estimator against every kind of table and every promise. Each cell is a run of
`tests/laws/test_matrix.py`: "yes" is a passing one, a number a refusal, by name, whose reason
stands below. `python tests/laws/matrix.py` prints this page, and a test holds it against the runs.

What a "yes" says:

"""


def page(found):
    """The page of these answers, a dict by (name, column)."""
    lines = [f"- **{head}**: {' '.join(cell.__doc__.split())}" for head, cell in COLUMNS.items()]
    lines += ["", f"| | {' | '.join(COLUMNS)} |", "| --- " * (len(COLUMNS) + 1) + "|"]
    reasons = []
    for name in names():
        row = [f"`{name}`"]
        for column in COLUMNS:
            answer = found[name, column]
            if answer != "yes" and answer not in reasons:
                reasons.append(answer)
            row.append(answer if answer == "yes" else str(reasons.index(answer) + 1))
        lines.append(f"| {' | '.join(row)} |")
    lines += ["", "Refusals:", "", *(f"{k}. {reason}." for k, reason in enumerate(reasons, 1)), ""]
    return HEAD + "\n".join(lines)


def written():
    """(name, column) -> the answer that the page has."""
    text = PAGE.read_text()
    reasons = dict(re.findall(r"^(\d+)\. (.*)\.$", text, re.MULTILINE))
    found = {}
    for line in text.splitlines():
        if line.startswith("| `"):
            name, *row = [part.strip() for part in line.strip("|").split("|")]
            found |= {
                (name.strip("`"), column): reasons.get(answer, answer)
                for column, answer in zip(COLUMNS, row, strict=True)
            }
    return found


def main():
    """Run every cell, and write the page."""
    found = {}
    with tempfile.TemporaryDirectory() as folder, Tools(folder) as tools:
        for name in names():
            for column in COLUMNS:
                tools.folder = Path(tempfile.mkdtemp(dir=folder))
                found[name, column] = run(name, column, tools)
    PAGE.write_text(page(found))


if __name__ == "__main__":
    main()
