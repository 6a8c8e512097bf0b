"""Dual epochs over sparse rows held in memory, each value as a place and a fraction.

A spline of degree 1 at u = j + f is w_j + f (w_{j+1} - w_j), so a value is the place of w_j among
the coefficients of all columns, 4 bytes, and f, 4 bytes.  Where 0 is a column's first breakpoint
f(0) = w_0 = 0 and nothing is stored of it: a row's values of the first interval, whose only
coefficient is w_1, come first.  Steps as in `kernels_dual_linear`, of shapes

    POINTS  L = s I but for the value at 0     order 0     the one or two active coefficients
    RAMPS   L = s min(i, j)                    order 1     w_i += delta s min(i, u)

Coefficients of K > 1 classes lie side by side, padded to `LANES`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..numeric.bsplines import coordinate
from ..numeric.jit import inlined, kernel
from ..numeric.lanes import (
    LANES,
    add_lanes,
    add_ramp_lanes,
    add_steps,
    pair_lanes,
    single_lanes,
)
from .kernels_dual_step import class_target, dual_step

POINTS, RAMPS = 0, 1
ONE, TWO, THREE, FOUR = np.uintp(1), np.uintp(2), np.uintp(3), np.uintp(4)
BYTES = 256
MOST_PLACES = 1 << 31


class Codes(NamedTuple):
    """Rows as places and fractions."""

    slot: np.ndarray
    """uint32: of values of the first interval the place of w_1, of others that of w_j."""
    f: np.ndarray
    """float32."""
    place: np.ndarray
    """(m, 4) int64: where a row's values of the first interval begin and end, and the others."""


class Spans(NamedTuple):
    """Where the coefficients of each column lie."""

    kind: int
    at: np.ndarray
    """(p + 1,) intp: the place of column d's first coefficient."""
    scale: np.ndarray
    """(p,) float64 s."""


class Places(NamedTuple):
    """What a step needs to know of each place."""

    kind: int
    scale: np.ndarray
    """(places,) s of its column, in the dtype of the coefficients."""
    first: np.ndarray
    """(places,) int32: the place of its column's first coefficient."""
    room: np.ndarray
    """(places,) int32: places of its column that a ramp is added to."""
    width: int
    """Lanes of a place: 1, or of K > 1 classes K padded."""


@kernel
def byte_coordinates(columns):
    """Return (p, 256) float32: the coordinates of the values 0 to 255, of which bytes are."""
    p = len(columns.degree)
    out = np.zeros((p, BYTES), np.float32)
    for d in range(p):
        for x in range(BYTES if columns.n_intervals[d] > 0 else 0):
            out[d, x] = coordinate(columns.knots.dtype.type(x), columns, d)
    return out


@kernel
def encode(data, indices, indptr, columns, known, spans, start, slot, f, place, norms):
    """Write the rows as `Codes`, from `start` of `slot` and `f` on, and |Psi|^2; all in place.

    `known` are `byte_coordinates`, or empty.
    """
    p, scale = len(columns.degree), spans.scale
    begin, last = np.empty(p, np.int32), np.empty(p, np.int32)
    for d in range(p):
        begin[d], last[d] = spans.at[d], columns.n_intervals[d] - 1
    for i in range(len(indptr) - 1):
        low, high = np.intp(start + indptr[i]), np.intp(start + indptr[i + 1])
        place[i, 0], place[i, 3] = low, high
        norm = 0.0
        for v in range(np.uintp(indptr[i]), np.uintp(indptr[i + 1])):
            d, x = np.uintp(indices[v]), data[v]
            byte = np.int32(x) if 0 <= x < BYTES else np.int32(0)
            if last[d] < 0:
                continue
            if len(known) > 0 and byte == x:
                u = known[d, np.uintp(byte)]
            else:
                u = coordinate(x, columns, d)
            j = min(np.int32(u), last[d])
            # at one end or the other of the row's values; a branch could not be predicted
            is_first = np.intp(j == 0)
            to = np.uintp(low if is_first else high - 1)
            part = u - np.float32(j)
            slot[to], f[to] = begin[d] + j + is_first, part
            x2 = np.float64(part) * part
            rest = np.float64(1 - is_first) * (1.0 - part) * (1.0 - part)
            norm += scale[d] * (x2 + (rest if spans.kind == POINTS else np.float64(j)))
            low += is_first
            high += is_first - 1
        place[i, 1], place[i, 2], norms[i] = low, high, norm


@inlined
def code_margin(slot, f, w, a, b, c, d):
    """Return one class's sum over a row's values; four sums, so that additions do not wait."""
    s0 = w.dtype.type(0)
    s1, s2, s3 = s0, s0, s0
    for v in range(a, b):
        s0 += f[v] * w[slot[v]]
    last = c + (d - c) // FOUR * FOUR
    v = c
    while v < last:
        k0, k1 = np.uintp(slot[v]), np.uintp(slot[v + ONE])
        k2, k3 = np.uintp(slot[v + TWO]), np.uintp(slot[v + THREE])
        s0 += w[k0] + f[v] * (w[k0 + ONE] - w[k0])
        s1 += w[k1] + f[v + ONE] * (w[k1 + ONE] - w[k1])
        s2 += w[k2] + f[v + TWO] * (w[k2 + ONE] - w[k2])
        s3 += w[k3] + f[v + THREE] * (w[k3 + ONE] - w[k3])
        v += FOUR
    while v < d:
        k0 = np.uintp(slot[v])
        s1 += w[k0] + f[v] * (w[k0 + ONE] - w[k0])
        v += ONE
    return np.float64(s0 + s1) + np.float64(s2 + s3)


