"""Dual coordinate descent of weighted hinge experts, one visit of some rows."""

from __future__ import annotations

import numpy as np

from ...numeric.jit import kernel


@kernel
def hinge_rows(B, visits, bounds, signs, alpha, W):
    """Take one step for each of the rows `visits` and each expert, in place in `alpha` and `W`.

    minimise  1/2 |W_r|^2 - sum_i alpha_ir  over  0 <= alpha_ir <= bounds_ir,
    W_r = sum_i alpha_ir signs_ir (B_i, 1)          (Hsieh et al. 2008, algorithm 1)

    A variable above its bound, which the last E-step lowered, is first lowered to it.
    B (m, p) float64, bounds, signs (m, n) float64, alpha (m, n) float32, W (n, p + 1) float64.
    """
    p = B.shape[1]
    for i in visits:
        norm = 1.0
        for d in range(p):
            norm += B[i, d] * B[i, d]
        for r in range(W.shape[0]):
            old = np.float64(alpha[i, r])
            bound = bounds[i, r]
            if bound <= 0.0 and old == 0.0:
                continue
            f = W[r, p]
            for d in range(p):
                f += W[r, d] * B[i, d]
            start = min(old, bound)
            z = signs[i, r] * f - (old - start) * norm
            new = np.float32(min(max(start + (1.0 - z) / norm, 0.0), bound))
            alpha[i, r] = new
            step = (np.float64(new) - old) * signs[i, r]
            if step != 0.0:
                for d in range(p):
                    W[r, d] += step * B[i, d]
                W[r, p] += step
