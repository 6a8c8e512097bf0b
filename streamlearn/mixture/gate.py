"""Gates: how much of a row each component is given.

Every gate is (k, p + 1) numbers.  A row of ``linear`` and ``normalised`` holds the slopes u_j and
the offset b_j of logits u_j.x + b_j.  A row of ``rbf`` and ``generative`` holds a centre v_j (its
last number is 0), with logits

    rbf          -tau |x - v_j|^2                                          (Fu 2010, eq. 7)
    generative   log N(x; v_j, I / 2 tau), of the joint density with x      (Xu, Jordan & Hinton)

Fu's weights xi_j p_j, p_j the softmax of the rbf's logits, add up to less than 1 (to 1 / k for
equal xi_j), so each further component costs all rows likelihood: EM ends with few.  Divided by
their sum they are the softmax of log xi_j - tau |x - v_j|^2, that is of the logits u_j.x + b_j with

    normalised   u_j = 2 tau v_j,   b_j = log xi_j - tau |v_j|^2,

where every u_j and b_j has a centre and a mixing coefficient.  So the normalised gate is the linear
one, but begins at the clusters, undamped, and has no penalty.

A tree of two levels (Fu 2010, eq. 22) has a gate row for each of its a branches, then one for each
leaf; the logits of leaves are compared within a branch alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..numeric.checks import check_array, check_integer
from ..numeric.links import share_out

GATES = {
    "generative": "generative",
    "rbf": "normalised",
    "linear": "linear",
    "rbf-unnormalised": "rbf",
}
"""The gates as the parameter `gate` names them, each with its form, which stored models name."""
LINEAR = ("linear", "normalised")
"""Forms whose logits are linear and free."""


class Tree(NamedTuple):
    """The branch of each leaf; leaves are the components."""

    parent: np.ndarray
    """(k,) branch of each leaf, ascending."""
    n_branches: int
    """Number of branches; 0: one level, whose only gate rows are those of the leaves."""

    def check(self) -> None:
        """Raise ValueError unless every leaf has a branch and every branch a leaf."""
        check_integer("n_branches", self.n_branches, 0, 2**20)
        most = max(self.n_branches - 1, 0)
        check_array("parent", self.parent, (None,), "integer", low=0, high=most)
        bare = np.bincount(self.parent, minlength=self.n_branches) == 0
        if not len(self.parent) or bare.any() or (np.diff(self.parent) < 0).any():
            raise ValueError(f"leaves on the branches {self.parent.tolist()} of {self.n_branches}")

    @property
    def n_leaves(self) -> int:
        return len(self.parent)

    @property
    def n_gates(self) -> int:
        return self.n_branches + len(self.parent)

    def without(self, leaf: int) -> tuple[Tree, np.ndarray]:
        """The tree without a leaf and a branch left bare, and which (n_gates,) gate rows stay."""
        keep = np.ones(self.n_gates, bool)
        keep[self.n_branches + leaf] = False
        parent = np.delete(self.parent, leaf)
        if not self.n_branches:
            return Tree(parent, 0), keep
        bare = np.bincount(parent, minlength=self.n_branches) == 0
        keep[: self.n_branches] = ~bare
        return Tree((np.cumsum(~bare) - 1)[parent], int((~bare).sum())), keep

    def sum_leaves(self, q: np.ndarray) -> np.ndarray:
        """(m, a) sums of q (m, k) over the leaves of each branch."""
        return np.add.reduceat(q, self._starts(), axis=1)

    def share_out(self, S: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(m, n_gates) logarithms of the shares among branches and within each, and the shares."""
        logs, shares = np.empty_like(S), np.empty_like(S)
        for part in self.contests():
            total, shares[:, part] = share_out(S[:, part], 1)
            logs[:, part] = S[:, part] - total
        return logs, shares

    def contests(self) -> list[slice]:
        """Runs of gate rows among which a row is shared out."""
        if not self.n_branches:
            return [slice(0, self.n_leaves)]
        cuts = self.n_branches + np.r_[self._starts(), self.n_leaves]
        runs = [slice(int(a), int(b)) for a, b in zip(cuts[:-1], cuts[1:], strict=True)]
        return [slice(0, self.n_branches), *runs]

    def to_leaves(self, per_gate: np.ndarray) -> np.ndarray:
        """(m, k) sums of a leaf's own value and its branch's, from (m, n_gates)."""
        leaves = per_gate[:, self.n_branches :]
        return leaves + per_gate[:, self.parent] if self.n_branches else leaves

    def to_gates(self, q: np.ndarray) -> np.ndarray:
        """(m, n_gates) sums of q (m, k) over each branch, and after them q of the leaves."""
        return np.hstack([self.sum_leaves(q), q]) if self.n_branches else q

    def _starts(self) -> np.ndarray:
        return np.searchsorted(self.parent, np.arange(self.n_branches or 1))


def make_tree(n_components: int | tuple[int, int]) -> Tree:
    """A tree of one level of k components, or of two levels (a, b)."""
    if isinstance(n_components, tuple):
        a, b = n_components
        return Tree(np.repeat(np.arange(a), b), a)
    return Tree(np.zeros(n_components, np.intp), 0)


def logits(
    kind: str, tau: float, gate: np.ndarray, products: np.ndarray, squares: np.ndarray
) -> np.ndarray:
    """(m, n) logits from products x.g (m, n) of the rows with the first p columns of `gate`.

    `squares` (m,) are |x|^2; only the generative gate's density needs them.
    """
    if kind in LINEAR:
        return products + gate[:, -1]
    norms = np.einsum("ij,ij->i", gate, gate)
    S = (2.0 * tau) * products - tau * norms
    if kind == "generative":
        p = gate.shape[1] - 1
        S += (0.5 * p * np.log(tau / np.pi) - tau * squares)[:, None]
    return S


def log_shares(
    kind: str, tree: Tree, log_mix: np.ndarray, S: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(m, n_gates) logarithms of each gate's factor of a row's likelihood, and the softmax.

    The factor is the softmax for linear logits, xi_j times the softmax for rbf, and xi_j times the
    density for generative, which has no softmax; there S takes its place.
    """
    if kind == "generative":
        return S + log_mix, S
    logs, shares = tree.share_out(S)
    return (logs + log_mix if kind == "rbf" else logs), shares
