"""The page of measurements is written from saved results, and from nothing else."""

import json
import re
from pathlib import Path

import pytest

from bench import report
from bench.run import own_file

ROOT = Path(__file__).resolve().parent.parent


def record(started, rows, commit):
    return {
        "bench": "memory", "started": started,
        "options": {"only": "", "rows": "0", "threads": "2", "seed": "0"},
        "machine": {"commit": commit, "processor": "a processor", "cores": 2, "memory_gb": 8.0,
                    "python": "3.12", "versions": {"numpy": "2.1"}},
        "rows": rows, "notes": ["a note"], "failed": ["a rival"],
    }  # fmt: skip


def save(folder, saved):
    (folder / f"{saved['bench']}-{saved['started']}.json").write_text(json.dumps(saved))


def test_the_last_of_each_bench_is_written_with_commit_and_machine(tmp_path):
    page = tmp_path / "measured.md"
    page.write_text("# Kept\n" + report.MARK + "No result is stored in this checkout.\n")
    for started, peak, commit in (("20260102-0", 93.3, "bbb"), ("20260101-0", 91.1, "aaa")):
        save(tmp_path, record(started, [{"store": "parquet", "peak, MiB": peak}], commit))
    for _ in range(2):  # writing again changes nothing
        assert report.write(tmp_path, page) == 2
    text = page.read_text()
    assert text.startswith("# Kept\n" + report.MARK + "### `python -m bench memory`, 20260102-0\n")
    assert "| parquet | 93.3 |" in text
    assert "Commit bbb; a processor, 2 cores, 8 GB; Python 3.12, numpy 2.1" in text
    assert "FAILED a rival" in text
    assert "No result" not in text
    assert "91.1" not in text


def test_a_section_stays_until_a_later_run_of_its_command(tmp_path):
    page = tmp_path / "measured.md"
    page.write_text(report.MARK)
    for i, (only, started) in enumerate((("b", "1"), ("a b", "1"), ("b", "2"), ("a b", "0"))):
        folder = tmp_path / str(i)  # results of one checkout each
        folder.mkdir()
        saved = record(f"2026010{started}-0", [{"run": i}], "abc")
        save(folder, saved | {"options": saved["options"] | {"only": only}})
        assert report.write(folder, page) == 1
    text = page.read_text()
    assert re.findall(r"^### .*", text, re.MULTILINE) == [
        "### `python -m bench memory --only 'a b'`, 20260101-0",
        "### `python -m bench memory --only b`, 20260102-0",
    ]
    assert re.findall(r"^\| (\d) \|", text, re.MULTILINE) == ["1", "2"]
    assert text.count("\n\n### ") == 1


def test_the_command_gives_what_changes_the_rows():
    saved = record("20260101-0", [], "abc")
    saved["options"] |= {"sizes": "(0.5, 2.0)", "rival_seconds": "0.0", "rows": "7"}
    assert (
        report.command(saved) == "python -m bench memory --rows 7 --sizes 0.5,2.0 --rival-seconds 0"
    )
    saved["options"] |= {"commit": "9bc0815", "files": "3"}
    for bench, words in (
        ("regress", "regress 9bc0815 --rows 7"),
        ("hostile", "hostile --rows 7 --files 3"),
    ):
        told = report.command(saved | {"bench": bench})
        assert told == f"python -m bench {words} --rival-seconds 0"


def test_every_section_of_the_page_is_read_back():
    """What the page holds is found again by its heading, and nothing else stands between."""
    _, _, written = report.PAGE.read_text().partition(report.MARK)
    parts = report.sections(written)
    assert len(parts) >= 10
    assert "\n".join(parts) == written


def test_without_results_or_without_the_line_it_says_so(tmp_path):
    page = tmp_path / "measured.md"
    page.write_text("nothing")
    with pytest.raises(ValueError, match="below which results are written"):
        report.write(tmp_path, page)
    page.write_text(report.MARK)
    assert report.write(tmp_path, page) == 0
    assert page.read_text().endswith("No result is stored in this checkout.\n")


def test_every_ratio_of_the_readme_is_on_the_page():
    """No number is typed in the README that no bench wrote on the page of measurements."""
    _, _, written = report.PAGE.read_text().partition(report.MARK)
    measured = set(re.findall(r"[\d,]*\d(?:\.\d+)?", written))
    readme = (ROOT / "README.md").read_text()
    begin, end = (readme.index(f"## {name}\n") for name in ("Measured", "When not to use it"))
    told = re.findall(r"[\d,]*\d(?:\.\d+)?", readme[begin:end])
    assert len(told) > 30
    assert set(told) <= measured, sorted(set(told) - measured)


def test_the_guide_above_the_saved_results_measures_nothing():
    """What is typed there has no table and no decimals, which is how results are told."""
    guide, _, _ = report.PAGE.read_text().partition(report.MARK)
    assert not [line for line in guide.splitlines() if line.startswith("|")]
    assert not re.findall(r"\d+\.\d+", guide)


def test_runs_of_the_same_second_have_files_of_their_own(tmp_path):
    paths = [own_file(tmp_path / "results", "memory-20260102-0") for _ in range(3)]
    assert [path.name for path in paths] == [
        "memory-20260102-0.json", "memory-20260102-0-1.json", "memory-20260102-0-2.json"
    ]  # fmt: skip
    assert all(path.exists() for path in paths)
