"""Sums over rows and over table cells: histograms, and two-dimensional tables."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..numeric.checks import check_array, check_number
from ..numeric.jit import inlined, kernel
from ..numeric.simd.add import add_pair

N_CELLS = 64
"""Number of cells along a side of a table."""
RUN = 1024
"""Largest number of rows of a run, which goes into tables as a whole or not at all."""
TILE = 1024
"""Number of rows computed at a time, whose numbers stay in the nearest cache."""


class ScaledColumns(NamedTuple):
    """The numbers in z = (clip(x, low, high) - center) / scale, (M,) float64 each."""

    low: np.ndarray
    high: np.ndarray
    center: np.ndarray
    scale: np.ndarray
    """Standard deviation of the clipped values, or 1; inf for a constant column, whose z is 0."""
    means: np.ndarray
    """(M, N_CELLS) mean of z in each of the equal cells of [low, high]."""

    def check_scaling(self, n_columns: int) -> None:
        """Raise ValueError unless columns from a file are the scaling of so many columns."""
        check_array("low", self.low, (n_columns,))
        check_array("high", self.high, (n_columns,))
        check_array("center", self.center, (n_columns,))
        check_array("scale", self.scale, (n_columns,), finite=False)
        check_array("means", self.means, (n_columns, N_CELLS))
        if not (self.scale > 0).all() or (self.low > self.high).any():
            raise ValueError("columns need low <= high and a scale > 0")

    def check_function(
        self, alpha: np.ndarray, low: float, high: float, values: np.ndarray, least: int
    ) -> None:
        """Raise ValueError unless a function on [low, high] of alpha'z has `least` values or more.

        The projection of every row must be finite, because kernels make places of projections.
        """
        check_array("alpha", alpha, (len(self.low),))
        check_array("values", values, (None,))
        check_number("low", low)
        check_number("high", high)
        with np.errstate(over="ignore", invalid="ignore"):
            reach = np.maximum(np.abs(self.low - self.center), np.abs(self.high - self.center))
            largest = (np.abs(alpha / self.scale) * reach).sum() + abs(low) + abs(high)
            per_step = len(values) / np.float64(high - low) if high > low else np.inf
        if len(values) < least or not (np.isfinite(largest) and np.isfinite(per_step)):
            raise ValueError(f"a function of {len(values)} values on [{low}, {high}]")

    @property
    def live(self) -> np.ndarray:
        """Numbers of the columns that are not constant."""
        return np.flatnonzero(np.isfinite(self.scale))


class Cells(NamedTuple):
    """The occupied cells of several columns' tables, one column after the other."""

    columns: np.ndarray
    """(c,) numbers of the columns."""
    ends: np.ndarray
    """(c + 1,) where each column's cells begin, and where the last one's end."""
    s: np.ndarray
    """(cells,) mean projection."""
    z: np.ndarray
    """(cells,) mean of the column."""
    pair: np.ndarray
    """(cells, 2) two sums of each cell."""
    reach: np.ndarray
    """(c, 2) half of the extent of a column's cells in both directions."""


@kernel
def step_values(t, low, high, heights, out):
    """Add the histogram function with these heights at t to `out`, in place."""
    n = len(heights)
    scale = n / (high - low)
    for i in range(len(t)):
        out[i] += heights[int(min(max((t[i] - low) * scale, 0.0), n - 1.0))]


@inlined
def project_tile(rows, start, n, alpha, used, columns, t):
    """Write alpha'z of the rows start, ... into t[:n]; only the columns `used` have a weight.

    `columns` are `ScaledColumns`, a name that the compiled kernels on disk hold.
    """
    for i in range(n):
        t[i] = 0.0
    for m in used:
        x = rows.flat[start * rows.row_step + m * rows.column_step :]
        low, high, center = columns.low[m], columns.high[m], columns.center[m]
        factor = alpha[m] / columns.scale[m]
        if rows.row_step == 1:  # apart, so that it vectorises
            for i in range(n):
                t[i] += factor * (min(max(np.float64(x[i]), low), high) - center)
        else:
            for i in range(n):
                value = np.float64(x[i * rows.row_step])
                t[i] += factor * (min(max(value, low), high) - center)


@kernel
def project_rows(rows, alpha, columns, t):
    """Write alpha'z of every row into `t` in place."""
    used = np.flatnonzero(alpha)
    for start in range(0, rows.n_rows, TILE):
        n = min(TILE, rows.n_rows - start)
        project_tile(rows, start, n, alpha, used, columns, t[start:])


