"""The multiclass logistic loss with a margin, and the penalties added to it.

    L(W, b) = sum_i share_i log sum_c exp(1[c != y_i] + z_ic - z_iy),     z_i = b + W x_i

(Shalev-Shwartz 2011, eq. 3), shares adding up to 1.  The intercept b is always in, free of penalty.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from ..numeric.links import softmax_probabilities, to_softmax
from ..solvers.damped_newton import damped_newton


def margin_softmax(Z: np.ndarray, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(m,) losses and (m, K) rho of eq. 6 for float64 scores Z, which are overwritten by rho."""
    rows = np.arange(len(Z))
    own = Z[rows, codes]
    Z += 1.0
    Z[rows, codes] = own
    return to_softmax(Z)[:, 0] - own, Z


def residual(Z: np.ndarray, codes: np.ndarray, share: np.ndarray) -> np.ndarray:
    """(m, K) derivative of L by the scores, share_i (rho_i - e_yi); Z is overwritten."""
    _, rho = margin_softmax(Z, codes)
    rho[np.arange(len(rho)), codes] -= 1.0
    rho *= share[:, None]
    return rho


def probabilities(decision: np.ndarray) -> np.ndarray:
    """(m, K) probabilities of the classes, from scores (m, K) or (m,) differences of two.

    Scores z minimise the expected loss of a row whose classes have the probabilities

        p_c proportional to q_c (e - (e - 1) q_c),     q = softmax(z),

    where its derivative, sum_y p_y rho_yc - p_c, is 0.  Because of the margin, q is surer than p:
    of two classes its odds are up to e times too long.
    """
    q = softmax_probabilities(decision)
    p: np.ndarray = q * (np.e - (np.e - 1.0) * q)
    return p / p.sum(axis=1, keepdims=True)


class Penalty(NamedTuple):
    """ridge |W|^2 + relative sum_r var(x_r) |w_r|^2 + mixed |W|_{inf,1}, w_r a column of W.

    The last is smoothed as in section 2.1 of the paper.  `of` makes the second a part of the first.

    The loss is blind to what all classes have in common, so W adds up to 0 over them, and of a
    column w the smooth norm is the least that a common shift makes it, which is

        (1/2s) (log sum_c exp(s w_c) + log sum_c exp(-s w_c)) - log(K)/s       s = sharpness

    near (max w - min w) / 2, and 0 at 0.
    """

    ridge: float | np.ndarray
    """Weight of |W|^2, or (width,) weights of its columns."""
    mixed: float
    sharpness: float
    relative: float = 0.0

    def of(self, variance: np.ndarray) -> Penalty:
        """The penalty of features with these (width,) variances, with a ridge for each."""
        if not self.relative:
            return self
        return self._replace(ridge=self.ridge + self.relative * variance, relative=0.0)

    def curvature(self, n_classes: int, variance: np.ndarray) -> np.ndarray:
        """Bounds c: a step u from 0 in one feature costs at most c |u|_inf^2 / 2 above its slope.

        The loss gives the feature's variance, the ridge 2K ridge, since |u|_2^2 <= K |u|_inf^2, the
        mixed norm mixed * sharpness, by the variance of a log-sum-exp.
        """
        ridge = self.ridge + self.relative * variance
        return variance + 2.0 * n_classes * ridge + self.mixed * self.sharpness

    def value(self, W: np.ndarray) -> float:
        value = float((self.ridge * W**2).sum())
        if self.mixed:
            s = self.sharpness
            soft = (logsumexp(s * W, axis=0) + logsumexp(-s * W, axis=0)) / 2 - np.log(len(W))
            value += self.mixed / s * float(soft.sum())
        return value

    def gradient(self, W: np.ndarray) -> np.ndarray:
        gradient = 2.0 * self.ridge * W
        if self.mixed:
            high, low = self._weights(W)
            gradient = gradient + self.mixed / 2 * (high - low)
        return gradient

    def hessian(self, W: np.ndarray) -> np.ndarray:
        """(width, K, K) Hessian of each column alone, as columns do not interact."""
        ridge = np.full(W.shape[1], self.ridge)
        H = 2.0 * ridge[:, None, None] * np.eye(len(W))
        for p in self._weights(W) if self.mixed else ():
            p = p.T
            spread = p[:, :, None] * np.eye(len(W)) - p[:, :, None] * p[:, None, :]
            H += self.mixed * self.sharpness / 2 * spread
        return H

    def diagonal(self, W: np.ndarray) -> np.ndarray:
        """The diagonal of a matrix that is not below the Hessian."""
        diagonal = np.full(W.shape, 2.0 * np.asarray(self.ridge))
        if self.mixed:
            diagonal += self.mixed * self.sharpness / 2 * sum(self._weights(W))
        return diagonal

    def _weights(self, W: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The softmax of s w and of -s w, for each column w."""
        scaled = self.sharpness * W
        high = np.exp(scaled - logsumexp(scaled, axis=0))
        return high, np.exp(-scaled - logsumexp(-scaled, axis=0))


def best_intercept(shares: np.ndarray) -> tuple[np.ndarray, float]:
    """(K,) intercept of least loss without any column, adding up to 0, and that loss.

    All rows of a class are alike here, so K rows weighted by the classes' shares stand for all.
    """
    K = len(shares)
    codes = np.arange(K)
    b = np.log(shares) - np.log(shares).mean()

    def evaluate(b: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        loss, rho = margin_softmax(np.tile(b, (K, 1)), codes)
        H = np.diag(shares @ rho) - (rho * shares[:, None]).T @ rho
        # the loss does not change along (1, ..., 1), where the gradient is 0: any curvature will do
        return float(shares @ loss), shares @ rho - shares, H + 1.0 / K

    b, value = damped_newton(evaluate, b)
    return b - b.mean(), value
