"""The digits of the paper's headline as stores of patch columns, made once, a block at a time.

60,000 images x (1,000 templates x 16 masks) as float32 in zarr (3.84 GB), in chunks of 120 columns
so that single columns can be read; and the expanded set, five deformed copies of each image
besides, as bytes (5.76 GB).  Neither is compressed: both are read again and again.
"""

import shutil
from pathlib import Path

import numpy as np

from bench.data import Absent, read_table

from . import patches

ROWS, COLUMNS = 1_500, 120
"""Of a chunk."""
FEATURES = {"upright": True, "damp": 1.0, "spread": 5.5}
"""Of `patches.learn`; chosen by ``--only choice``, on training images alone."""
STRENGTH, SMOOTH = 24.0, 5.0
"""Of the elastic part of `deform`: pixels move by 0.8 (standard deviation), "fairly strong" as the
paper has it; by training images held out, better than 0.3."""
STEP = 255
"""Of the bytes that stand for a response from 0 to 1."""


def images(shared, part, tiny):
    """(m, 28, 28) uint8 and labels: MNIST, or for a tiny run scikit-learn's digits made larger."""
    if tiny:
        from sklearn.datasets import load_digits

        X, y = load_digits(return_X_y=True)
        X = np.kron(X.reshape(-1, 8, 8), np.ones((3, 3)))
        X = np.pad(X * 15.9, ((0, 0), (2, 2), (2, 2))).astype(np.uint8)
        half = slice(0, 1000) if part == "train" else slice(1000, None)
        return X[half], y[half]
    _, columns, y = read_table(shared / "mnist" / f"{part}.parquet")
    return np.stack(columns, axis=1).reshape(-1, 28, 28), y


def deform(X, generator, strength=STRENGTH, smooth=SMOOTH, turn=10.0, zoom=0.1):
    """Elastic deformations (Simard et al. 2003) with small turns and changes of size."""
    from scipy.ndimage import gaussian_filter, map_coordinates

    m, s, _ = X.shape
    grid = np.stack(np.meshgrid(np.arange(s), np.arange(s), indexing="ij")) - (s - 1) / 2
    angle = np.deg2rad(generator.uniform(-turn, turn, m))
    scale = 1 + generator.uniform(-zoom, zoom, (m, 2))
    A = np.stack([np.cos(angle), -np.sin(angle), np.sin(angle), np.cos(angle)], axis=1)
    A = A.reshape(m, 2, 2) / scale[:, None]
    field = generator.uniform(-1, 1, (m, 2, s, s))
    field = strength * gaussian_filter(field, (0, 0, smooth, smooth), mode="constant")
    where = np.einsum("mij,jrc->imrc", A, grid) + field.transpose(1, 0, 2, 3) + (s - 1) / 2
    image = np.broadcast_to(np.arange(m, dtype=float)[:, None, None], (m, s, s))
    moved = map_coordinates(X.astype(np.float32), [image, *where], order=1)
    return np.clip(np.rint(moved), 0, 255).astype(X.dtype)


def stores(folder, shared, *, n_templates, tiny=False, copies=0, seed=0):
    """Paths of the training and the test store; written where they are not there yet.

    With `copies` the training store holds each image, and so many deformed ones of it, as bytes;
    the test store then holds bytes too, for a model of them.
    """
    n = 30 if tiny else n_templates
    look = "-".join(f"{key}{value:g}" for key, value in FEATURES.items())
    name = f"digits-{'tiny' if tiny else look}-{n}x16-{seed}"
    rows = f"expanded{copies}-strength{STRENGTH:g}-smooth{SMOOTH:g}" if copies else "train"
    train = Path(folder) / f"{name}-{rows}.zarr"
    test = Path(folder) / f"{name}-test{'-bytes' if copies else ''}.zarr"
    dtype = "u1" if copies else "f4"
    if train.exists() and test.exists():
        return train, test
    if not tiny and not (shared / "mnist").exists():
        raise Absent(f"no {shared / 'mnist'}; set STREAMLEARN_DATA to the folder of the real sets")
    X, y = images(shared, "train", tiny)
    learned = patches.learn(X, n, seed=seed, **FEATURES)
    if not test.exists():
        Xt, yt = images(shared, "test", tiny)
        write(test, batches(Xt, yt, 0, seed), len(yt), learned, dtype)
    if not train.exists():
        blocks = (block for copy in range(1 + copies) for block in batches(X, y, copy, seed))
        write(train, blocks, (1 + copies) * len(y), learned, dtype)
    return train, test


def batches(X, y, copy, seed):
    for a in range(0, len(y), ROWS):
        part = X[a : a + ROWS]
        if copy:
            part = deform(part, np.random.default_rng([seed, copy, a]))
        yield part, y[a : a + ROWS]


def write(path, blocks, n_rows, learned, dtype):
    """Blocks of images as a zarr group of patch columns `X` and `y`."""
    import zarr

    draft = Path(f"{path}.part")
    shutil.rmtree(draft, ignore_errors=True)
    group = zarr.create_group(str(draft))
    width = len(learned.templates) * learned.masks.shape[1]
    X = group.create_array(
        "X",
        shape=(n_rows, width),
        chunks=(min(ROWS, n_rows), min(COLUMNS, width)),
        dtype=dtype,
        compressors=None,
    )
    y = group.create_array("y", shape=(n_rows,), chunks=(min(ROWS, n_rows),), dtype="u1")
    at = 0
    for images_of, labels in blocks:
        values = patches.responses(learned, images_of)
        if dtype == "u1":
            values = np.rint(STEP * values).astype(np.uint8)
        X[at : at + len(labels)] = values
        y[at : at + len(labels)] = labels
        at += len(labels)
    draft.rename(path)


def multiply_adds(n_columns, size=28):
    """Of one prediction: shearing, a 7 x 7 template at every place, the mask, ten classes."""
    places = (size - patches.SIDE + 1) ** 2
    return 4 * size**2 + n_columns * (places * (patches.SIDE**2 + 1) + 10)
