"""Figures as SVG inside a page: colours are the page's, so that one drawing is light and dark."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

import numpy as np

from .figures import Curve, Figure, HeatMap, Rows

WIDTH, HEIGHT = 340, 210
"""Units of a picture with axes; the page scales it."""
LEFT, RIGHT, TOP, BOTTOM = 44, 8, 8, 34
"""Margins; the left one is wider where the numbers along it are long."""
LETTER = 6.4
"""Width of a digit or a common letter in the widest of the fonts that browsers take."""
DENSITY = 0.18
"""Share of a panel's height for the density of the rows."""
ROW = 17
"""Height of a row."""
CAP = 3
"""Half of the length of the line that ends a whisker."""
BESIDE = 12
"""Columns of a map at most that stands beside other pictures."""
LETTERS = 24
"""Letters of a name that are drawn; the whole name is shown when it is pointed at."""


def text(value: object) -> str:
    """Any text for a page: escaped, and without characters that do not print."""
    return escape("".join(c if c.isprintable() else "\ufffd" for c in str(value)))


def number(value: float) -> str:
    """A number as it is read: four digits, thousands apart."""
    if not np.isfinite(value):
        return "" if np.isnan(value) else str(value)
    if 1e4 <= abs(value) < 1e9:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Round numbers from low to high, at most so many."""
    if not high > low:
        return [low]
    raw = (high - low) / most
    unit = 10.0 ** np.floor(np.log10(raw))
    step = next(m * unit for m in (1, 2, 2.5, 5, 10, 20) if m * unit >= raw)
    first = int(np.ceil(low / step - 1e-9))
    last = int(np.floor(high / step + 1e-9))
    return [k * step for k in range(first, last + 1)]


def fitting_ticks(low: float, high: float, room: float) -> list[float]:
    """Round numbers from low to high, so few that their labels stand side by side in the room."""
    for n in (4, 3, 2, 1):
        found = ticks(low, high, n)
        if sum(wide(number(at)) + 2 * LETTER for at in found) <= room:
            return found
    return found[:1]


def wide(label: str) -> float:
    """Width of a label."""
    return LETTER * len(label)


class Scale(NamedTuple):
    """A map from numbers to units of the picture."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 1)


def y_range(figures: Sequence[Figure]) -> tuple[float, float] | None:
    """The range that holds all curves, rows and their bands, so that heights can be compared."""
    parts = []
    for figure in figures:
        if isinstance(figure, HeatMap):
            continue
        parts += [figure.y, *(figure.band or ())]
        if isinstance(figure, Curve) and figure.missing is not None:
            parts += [figure.missing, *(figure.missing_band or ())]
    values = np.concatenate([part.ravel() for part in parts]) if parts else np.empty(0)
    values = values[np.isfinite(values)]
    return (float(values.min()), float(values.max())) if len(values) else None


def draw(figure: Figure, limits: tuple[float, float] | None = None) -> str:
    """One picture with its caption, legend and note; `limits` of its y if they are shared."""
    if isinstance(figure, Curve):
        body = _curve(figure, limits or y_range([figure]) or (0.0, 1.0))
    elif isinstance(figure, Rows):
        body = _rows(figure, limits or y_range([figure]) or (0.0, 1.0))
    else:
        body = _map(figure)
    labels = () if isinstance(figure, HeatMap) else figure.labels
    legend = "".join(
        f'<span><i class="c{k % 8}"></i>{text(label)}</span>' for k, label in enumerate(labels)
    )
    legend = f'<div class="legend">{legend}</div>' if legend else ""
    note = f'<p class="note">{text(figure.note)}</p>' if figure.note else ""
    is_wide = isinstance(figure, HeatMap) and len(figure.columns) > BESIDE
    wide = " class=wide" if is_wide else ""
    return (
        f"<figure{wide}><figcaption>{text(figure.title)}</figcaption>"
        f'<div class="scroll">{body}</div>{legend}{note}</figure>'
    )


def _svg(width: float, height: float, parts: Sequence[str], label: str, least: float = 0.0) -> str:
    """The picture, which shrinks to `least` of its width before its box scrolls."""
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{text(label)}" '
        f'style="min-width:{least * width:g}px;max-width:{1.5 * width:g}px">{"".join(parts)}</svg>'
    )


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" class="{kind}"/>'


def _whisker(at: float, low: float, high: float, kind: str, *, upright: bool) -> list[str]:
    """A line from `low` to `high` with a short one across each end."""
    ends = [(at, low, at, high), *((at - CAP, end, at + CAP, end) for end in (low, high))]
    return [_line(*(own if upright else (own[1], own[0], own[3], own[2])), kind) for own in ends]


