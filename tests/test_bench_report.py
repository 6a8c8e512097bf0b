"""The page of measurements is written from saved results, and from nothing else."""

import json
import re
from pathlib import Path

import pytest

from bench import report

ROOT = Path(__file__).resolve().parent.parent


def record(started, rows, commit):
    return {
        "bench": "memory", "started": started,
        "options": {"only": "", "rows": "0", "threads": "2", "seed": "0"},
        "machine": {"commit": commit, "processor": "a processor", "cores": 2, "memory_gb": 8.0,
                    "python": "3.12", "versions": {"numpy": "2.1"}},
        "rows": rows, "notes": ["a note"], "failed": ["a rival"],
    }  # fmt: skip


def test_the_last_of_each_bench_is_written_with_commit_and_machine(tmp_path):
    page = tmp_path / "measured.md"
    page.write_text("# Kept\n" + report.MARK + "old\n")
    for started, peak, commit in (("20260102-0", 93.3, "bbb"), ("20260101-0", 91.1, "aaa")):
        saved = record(started, [{"store": "parquet", "peak, MiB": peak}], commit)
        (tmp_path / f"memory-{started}.json").write_text(json.dumps(saved))
    for _ in range(2):  # writing again changes nothing
        assert report.write(tmp_path, page) == 1
    text = page.read_text()
    assert text.startswith("# Kept\n" + report.MARK + "### `python -m bench memory`, 20260102-0\n")
    assert "| parquet | 93.3 |" in text
    assert "Commit bbb; a processor, 2 cores, 8 GB; Python 3.12, numpy 2.1" in text
    assert "FAILED a rival" in text
    assert "old" not in text
    assert "91.1" not in text


def test_without_results_or_without_the_line_it_says_so(tmp_path):
    page = tmp_path / "measured.md"
    page.write_text("nothing")
    with pytest.raises(ValueError, match="below which results are written"):
        report.write(tmp_path, page)
    page.write_text(report.MARK)
    assert report.write(tmp_path, page) == 0
    assert page.read_text().endswith("No result is stored in this checkout.\n")


def test_every_ratio_of_the_readme_is_on_the_page():
    """No number is typed in the README that the page of measurements does not hold."""
    measured = set(re.findall(r"[\d,]*\d(?:\.\d+)?", report.PAGE.read_text()))
    readme = (ROOT / "README.md").read_text()
    begin, end = (readme.index(f"## {name}\n") for name in ("Measured", "When not to use it"))
    told = re.findall(r"[\d,]*\d(?:\.\d+)?", readme[begin:end])
    assert len(told) > 30
    assert set(told) <= measured, sorted(set(told) - measured)
