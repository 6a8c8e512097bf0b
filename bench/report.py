"""``python -m bench report``: the saved results of all benches in docs/measured.md."""

import json
import re
from itertools import pairwise
from shlex import quote

from .run import ROOT, markdown, say

PAGE = ROOT / "docs" / "measured.md"
MARK = "<!-- python -m bench report: what follows is written from bench/results/*.json -->\n"
HEADING = re.compile(r"^### `(?P<command>[^`]+)`, (?P<started>\S+)\n", re.MULTILINE)
"""First line of a section."""


def write(results, page=PAGE):
    """Renew the sections below `MARK` from the saved results; how many of these there are.

    A section whose command has no saved result stays as it is: results lie where they were made,
    and git keeps the page alone.  Of one command the last run counts, saved or on the page.
    """
    kept, mark, written = page.read_text().partition(MARK)
    if not mark:
        raise ValueError(f"{page} has no line {MARK.strip()!r}, below which results are written")
    records = [json.loads(path.read_text()) for path in sorted(results.glob("*.json"))]
    last = {}
    for text in sorted([*sections(written), *map(section, records)], key=started):
        last[HEADING.match(text)["command"]] = text
    parts = [last[command] for command in sorted(last)]
    page.write_text(kept + mark + ("\n".join(parts) or "No result is stored in this checkout.\n"))
    say(f"{len(records)} saved results, {len(parts)} sections in {page}")
    return len(records)


def sections(written):
    """The sections of a page, each from its heading to the next."""
    starts = [match.start() for match in HEADING.finditer(written)]
    return [written[a:b].strip() + "\n" for a, b in pairwise([*starts, len(written)])]


def started(text):
    return HEADING.match(text)["started"]


def command(record):
    """What was typed: the bench, and each option that changes which rows there are."""
    bench, options = record["bench"], record["options"]
    given = {name: options.get(name, "0") for name in ("only", "rows")}
    if bench == "hostile":
        given["files"] = options.get("files", "0")
    if bench == "memory":  # saved as the tuple that was read
        given["sizes"] = options.get("sizes", "").strip("(,)").replace(", ", ",")
    words = ["python -m bench", bench, *([options["commit"]] if bench == "regress" else [])]
    words += [f"--{name} {quote(value)}" for name, value in given.items() if value not in ("", "0")]
    if options.get("rival_seconds") in ("0", "0.0"):
        words.append("--rival-seconds 0")
    return " ".join(words)


def section(record):
    """One result: its command, its table as the bench printed it, notes, failures, machine."""
    facts, options = record["machine"], record["options"]
    libraries = ", ".join(f"{name} {number}" for name, number in facts["versions"].items())
    told = [*record["notes"], *(f"FAILED {text}" for text in record["failed"])]
    return "\n\n".join(
        [
            f"### `{command(record)}`, {record['started']}",
            markdown(record["rows"]),
            *told,
            f"Commit {facts['commit']}; {facts['processor']}, {facts['cores']} cores, "
            f"{facts['memory_gb']:.0f} GB; Python {facts['python']}, {libraries}; "
            f"{options['threads']} threads; seed {options['seed']}.\n",
        ]
    )