@kernel
def place_rows(t, first_sum, second_sum, mass, runs, low, scale, kept, row, values, first, places):
    """Write the rows of `runs` (k, 2) that have mass, for `add_tables`; return their number.

    The table sums two numbers of each row, `first_sum` and `second_sum`.  kept (place in its run),
    row (of the table, by t) and values (2 a row) follow each other; first[r] is where run r begins.
    `places` (N_CELLS, 2) sums mass and mass t by row of the table, in place.
    """
    n = 0
    for r in range(len(runs)):
        first[r] = n
        for i in range(runs[r, 0], runs[r, 1]):
            if mass[i] == 0.0:
                continue
            b = int(min(max((t[i] - low) * scale, 0.0), N_CELLS - 1.0))
            places[b, 0] += mass[i]
            places[b, 1] += mass[i] * t[i]
            kept[n] = i - runs[r, 0]
            row[n] = 2 * N_CELLS * b
            values[2 * n] = first_sum[i]
            values[2 * n + 1] = second_sum[i]
            n += 1
    first[len(runs)] = n
    return n


@kernel
def add_tables(rows, chosen, columns, runs, first, kept, row, values, tables):
    """Add the two numbers of each placed row to its cell of the chosen columns' tables, in place.

    Values outside a column's range count in the outer cells.

    Returns a number without meaning: a table is read through first, which brings it into the cache
    quickest (measured: 2.9 ns a row without, 1.6 with).
    """
    kind = rows.flat.dtype.type
    zero, last = kind(0), kind(N_CELLS - 1)
    at, through = np.empty(RUN, np.int32), 0.0
    for k in range(len(chosen)):
        m, table = chosen[k], tables[k].reshape(-1)
        least, factor = kind(columns.low[m]), kind(N_CELLS / (columns.high[m] - columns.low[m]))
        for i in range(0, len(table), 8):
            through += table[i]
        for r in range(len(runs)):
            n = runs[r, 1] - runs[r, 0]
            x = rows.flat[runs[r, 0] * rows.row_step + m * rows.column_step :]
            if rows.row_step == 1:  # apart, so that it vectorises
                for i in range(n):
                    at[i] = 2 * np.int32(min(max((x[i] - least) * factor, zero), last))
            else:
                for i in range(n):
                    value = (x[i * rows.row_step] - least) * factor
                    at[i] = 2 * np.int32(min(max(value, zero), last))
            # unsigned places: a signed one is asked each time whether it counts from the end
            for q in range(np.uintp(first[r]), np.uintp(first[r + 1])):
                add_pair(table, np.intp(row[q] + at[np.uintp(kept[q])]), values, np.intp(2 * q))
    return through


@kernel
def dot_columns(rows, live, columns, q, out):
    """Add sum q z_m over the rows to out[m] for the columns m of `live`, in place."""
    for m in live:
        x = rows.flat[m * rows.column_step :]
        low, high, center = columns.low[m], columns.high[m], columns.center[m]
        total = 0.0
        for i in range(rows.n_rows):
            value = np.float64(x[i * rows.row_step])
            total += q[i] * (min(max(value, low), high) - center)
        out[m] += 1.0 / columns.scale[m] * total


@inlined
def place_column(rows, m, columns, t):
    """Write z_m of every row into `t` in place; return the least and the largest that there are."""
    x = rows.flat[m * rows.column_step :]
    low, high, center = columns.low[m], columns.high[m], columns.center[m]
    factor = 1.0 / columns.scale[m]
    for i in range(rows.n_rows):
        t[i] = factor * (min(max(np.float64(x[i * rows.row_step]), low), high) - center)
    return (low - center) / columns.scale[m], (high - center) / columns.scale[m]


@kernel
def count_cells(tables, ends):
    """Write the number of cells that are not empty, of all tables before each, to ends in place."""
    ends[0] = 0
    for k in range(len(tables)):
        n, table = 0, tables[k].reshape(-1)
        for i in range(0, len(table), 2):
            n += table[i] != 0.0 or table[i + 1] != 0.0
        ends[k + 1] = ends[k] + n


@kernel
def occupied_cells(tables, s, z, scale, s_out, z_out, pair):
    """Write the mean places and sums times `scale` of the cells that are not empty, in place.

    tables (c, a, b, 2) of cells at s (a,) and z (c, b); all cells of a table follow each other.
    """
    n = 0
    for k in range(len(tables)):
        for i in range(tables.shape[1]):
            for j in range(tables.shape[2]):
                if tables[k, i, j, 0] != 0.0 or tables[k, i, j, 1] != 0.0:
                    s_out[n], z_out[n] = s[i], z[k, j]
                    pair[n, 0] = scale * tables[k, i, j, 0]
                    pair[n, 1] = scale * tables[k, i, j, 1]
                    n += 1