def _label(x: float, y: float, value: str, anchor: str = "middle", more: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}"{more}>{text(value)}</text>'


def _tick(x: float, y: float, value: str) -> str:
    """A number below its place, moved inwards at the right edge."""
    half = wide(value) / 2
    return _label(min(x, WIDTH - half), y, value)


def _bar(x: float, y: float, width: float, height: float, kind: str, title: str = "") -> str:
    inner = f"<title>{text(title)}</title>" if title else ""
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{max(width, 0):.1f}" height="{max(height, 0):.1f}" '
        f'class="{kind}">{inner}</rect>'
    )


def _short(name: str) -> str:
    return name if len(name) <= LETTERS else name[: LETTERS - 1] + "\u2026"


def _beside(names: Sequence[str]) -> float:
    """Width of names that stand beside rows; of short ones such that pictures look alike."""
    return max([80.0, *(wide(_short(name)) for name in names)])


def _padded(low: float, high: float, share: float = 0.06) -> tuple[float, float]:
    margin = share * (high - low) or max(abs(low), 1.0) * share
    return low - margin, high + margin


def _curve(figure: Curve, limits: tuple[float, float]) -> str:
    low, high = _padded(*limits)
    floor = HEIGHT - BOTTOM
    tall = DENSITY * (floor - TOP) if figure.density is not None else 0.0
    right = WIDTH - RIGHT - (26 if figure.missing is not None else 0)
    x0, x1 = float(figure.x[0]), float(figure.x[-1])
    if figure.density is not None:  # bars of single values reach beyond the first and the last
        x0, x1 = min(x0, float(figure.density[0][0])), max(x1, float(figure.density[1][-1]))
    if not x1 > x0:
        x0, x1 = x0 - 0.5, x1 + 0.5
    heights = ticks(low, high)
    # beside the numbers stands the unit, which is turned and one line wide
    left = max(LEFT, 18 + max((wide(number(at)) for at in heights), default=0.0))
    X, Y = Scale(x0, x1, left, right), Scale(low, high, floor - tall, TOP)
    parts = []
    if figure.density is not None:
        most = float(figure.density[2].max()) or 1.0
        parts += [
            _bar(X(a), floor - tall * s / most, X(b) - X(a), tall * s / most, "density")
            for a, b, s in zip(*figure.density, strict=True)
        ]
    for at in heights:
        parts += [_line(left, Y(at), WIDTH - RIGHT, Y(at), "zero" if at == 0 else "grid")]
        parts += [_label(left - 4, Y(at) + 3, number(at), "end")]
    along = fitting_ticks(x0, x1, right - left)
    if figure.missing is not None:  # its name stands at the right end
        end = WIDTH - RIGHT - 2 - wide("missing") - LETTER
        along = [at for at in along if X(at) + wide(number(at)) / 2 < end]
    parts += [_tick(X(at), floor + 12, number(at)) for at in along]
    if figure.x_label:
        parts.append(_label((left + right) / 2, HEIGHT - 6, figure.x_label))
    middle = (TOP + floor) / 2
    parts.append(_label(9, middle, figure.y_label, more=_turned(9, middle)))
    if figure.diagonal:
        parts.append(_line(X(x0), Y(x0), X(x1), Y(x1), "zero"))
    for k, y in enumerate(figure.y.T):
        if figure.band is not None:
            lower, upper = (end[:, k] for end in figure.band)
            edge = [f"{X(a)},{Y(b)}" for a, b in zip(figure.x, upper, strict=True)]
            edge += [f"{X(a)},{Y(b)}" for a, b in zip(figure.x[::-1], lower[::-1], strict=True)]
            parts.append(f'<polygon points="{" ".join(edge)}" class="band c{k % 8}"/>')
        parts.append(_path(figure.x, y, X, Y, k, figure.steps))
        if figure.points:
            parts += [
                f'<circle cx="{X(a)}" cy="{Y(b)}" r="2.5" class="dot c{k % 8}"/>'
                for a, b in zip(figure.x, y, strict=True)
            ]
        if figure.missing is not None:
            at = WIDTH - RIGHT - 12
            if figure.missing_band is not None:
                low_end, high_end = (Y(end[k]) for end in figure.missing_band)
                parts += _whisker(at, low_end, high_end, f"whisker c{k % 8}", upright=True)
            parts.append(
                f'<circle cx="{at}" cy="{Y(figure.missing[k])}" r="3" class="dot c{k % 8}"/>'
            )
    if figure.missing is not None:
        parts.append(_label(WIDTH - RIGHT - 2, floor + 12, "missing", "end"))
    return _svg(WIDTH, HEIGHT, parts, figure.title)


