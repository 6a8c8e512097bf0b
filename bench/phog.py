"""A spatial pyramid of oriented-gradient histograms: 181 cells of 12 directions, 2,172 columns.

Gradients are those of the image smoothed by a Gaussian; each pixel's gradient votes, by its length,
for the two directions nearest to its own and, by triangular weights, for the overlapping cells it
lies in (12 x 12, 6 x 6 and one for the whole image).  Every cell is divided by the length of its
histogram, so that strokes count alike however thick they are (Dalal & Triggs 2005; Bosch, Zisserman
& Munoz 2007; Maji & Malik 2009).
"""

import numpy as np

SIDE = 28
DIRECTIONS = 12
GRIDS = (12, 6, 1)
SIGMA = 1.0
FLOOR = 0.3
"""Added to a cell's length: an empty cell stays empty.  In units of the grey scale 0 to 1."""
N_COLUMNS = DIRECTIONS * sum(n * n for n in GRIDS)


def phog(
    images,
    *,
    sigma=SIGMA,
    floor=FLOOR,
    grids=GRIDS,
    directions=DIRECTIONS,
    overlap=1.0,
    signed=True,
    power=1.0,
):
    """(m, 28, 28) grey values 0 to 255 -> (m, columns) float32."""
    grey = np.asarray(images, np.float32) / 255
    smooth, slope = gaussian(sigma)
    dx, dy = smooth @ grey @ slope.T, slope @ grey @ smooth.T
    length = np.hypot(dx, dy)
    turn = 1.0 if signed else 2.0
    angle = np.arctan2(dy, dx) * (turn * directions / (2 * np.pi)) % directions
    low = np.floor(angle)
    share = angle - low
    low = low.astype(np.intp) % directions
    m = len(grey)
    votes = np.zeros((m, SIDE, SIDE, directions), np.float32)
    np.put_along_axis(votes, low[..., None], (length * (1 - share))[..., None], axis=-1)
    high = (low + 1) % directions
    np.put_along_axis(votes, high[..., None], (length * share)[..., None], axis=-1)
    parts = []
    for n in grids:
        pool = tents(n, overlap)
        rows = np.tensordot(votes, pool, axes=(1, 1))  # (m, 28, directions, n)
        cells = np.tensordot(rows, pool, axes=(1, 1)).transpose(0, 2, 3, 1)  # (m, n, n, directions)
        norm = np.sqrt((cells**2).sum(-1, keepdims=True)) + floor
        parts.append((cells / norm).reshape(m, -1))
    out = np.concatenate(parts, axis=1).astype(np.float32)
    return out if power == 1.0 else out ** np.float32(power)


def gaussian(sigma):
    """(28, 28) matrices that smooth a line of pixels, and that smooth and differentiate it."""
    at = np.arange(SIDE)
    d = at[:, None] - at
    bell = np.exp(-0.5 * (d / sigma) ** 2) / (sigma * np.sqrt(2 * np.pi))
    return bell.astype(np.float32), (bell * -d / sigma**2).astype(np.float32)


def tents(n, overlap=1.0):
    """(n, 28) triangular weights of the pixels in n cells along a line, each overlapping the next."""
    if n == 1:
        return np.ones((1, SIDE), np.float32)
    step = (SIDE - 4) / n
    centre = 1.5 + step * (np.arange(n) + 0.5)
    weight = 1 - np.abs(np.arange(SIDE) - centre[:, None]) / (overlap * step)
    weight = np.maximum(weight, 0)
    return (weight).astype(np.float32)
