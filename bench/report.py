"""``python -m bench report``: the saved results of all benches in docs/measured.md."""

import json

from .run import ROOT, markdown, say

PAGE = ROOT / "docs" / "measured.md"
MARK = "<!-- python -m bench report: what follows is written from bench/results/*.json -->\n"


def write(results, page=PAGE):
    """Replace what stands below `MARK` in the page; the number of results written."""
    kept, mark, _ = page.read_text().partition(MARK)
    if not mark:
        raise ValueError(f"{page} has no line {MARK.strip()!r}, below which results are written")
    records = [json.loads(path.read_text()) for path in sorted(results.glob("*.json"))]
    parts = [section(record) for record in newest(records)]
    page.write_text(kept + mark + ("\n".join(parts) or "No result is stored in this checkout.\n"))
    say(f"{len(parts)} results written to {page}")
    return len(parts)


def newest(records):
    """Of runs of one bench with one choice of rows and sizes the last, in order of their names."""
    last = {}
    for record in sorted(records, key=lambda record: record["started"]):
        options = record["options"]
        last[record["bench"], options.get("only"), options.get("rows"), options.get("sizes")] = (
            record
        )
    return [last[key] for key in sorted(last, key=str)]


def section(record):
    """One result: its command, its table as the bench printed it, notes, failures, machine."""
    facts, options = record["machine"], record["options"]
    shown = ("only", "rows", "files") if record["bench"] == "hostile" else ("only", "rows")
    given = "".join(
        f" --{name} {options[name]}" for name in shown if options.get(name, "0") not in ("", "0")
    )
    if record["bench"] == "regress":
        given = f" {options['commit']}{given}"
    libraries = ", ".join(f"{name} {number}" for name, number in facts["versions"].items())
    told = [*record["notes"], *(f"FAILED {text}" for text in record["failed"])]
    return "\n\n".join(
        [
            f"### `python -m bench {record['bench']}{given}`, {record['started']}",
            markdown(record["rows"]),
            *told,
            f"Commit {facts['commit']}; {facts['processor']}, {facts['cores']} cores, "
            f"{facts['memory_gb']:.0f} GB; Python {facts['python']}, {libraries}; "
            f"{options['threads']} threads; seed {options['seed']}.\n",
        ]
    )