@inlined
def code_step(places, slot, f, w, a, b, c, d, delta):
    """Add delta L (Phi - c) of one class to its coefficients in place."""
    step, scale = w.dtype.type(delta), places.scale
    if places.kind == POINTS:
        for v in range(a, b):
            k = np.uintp(slot[v])
            w[k] += step * scale[k] * f[v]
        for v in range(c, d):
            k = np.uintp(slot[v])
            whole = step * scale[k]
            part = whole * f[v]
            w[k] += whole - part
            w[k + ONE] += part
    else:
        first, room = places.first, places.room
        for v in range(a, b):
            k = np.uintp(slot[v])
            add_ramp_lanes(w, first[k], room[k], step * scale[k], w.dtype.type(f[v]))
        for v in range(c, d):
            k = np.uintp(slot[v])
            u = w.dtype.type(np.intp(k) - first[k]) + w.dtype.type(f[v])
            add_ramp_lanes(w, first[k], room[k], step * scale[k], u)


@kernel
def epoch_codes(codes, places, rule, problem, norms, y, weight, order, w, state, seen):
    """One visit of every row of `order`, of one class; `state`'s alpha and b, `w` in place.

    `seen` (m, 1) gets each row's decision as it was when it was visited.
    """
    slot, f, C = codes.slot, codes.f, problem.C
    bias = problem.intercept_scaling**2
    for row in order:
        i = np.uintp(row)
        s = weight[i] if len(weight) > 0 else 1.0
        if s == 0:
            continue
        a, b = np.uintp(codes.place[i, 0]), np.uintp(codes.place[i, 1])
        c, d = np.uintp(codes.place[i, 2]), np.uintp(codes.place[i, 3])
        z = state.b[0] + code_margin(slot, f, w, a, b, c, d)
        seen[i, 0] = z
        delta = dual_step(rule, C * s, state.alpha, i, 0, 1, y[i], z, norms[i] + bias)
        if delta != 0.0:
            state.b[0] += delta * bias
            code_step(places, slot, f, w, a, b, c, d, delta)


@kernel
def epoch_codes_classes(codes, places, rule, problem, norms, y, weight, order, w, state, seen):
    """`epoch_codes` of K > 1 classes side by side."""
    slot, f, C, width = codes.slot, codes.f, problem.C, places.width
    bias, n_classes = problem.intercept_scaling**2, len(state.b)
    total, step = np.zeros(width, w.dtype), np.zeros(width, w.dtype)
    for row in order:
        i = np.uintp(row)
        s = weight[i] if len(weight) > 0 else 1.0
        if s == 0:
            continue
        a, b, c, d = codes.place[i, 0], codes.place[i, 1], codes.place[i, 2], codes.place[i, 3]
        for at in range(0, width, LANES):
            for k in range(at, at + LANES):
                total[k] = 0
            single_lanes(w, slot, f, a, b, width, at, total)
            pair_lanes(w, slot, f, c, d, width, at, total)
        norm = norms[i] + bias
        for k in range(n_classes):
            z = state.b[k] + np.float64(total[k])
            seen[i, k] = z
            target = class_target(y[i], k, n_classes)
            delta = dual_step(rule, C * s, state.alpha, i, k, n_classes, target, z, norm)
            state.b[k] += delta * bias
            step[k] = delta
        for at in range(0, width, LANES):
            moved = False
            for k in range(at, at + LANES):
                moved |= step[k] != 0
            if moved:
                step_lanes(places, slot, f, w, a, b, c, d, at, step)


@inlined
def step_lanes(places, slot, f, w, a, b, c, d, at, step):
    """`code_step` of the classes at:at + LANES."""
    scale, width = places.scale, places.width
    if places.kind == POINTS:
        for v in range(a, b):
            k = slot[v]
            add_lanes(w, k * width, step, at, scale[k] * w.dtype.type(f[v]))
        for v in range(c, d):
            k = slot[v]
            whole = scale[k]
            part = whole * w.dtype.type(f[v])
            add_lanes(w, k * width, step, at, whole - part)
            add_lanes(w, (k + 1) * width, step, at, part)
    else:
        first, room = places.first, places.room
        for v in range(a, d):
            if b <= v < c:
                continue
            k = np.intp(slot[v])
            u = w.dtype.type(f[v])
            if v >= c:
                u += w.dtype.type(k - first[k])
            add_steps(w, first[k] * width, room[k], width, step, at, scale[k], u)


@kernel
def code_sums(codes, W, F, force, V):
    """Write Phi'w of every row into `F` (m, n), add sum force Phi to `V` (K, places); in place.

    `W` (n, places) are coefficients less that of 0.  Of the first coefficients, which 0 has alone,
    nothing is added.
    """
    slot, f = codes.slot, codes.f
    for i in range(len(F)):
        a, b = np.uintp(codes.place[i, 0]), np.uintp(codes.place[i, 1])
        c, d = np.uintp(codes.place[i, 2]), np.uintp(codes.place[i, 3])
        for k in range(len(W)):
            F[i, k] = code_margin(slot, f, W[k], a, b, c, d)
        for k in range(len(V)):
            r = force[i, k]
            if r != 0.0:
                for v in range(a, b):
                    V[k, np.uintp(slot[v])] += r * f[v]
                for v in range(c, d):
                    at = np.uintp(slot[v])
                    part = r * f[v]
                    V[k, at] += r - part
                    V[k, at + ONE] += part