@kernel
def spread(cells, at, shift, low, high):
    """Write the range of s + shift z over the cells of table `at` for each move, in place.

    Rows lie as far as the reach from their cell's mean.
    """
    for k in range(len(shift)):
        a, b = np.inf, -np.inf
        for i in range(cells.ends[at[k]], cells.ends[at[k] + 1]):
            t = cells.s[i] + shift[k] * cells.z[i]
            a, b = min(a, t), max(b, t)
        pad = cells.reach[at[k], 0] + abs(shift[k]) * cells.reach[at[k], 1]
        low[k], high[k] = a - pad, b + pad


@kernel
def bins_of_cells(cells, at, shift, low, high, sums):
    """Write histograms (k, n, 2) of the cells of table `at` for each move, in place.

    A cell is shared by the two bins whose centres are nearest: the cost is smooth in the move.
    """
    n = sums.shape[1]
    for k in range(len(shift)):
        scale = n / (high[k] - low[k])
        for i in range(cells.ends[at[k]], cells.ends[at[k] + 1]):
            u = (cells.s[i] + shift[k] * cells.z[i] - low[k]) * scale - 0.5
            u = min(max(u, 0.0), n - 1.0)
            b = min(int(u), n - 2)
            f = u - b
            sums[k, b, 0] += (1.0 - f) * cells.pair[i, 0]
            sums[k, b, 1] += (1.0 - f) * cells.pair[i, 1]
            sums[k, b + 1, 0] += f * cells.pair[i, 0]
            sums[k, b + 1, 1] += f * cells.pair[i, 1]


@inlined
def quantile_of(pieces, first, stop, share):
    """Return the `quantiles` of the distribution in pieces [first, stop); NaN without mass."""
    total = 0.0
    for i in range(first, stop):
        total += pieces.mass[i]
    top, last = 0.0, -1
    for i in range(first, stop):
        if pieces.mass[i] > 0.0:
            top += pieces.mass[i]
            last = i
            if top >= share * total:
                break
    if last < 0:
        return np.nan
    mass, lo, hi = pieces.mass[last], pieces.lo[last], pieces.hi[last]
    inside = min(max((share * total - (top - mass)) / mass, 0.0), 1.0)
    return lo if lo == hi else lo * (1.0 - inside) + hi * inside


@kernel
def scale_columns(pieces, least, most, tails, standardize, columns):
    """Write the scaling of columns with these distributions into `columns` in place.

    `least` and `most` are their extreme values, which hold where the quantiles at `tails` are one.
    """
    sums = np.empty((2, N_CELLS))
    for d in range(len(least)):
        first, stop = pieces.ends[d], pieces.ends[d + 1]
        while stop > first and pieces.lo[stop - 1] == np.inf:  # what is missing
            stop -= 1
        low, high = 0.0, 0.0
        if stop > first:
            low = quantile_of(pieces, first, stop, tails[0])
            high = quantile_of(pieces, first, stop, tails[1])
            if not low < high:  # a rare value is no outlier where there are few others
                low, high = least[d], most[d]
        columns.low[d], columns.high[d], columns.center[d], columns.scale[d] = (
            low,
            high,
            low,
            np.inf,
        )
        columns.means[d] = 0.0
        width = high - low
        if not 0.0 < width < np.inf:
            continue
        total, center, square, lost = 0.0, 0.0, 0.0, 0.0
        for i in range(first, stop):
            total += pieces.mass[i]
        for i in range(first, stop):
            for q in range(4):
                x = point_of(pieces, i, q, low, high) / total
                center, lost = add_exactly(center, lost, 0.25 * pieces.mass[i] * x)
        center += lost
        sums[:], lost = 0.0, 0.0
        for i in range(first, stop):
            mass = 0.25 * pieces.mass[i]
            for q in range(4):
                x = point_of(pieces, i, q, low, high)
                square, lost = add_exactly(square, lost, mass * ((x - center) / width) ** 2)
                cell = int(min((x - low) * (N_CELLS / width), N_CELLS - 1.0))
                sums[0, cell] += mass
                sums[1, cell] += mass * ((x - low) / width)
        square += lost
        scale = np.sqrt(square / total) * width
        if not scale > 0.0:
            continue
        if not standardize:
            scale = 1.0
        columns.center[d], columns.scale[d] = center, scale
        for c in range(N_CELLS):
            mean = sums[1, c] / sums[0, c] if sums[0, c] > 0.0 else (c + 0.5) / N_CELLS
            columns.means[d, c] = (low + width * mean - center) / scale


@inlined
def add_exactly(total, lost, x):
    """Return total + x, and `lost` with what its rounding took off (Kahan 1965)."""
    more = total + x
    return more, lost + (x - (more - total))


@inlined
def point_of(pieces, i, q, low, high):
    """Return the q-th of the four points that stand for a piece, or a value with its own mass."""
    share = (q + 0.5) / 4.0
    return min(max(pieces.lo[i] * (1.0 - share) + pieces.hi[i] * share, low), high)
