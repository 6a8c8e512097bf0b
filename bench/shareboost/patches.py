"""Patch features of small grey images: how much of a template is found where a mask looks.

A column is one template with one mask: max over places of response(place) x mask(place), as in the
paper's A.1.  What the paper leaves open is chosen here: images may be sheared upright first,
patches are grey or oriented edges, of unit norm (their contrast damped), templates are k-means
centres of them, masks are soft bumps.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

SIDE = 7
BATCH = 50


class Patches(NamedTuple):
    """Templates and masks; everything `responses` needs."""

    templates: np.ndarray
    """(n, 49 x channels) unit rows."""
    masks: np.ndarray
    """(places, n_masks)."""
    size: int
    """Images are size x size."""
    pad: int
    channels: int
    damp: float
    upright: bool
    either_sign: bool


def straighten(images):
    """Images sheared so that their main axis is upright, about their centre of mass."""
    out = np.empty_like(images)
    shear_rows(images, out)
    return out


@njit(cache=True, nogil=True)
def shear_rows(images, out):
    m, s, _ = images.shape
    for i in range(m):
        total = row_sum = column_sum = 0.0
        for r in range(s):
            for c in range(s):
                v = float(images[i, r, c])
                total += v
                row_sum += v * r
                column_sum += v * c
        if total == 0:
            out[i] = images[i]
            continue
        r0, c0 = row_sum / total, column_sum / total
        both = own = 0.0
        for r in range(s):
            for c in range(s):
                v = float(images[i, r, c])
                both += v * (r - r0) * (c - c0)
                own += v * (r - r0) ** 2
        slope = min(max(both / max(own, 1e-9), -1.0), 1.0)
        for r in range(s):
            for c in range(s):
                at = c + slope * (r - r0)
                left = int(np.floor(at))
                part = at - left
                v = 0.0
                if 0 <= left < s:
                    v += (1 - part) * images[i, r, left]
                if 0 <= left + 1 < s:
                    v += part * images[i, r, left + 1]
                out[i, r, c] = np.uint8(v + 0.5)


def channels_of(images, n_channels):
    """(m, s, s, c) float32: the image itself (1), or its gradient in half-rectified directions."""
    I = images.astype(np.float32) / 255
    if n_channels == 1:
        return I[..., None]
    P = np.pad(I, ((0, 0), (1, 1), (1, 1)))
    dx = (P[:, 1:-1, 2:] - P[:, 1:-1, :-2]) / 2
    dy = (P[:, 2:, 1:-1] - P[:, :-2, 1:-1]) / 2
    angles = 2 * np.pi * np.arange(n_channels) / n_channels
    parts = [np.maximum(np.cos(a) * dx + np.sin(a) * dy, 0) for a in angles]
    return np.stack(parts, axis=-1).astype(np.float32)


def patches_of(images, pad, n_channels, damp):
    """(m, places, 49 c): the patch at every place, centred if grey, of norm below 1."""
    C = np.pad(channels_of(images, n_channels), ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(C, (SIDE, SIDE), axis=(1, 2))
    m, a, b = windows.shape[:3]
    P = np.ascontiguousarray(windows).reshape(m, a * b, -1)
    if n_channels == 1:
        P -= P.mean(axis=2, keepdims=True)
    P /= np.sqrt((P**2).sum(axis=2, keepdims=True) + damp**2)
    return P


def soft_masks(size, pad, grid, spread):
    """(places, grid^2): a bump of width `spread` at each cell of a grid over the places."""
    n = size + 2 * pad - SIDE + 1
    centres = (np.arange(grid) + 0.5) * n / grid - 0.5
    bump = np.exp(-0.5 * ((np.arange(n) - centres[:, None]) / spread) ** 2)
    masks = bump[:, None, :, None] * bump[None, :, None, :]
    masks = masks.reshape(grid * grid, n * n).T.astype(np.float32)
    return np.where(masks < 0.02, 0, masks)


def learn(
    images, n_templates, *, pad=0, channels=1, damp=0.3, grid=4, spread=3.0, upright=False,
    either_sign=False, seed=0,
):  # fmt: skip
    """Templates by k-means of patches of some images.

    `either_sign`: a template is found in its negative too (letters bright on dark, or dark on
    bright).
    """
    from sklearn.cluster import MiniBatchKMeans

    rng = np.random.default_rng(seed)
    some = images[np.sort(rng.choice(len(images), min(2000, len(images)), replace=False))]
    some = straighten(some) if upright else some
    size = images.shape[1]
    parts = []
    for a in range(0, len(some), BATCH):
        P = patches_of(some[a : a + BATCH], pad, channels, damp)
        P = P.reshape(-1, P.shape[2])
        P = P[(P**2).sum(axis=1) > 0.5]
        parts.append(P[rng.random(len(P)) < 0.3])
    P = np.concatenate(parts)
    P = P[rng.permutation(len(P))[:100_000]]
    means = MiniBatchKMeans(
        n_templates, batch_size=4096, n_init=1, max_iter=30, random_state=seed
    ).fit(P)
    templates = means.cluster_centers_.astype(np.float32)
    templates /= np.maximum(np.linalg.norm(templates, axis=1, keepdims=True), 1e-6)
    masks = soft_masks(size, pad, grid, spread)
    return Patches(templates, masks, size, pad, channels, damp, upright, either_sign)


def responses(patches, images):
    """(m, n_templates x n_masks) float32 in [0, 1]: columns of a template lie together."""
    n, q = len(patches.templates), patches.masks.shape[1]
    images = straighten(images) if patches.upright else images
    out = np.empty((len(images), n, q), np.float32)
    for a in range(0, len(images), BATCH):
        P = patches_of(images[a : a + BATCH], patches.pad, patches.channels, patches.damp)
        R = P.reshape(-1, P.shape[2]) @ patches.templates.T
        if patches.either_sign:
            np.abs(R, out=R)
        strongest(R.reshape(len(P), -1, n), patches.masks, out[a : a + BATCH])
    return out.reshape(len(images), n * q)


@njit(cache=True, nogil=True)
def strongest(R, masks, out):
    m, places, n = R.shape
    q = masks.shape[1]
    best = np.empty((q, n), np.float32)
    for i in range(m):
        best[:] = 0
        for place in range(places):
            for c in range(q):
                mask = masks[place, c]
                if mask > 0:
                    for f in range(n):
                        v = R[i, place, f] * mask
                        if v > best[c, f]:
                            best[c, f] = v
        for f in range(n):
            for c in range(q):
                out[i, f, c] = best[c, f]
