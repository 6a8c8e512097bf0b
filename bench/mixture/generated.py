"""Made-up sets of the mixture tables: Fu 2010's circle and spirals, and pixels of skin."""

from pathlib import Path

import numpy as np

RADIUS = 0.5


def circle(n=400, seed=0):
    """Half of the rows uniform in the circle in the middle of [-1, 1]^2, half around it."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (40 * n, 2))
    inside = (X**2).sum(axis=1) < RADIUS**2
    rows = np.r_[np.flatnonzero(inside)[: n // 2], np.flatnonzero(~inside)[: n - n // 2]]
    return X[rows], inside[rows].astype(np.int8)


def spirals(n=1_000, seed=0):
    """r = +-1.3 theta, theta uniform on [pi / 2, 11 pi / 2], with some noise."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    theta = rng.uniform(0.5 * np.pi, 5.5 * np.pi, n)
    r = 1.3 * theta * (2 * y - 1)
    X = np.column_stack([r * np.cos(theta), r * np.sin(theta)])
    return X + 0.3 * rng.standard_normal((n, 2)), y.astype(np.int8)


def pixel_blocks(n, block=65_536, seed=0):
    """Yield (X, y) of made-up hyperspectral pixels, 33 channels of reflectance from 400 to 720 nm.

    Twelve materials, four of them skin: smooth spectra, lit with a strength of its own for each
    pixel, with noise in each channel.
    """
    rng = np.random.default_rng(seed)
    wave = np.linspace(0, 1, 33)
    centres = rng.random((12, 3, 1))
    spectra = (rng.random((12, 3, 1)) * np.exp(-(((wave - centres) / 0.15) ** 2))).sum(axis=1) + 0.2
    for start in range(0, n, block):
        m = min(block, n - start)
        material = rng.integers(0, 12, m)
        light = rng.uniform(0.4, 1.0, (m, 1))
        X = spectra[material] * light + 0.08 * rng.standard_normal((m, 33))
        yield X.astype(np.float32), (material < 4).astype(np.int8)


def pixel_file(folder, n):
    """The pixels as a parquet file in `folder`; written once, found again by name."""
    from .. import data

    path = Path(folder) / f"pixels-{n}.parquet"
    if not path.exists():
        data.write_parquet(path, pixel_blocks(n), n, 33, dictionary=False)
    return path
