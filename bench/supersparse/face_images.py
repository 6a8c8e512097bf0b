"""Face images, the splits of Biggio 2015, section IV-A, and two ways to compare faces.

Eigenfaces to 95 % of the variance with an RBF, or a similarity without gradient: correlation of
image patches, each free to move by a pixel, in place of elastic bunch graph matching.
"""

from typing import NamedTuple

import numpy as np

from bench.data import shared_folder

SHAPE = (28, 23)
PATCH, SHIFT = 7, 1
KEPT_BLOCKS = 16
MOVED = {}


def faces(tiny):
    """(n, 112 x 92) images in [0, 1] and their subjects; generated ones where no real are."""
    folder = shared_folder()
    path = folder / "att_faces" / "faces.npz"
    if not tiny and path.exists():
        data = np.load(path)
        return data["images"].astype(np.float64) / 255, data["subject"]
    rng = np.random.default_rng(0)
    people = rng.random((6, 28, 23)).repeat(4, axis=1).repeat(4, axis=2)
    subject = np.repeat(np.arange(6), 10)
    return np.clip(people[subject] + 0.1 * rng.standard_normal((60, 112, 92)), 0, 1), subject


class Split(NamedTuple):
    """Numbers of images, and who is enrolled."""

    enrolled: np.ndarray
    train: np.ndarray
    genuine: np.ndarray
    """The images of enrolled clients that are not trained on."""
    impostors: np.ndarray
    """All images of the others."""


def split(subject, n_shots, rng):
    """Half of the clients enrolled, with that many images each."""
    clients = rng.permutation(np.unique(subject))
    half = len(clients) // 2
    train, genuine = [], []
    for client in clients[:half]:
        shots = rng.permutation(np.flatnonzero(subject == client))
        train += shots[:n_shots].tolist()
        genuine += shots[n_shots:].tolist()
    impostors = np.flatnonzero(np.isin(subject, clients[half:]))
    return Split(clients[:half], np.array(train), np.array(genuine), impostors)


def represent(images, train, matching):
    """Rows for all images, the similarity, and gamma (None: the similarity is a callable).

    Nothing but the training images has a say in it.
    """
    if matching.startswith("eigen"):
        from sklearn.decomposition import PCA

        flat = images.reshape(len(images), -1)
        pca = PCA(0.95, svd_solver="full").fit(flat[train])
        X = pca.transform(flat)
        return X, "rbf", 1.0 / (X.shape[1] * X[train].var())
    small = images[:, : 4 * SHAPE[0], : 4 * SHAPE[1]]
    small = small.reshape(len(images), SHAPE[0], 4, SHAPE[1], 4).mean(axis=(2, 4))
    return small.reshape(len(images), -1), moving_patches, None


def transplanted(X, subject, y, n):
    """The training images, and n of them that differ as two images of another client do; labels.

    Half of these are of the client whose images y marks, and all keep the label of their own.
    """
    rng = np.random.default_rng(0)
    pairs = np.argwhere((subject[:, None] == subject) & ~np.eye(len(X), dtype=bool))
    base = rng.integers(0, len(X), n)
    base[: n // 2] = rng.choice(np.flatnonzero(y), n // 2)
    first, second = pairs[rng.integers(0, len(pairs), n)].T
    return np.vstack([X, X[base] + X[first] - X[second]]), np.append(y, y[base])


def rbf(gamma):
    from sklearn.metrics.pairwise import rbf_kernel

    return lambda X, Z: rbf_kernel(X, Z, gamma=gamma)


def moving_patches(X, Z):
    """(n, m): mean over patches of the best correlation within a shift of one pixel."""
    b = unit(Z.astype(np.float32)[:, WINDOWS[:, MIDDLE]]).transpose(1, 2, 0)
    a = moved(X)
    correlation = (a @ b).reshape(len(a), -1, len(X), len(Z))
    return correlation.max(axis=1).mean(axis=0).astype(np.float64)


def moved(X):
    """(patches, shifts x rows, pixels): the patches of rows at all their places, of length 1.

    A search asks for the same rows again and again: those of the last blocks are kept.
    """
    key = X[0].tobytes() + X[-1].tobytes()
    if key not in MOVED or not np.array_equal(MOVED[key][0], X):
        a = unit(X.astype(np.float32)[:, WINDOWS]).transpose(1, 2, 0, 3)
        while len(MOVED) >= KEPT_BLOCKS:
            del MOVED[next(iter(MOVED))]
        MOVED[key] = X.copy(), a.reshape(len(a), -1, a.shape[-1])
    return MOVED[key][1]


def windows():
    """(patches, shifts, pixels) the numbers of the pixels of each patch at each of its places."""
    high, wide = (range(SHIFT, side - PATCH - SHIFT + 1, PATCH) for side in SHAPE)
    moves = range(-SHIFT, SHIFT + 1)
    square = np.add.outer(np.arange(PATCH) * SHAPE[1], np.arange(PATCH)).ravel()
    corners = [
        [(i + di) * SHAPE[1] + j + dj for di in moves for dj in moves] for i in high for j in wide
    ]
    return np.array(corners)[:, :, None] + square


WINDOWS = windows()
MIDDLE = WINDOWS.shape[1] // 2


def unit(patches):
    """Patches less their means, of length 1."""
    patches = patches - patches.mean(axis=-1, keepdims=True)
    size = np.sqrt((patches**2).sum(axis=-1, keepdims=True))
    return patches / np.maximum(size, 1e-6)
