"""One HTML page without anything from elsewhere: light and dark, readable on a telephone."""

from __future__ import annotations

from collections.abc import Sequence

from .svg import text

_STYLE = """
:root { color-scheme: light dark;
  --paper: #fff; --ink: #1c1e21; --dim: #666c75; --line: #dfe2e6; --soft: #f4f5f7;
  --positive: #2b6cb0; --negative: #d97706; --density: #d6dae0;
  --c0: #2b6cb0; --c1: #d97706; --c2: #2f855a; --c3: #b83280;
  --c4: #6b46c1; --c5: #0987a0; --c6: #9b2c2c; --c7: #718096 }
@media (prefers-color-scheme: dark) { :root {
  --paper: #16181c; --ink: #e6e8eb; --dim: #9aa1ab; --line: #343840; --soft: #1f2228;
  --positive: #63a4e8; --negative: #f0a04b; --density: #3b414b;
  --c0: #63a4e8; --c1: #f0a04b; --c2: #68c391; --c3: #ed8cc4;
  --c4: #a78bfa; --c5: #56c5dd; --c6: #f08a8a; --c7: #a0aec0 } }
* { box-sizing: border-box }
body { margin: 0 auto; padding: 1.2rem; max-width: 74rem; background: var(--paper);
  color: var(--ink); font: 15px/1.5 system-ui, sans-serif; overflow-wrap: anywhere }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0.2rem 0 0.8rem }
h2 { font-size: 1.15rem; margin: 2rem 0 0.4rem; padding-top: 0.8rem;
  border-top: 1px solid var(--line) }
p { margin: 0.4rem 0 0.8rem; max-width: 46rem }
.note, .legend, figcaption + p { color: var(--dim); font-size: 0.85rem }
.scroll { overflow: auto }
.table { overflow: auto }
.table.long { max-height: 34rem }
table { border-collapse: collapse; font-size: 0.9rem; font-variant-numeric: tabular-nums }
th, td { padding: 0.25rem 0.9rem 0.25rem 0; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--line) }
th { font-weight: 600 }
.wide-table th, .wide-table td { white-space: nowrap; overflow-wrap: normal }
.wide-table td:first-child { white-space: normal; min-width: 9rem; max-width: 22rem;
  overflow-wrap: anywhere }
.facts td:first-child { white-space: nowrap; color: var(--dim) }
td.n, th.n { text-align: right }
.pictures { display: grid; gap: 1.1rem;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 19rem), 1fr)); align-items: start }
figure { margin: 0; min-width: 0 }
figure.wide { grid-column: 1 / -1 }
figcaption { font-weight: 600; font-size: 0.9rem; margin-bottom: 0.2rem }
svg { display: block; width: 100%; height: auto }
svg text { font: 10px system-ui, sans-serif; fill: var(--ink) }
svg text.dim { fill: var(--dim) }
.grid { stroke: var(--line); stroke-width: 1 }
.zero { stroke: var(--dim); stroke-width: 1 }
.density { fill: var(--density) }
.line { fill: none; stroke-width: 1.8; stroke-linejoin: round }
.band { opacity: 0.22; stroke: none }
.whisker { stroke: var(--dim); stroke-width: 1.2 }
.positive { fill: var(--positive) } .negative { fill: var(--negative) }
.legend { display: flex; flex-wrap: wrap; gap: 0 0.9rem; margin: 0.2rem 0 }
.legend i { display: inline-block; width: 0.8em; height: 0.8em; margin-right: 0.35em;
  border-radius: 2px }
pre { font-size: 0.8rem; background: var(--soft); padding: 0.7rem; margin: 0 }
summary { cursor: pointer; color: var(--dim) }
details { margin: 0.6rem 0 }
footer { margin-top: 2.5rem; color: var(--dim); font-size: 0.8rem }
"""
_COLOURS = "".join(
    f".line.c{k}, .whisker.c{k} {{ stroke: var(--c{k}) }} "
    f".dot.c{k}, .band.c{k} {{ fill: var(--c{k}) }} "
    f".legend .c{k} {{ background: var(--c{k}) }}\n"
    for k in range(8)
)


def page(title: str, sections: Sequence[str], footer: str) -> str:
    """The whole page."""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="icon" href="data:,"><title>{text(title)}</title>'
        f"<style>{_STYLE}{_COLOURS}</style></head>\n"
        f"<body><h1>{text(title)}</h1>\n" + "\n".join(sections) + f"\n<footer>{text(footer)}"
        "</footer></body></html>\n"
    )


def section(heading: str, *parts: str) -> str:
    """A heading and what stands below it; nothing if that is nothing."""
    inner = "".join(parts)
    return f"<section><h2>{text(heading)}</h2>{inner}</section>" if inner else ""


def paragraph(words: str) -> str:
    return f"<p>{text(words)}</p>"


def table(
    rows: Sequence[Sequence[str]], heads: Sequence[str] = (), left: int = 1, *, wide: bool = True
) -> str:
    """A table that scrolls inside itself; columns after the `left` first are numbers.

    `wide`: cells after the first stay on one line.
    """
    kinds = ["" if j < left else ' class="n"' for j in range(max(map(len, rows), default=0))]
    head = "".join(f"<th{kind}>{text(word)}</th>" for kind, word in zip(kinds, heads, strict=False))
    body = "".join(
        "<tr>"
        + "".join(f"<td{kind}>{text(cell)}</td>" for kind, cell in zip(kinds, row, strict=False))
        + "</tr>"
        for row in rows
    )
    head = f"<thead><tr>{head}</tr></thead>" if head else ""
    kind = f' class="{"wide-table" if wide else "facts"}"'
    frame = "table long" if wide else "table"
    return f'<div class="{frame}"><table{kind}>{head}<tbody>{body}</tbody></table></div>'


def pictures(drawn: Sequence[str]) -> str:
    """Pictures side by side, as many as the page is wide."""
    return f'<div class="pictures">{"".join(drawn)}</div>' if drawn else ""


def folded(words: str, content: str) -> str:
    """Plain text that is shown on request."""
    return (
        f'<details><summary>{text(words)}</summary><div class="scroll"><pre>'
        f"{'<br>'.join(map(text, content.splitlines()))}</pre></div></details>"
    )
