"""Linear experts: losses of their decisions, and what these say of the classes.

With two classes an expert has one decision f.  With K > 2 it has K decisions; ``log_loss`` is then
the multinomial -log softmax(f)_y, and the hinges are sums over one class against the rest.  An
expert's P(y|x) is e^-loss (Fu 2010, eq. 10), which is a probability for ``log_loss`` alone.
"""

from __future__ import annotations

import numpy as np

from ..numeric.links import log_sum, share_out

LOSSES = ("squared_hinge", "hinge", "log_loss")


def n_outputs(n_classes: int) -> int:
    """Number of decisions of one expert."""
    return 1 if n_classes == 2 else n_classes


def losses(loss: str, F: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Loss (m, k) and slope dloss/df (m, k, O) of decisions F (m, k, O) for codes y (m,)."""
    if loss == "log_loss" and F.shape[2] > 1:
        return multinomial(F, y)
    sign = signs(F.shape[2], y)[:, None, :]
    value, slope = margin_loss(loss, sign * F)
    slope *= sign
    return value.sum(axis=2), slope


def signs(n_outputs: int, y: np.ndarray) -> np.ndarray:
    """(m, O) +1 or -1: the side of each decision on which a row belongs."""
    if n_outputs == 1:
        return (2.0 * y - 1.0)[:, None]
    return np.where(y[:, None] == np.arange(n_outputs), 1.0, -1.0)


def margin_loss(loss: str, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Loss and slope at margins z of any shape."""
    if loss == "log_loss":
        near, far = _sigmoid(np.abs(z))
        return np.maximum(-z, 0.0) - np.log(near), -np.where(z >= 0, far, near)
    short = np.maximum(0.0, 1.0 - z)
    if loss == "hinge":
        return short, np.where(short > 0, -1.0, 0.0)
    return short * short, -2.0 * short


def _sigmoid(size: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """1 / (1 + e^-size) and 1 / (1 + e^size), by one exponential, for sizes of at least 0."""
    e = np.exp(-size)
    near = 1.0 / (1.0 + e)
    return near, e * near


def multinomial(F: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """-log softmax(F)_y and its slope."""
    total, slope = share_out(F, 2)
    rows = np.arange(len(y))
    code = y.astype(np.intp)
    value = total[:, :, 0] - F[rows, :, code]
    slope[rows, :, code] -= 1.0
    return value, slope


def curvature(loss: str, F: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(m, k, O) second derivative of the loss by each decision alone; 1 on a hinge's slope."""
    if loss == "log_loss":
        if F.shape[2] == 1:
            near, far = _sigmoid(np.abs(F))
            return near * far
        p = share_out(F, 2)[1]
        return p * (1.0 - p)
    short = signs(F.shape[2], y)[:, None, :] * F < 1.0
    return np.where(short, 2.0 if loss == "squared_hinge" else 1.0, 0.0)


def class_losses(loss: str, F: np.ndarray) -> np.ndarray:
    """(m, k, K) loss of each class as the answer, for decisions F (m, k, O)."""
    n = F.shape[2]
    if n > 1 and loss == "log_loss":
        return log_sum(F, 2) - F
    up, down = margin_loss(loss, F)[0], margin_loss(loss, -F)[0]
    if n == 1:
        return np.concatenate([down, up], axis=2)
    return down.sum(axis=2, keepdims=True) + up - down


def likelihoods(loss: str, F: np.ndarray) -> np.ndarray:
    """(K, m, k) values e^-loss of `class_losses`, with the classes first."""
    if loss != "log_loss":
        return np.moveaxis(np.exp(-class_losses(loss, F)), 2, 0)
    if F.shape[2] > 1:
        return np.moveaxis(share_out(F, 2)[1], 2, 0)
    f = F[:, :, 0]
    near, far = _sigmoid(np.abs(f))
    return np.stack([np.where(f < 0, near, far), np.where(f < 0, far, near)])