def _turned(x: float, y: float) -> str:
    return f' transform="rotate(-90 {x:g} {y:g})"'


def _path(x: np.ndarray, y: np.ndarray, X: Scale, Y: Scale, k: int, steps: bool) -> str:
    """A line that is broken where there is no number; a dot where there is one alone."""
    there = np.isfinite(y)
    if there.sum() == 1:
        at = int(there.argmax())
        return f'<circle cx="{X(x[at])}" cy="{Y(y[at])}" r="3" class="dot c{k % 8}"/>'
    commands, pen = [], "M"
    for a, b, known in zip(x, y, there, strict=True):
        if not known:
            pen = "M"
            continue
        if steps and pen == "L":
            commands.append(f"H{X(a)}")
        commands.append(f"{pen}{X(a)} {Y(b)}")
        pen = "L"
    return f'<path d="{"".join(commands)}" class="line c{k % 8}"/>'


def _rows(figure: Rows, limits: tuple[float, float]) -> str:
    low, high = _padded(min(limits[0], 0.0), max(limits[1], 0.0), 0.02)
    height = TOP + ROW * len(figure.names) + BOTTOM
    floor = height - BOTTOM
    beside = _beside(figure.names)
    X = Scale(low, high, beside + 6, WIDTH - RIGHT - (44 if figure.shares is not None else 0))
    parts = []
    for at in fitting_ticks(low, high, X.end - X.start):
        parts += [_line(X(at), TOP, X(at), floor, "zero" if at == 0 else "grid")]
        parts += [_tick(X(at), floor + 12, number(at))]
    parts.append(_label(WIDTH / 2, height - 6, figure.y_label))
    for j, (name, values) in enumerate(zip(figure.names, figure.y, strict=True)):
        middle = TOP + ROW * (j + 0.5)
        said = f"{name}: {', '.join(map(number, values))}"
        if figure.shares is not None:
            parts.append(
                _label(WIDTH - RIGHT, middle + 3, f"{figure.shares[j]:.1%}", "end", ' class="dim"')
            )
            said += f"; {figure.shares[j]:.2%} of the rows"
        inner = f"<title>{text(said)}</title>"
        parts.append(
            f'<text x="{beside:g}" y="{middle + 3:g}" text-anchor="end">{inner}'
            f"{text(_short(name))}</text>"
        )
        if len(values) == 1:
            a, b = sorted((X(0.0), X(values[0])))
            kind = "positive" if values[0] > 0 else "negative"
            parts.append(_bar(a, middle - 5, b - a, 10, kind, said))
        if figure.band is not None:
            for k in range(len(values)):
                kind = "whisker" if len(values) == 1 else f"whisker c{k % 8}"
                start, stop = (X(end[j, k]) for end in figure.band)
                parts += _whisker(middle, start, stop, kind, upright=False)
        if len(values) > 1:
            parts += [
                f'<circle cx="{X(value)}" cy="{middle:g}" r="3.5" class="dot c{k % 8}"/>'
                for k, value in enumerate(values)
            ]
    return _svg(WIDTH, height, parts, figure.title)


def _map(figure: HeatMap) -> str:
    n, m = figure.values.shape
    cell = 18
    bottom = 8 + max((wide(_short(name)) for name in figure.columns), default=LETTER)
    beside = _beside(figure.rows)
    width, height = beside + 6 + cell * m + RIGHT, TOP + cell * n + bottom
    most = float(np.abs(figure.values).max(initial=0.0)) or 1.0
    parts = []
    for i, name in enumerate(figure.rows):
        middle = TOP + cell * (i + 0.5)
        parts.append(_label(beside, middle + 3, _short(name), "end"))
        for j, value in enumerate(figure.values[i]):
            kind = "positive" if value > 0 else "negative"
            said = f"{name}, {figure.columns[j]}: {number(value)}"
            parts.append(
                f'<rect x="{beside + 6 + cell * j:g}" y="{TOP + cell * i}" width="{cell - 1}" '
                f'height="{cell - 1}" class="{kind}" fill-opacity="{abs(value) / most:.2f}">'
                f"<title>{text(said)}</title></rect>"
            )
    for j, name in enumerate(figure.columns):
        x, y = beside + 6 + cell * (j + 0.5) + 3, TOP + cell * n + 6
        parts.append(_label(x, y, _short(name), "end", f' transform="rotate(-90 {x:g} {y:g})"'))
    return _svg(width, height, parts, f"{figure.title}: {figure.y_label}", 0.9)
