"""What the bench of glass-box models says of its rows, and what it counts as memory."""

import json
import subprocess
import sys

from bench import glass_box, mixed
from bench.__main__ import main
from bench.peers.glass_box import watched_processes
from bench.run import environment


def report(loss, seconds, own, processes=0):
    return {
        "loss": loss, "fit_s": seconds, "over_baseline_bytes": own, "processes_bytes": processes,
    }  # fmt: skip


def test_comparisons_are_of_the_tables_that_both_have():
    found = {
        ("a", "ours"): report(0.5, 1.0, 10),
        ("a", "EBM, no pairs"): report(1.0, 100.0, 20, 20),
        ("b", "ours"): report(1.1, 4.0, 30),
        ("b", "EBM, no pairs"): report(1.0, 100.0, 30),
        ("c", "ours"): report(1.0, 1.0, 1),
        ("c", "EBM, no pairs"): {"error": "not done in 600 s"},
    }
    assert glass_box.comparisons(found) == [
        "ours against EBM, no pairs: no more loss on 1 of 2 tables, at most 10.0 % more (b); "
        "seconds 0.02 (geometric mean; 0.01 to 0.04); memory 0.5 (geometric mean; 0.25 to 1)"
    ]
    del found["b", "ours"]
    assert "on 1 of 1 tables, at least 50.0 % less (a)" in glass_box.comparisons(found)[0]
    assert glass_box.comparisons({("a", "ours"): report(1.0, 1.0, 1)}) == []


def test_memory_of_started_processes_is_counted():
    found = {}
    with watched_processes(found):
        code = "import time; held = bytearray(b'1' * 2**26); time.sleep(1)"
        subprocess.run([sys.executable, "-c", code], check=True)
    assert 2**26 < found["processes_bytes"] < 2**28


def test_a_note_is_saved_with_every_row(tmp_path, monkeypatch):
    """A bench that is stopped keeps what was said of it."""
    saved = []

    def run(session):
        session.add({"a": 1})
        (path,) = tmp_path.glob("mixed-*.json")
        saved.append(json.loads(path.read_text())["notes"])

    monkeypatch.setattr(mixed, "run", run)
    folders = ["--data", str(tmp_path), "--results", str(tmp_path)]
    assert main(["mixed", *folders, "--note", "tests ran beside it"]) == 0
    assert saved == [["tests ran beside it"]]


def test_a_measured_process_has_no_settings_but_finds_the_real_sets(monkeypatch, tmp_path):
    monkeypatch.setenv("STREAMLEARN_MEMORY_BUDGET", "1GiB")
    monkeypatch.setenv("STREAMLEARN_DATA", str(tmp_path))
    given = environment("2", "kernels", tmp_path)
    assert [name for name in given if name.startswith("STREAMLEARN_")] == ["STREAMLEARN_DATA"]
    assert given["STREAMLEARN_DATA"] == str(tmp_path)
    assert given["OMP_NUM_THREADS"] == "2"
