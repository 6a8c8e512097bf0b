"""The precision of a fitted additive model: its smoothness, standard errors and tests."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from ...data.source import Chunk
from ...numeric.bases.bsplines import Bases, evaluate
from ...numeric.losses import Loss
from ..smooth.posterior import Posterior, curve_deviations, row_deviations
from .summary_table import SummaryTable, make_table


class Uncertainty:
    """A mixin: attributes of a model fitted with `smoothness` or `covariance=True`.

    Those of p terms are of the columns and, after them, of the pairs of `interactions`.
    """

    _posterior: Posterior
    bases_: Bases
    n_features_in_: int
    C: float | None
    _criterion: str | None = None
    """The criterion that chose the smoothness in the last fit."""

    @property
    def _weight(self) -> float:
        """C where one number weighs all terms."""
        return 1.0 if self.C is None else float(self.C)

    @property
    @abstractmethod
    def _loss(self) -> Loss:
        """The loss whose sum is minimised."""

    @property
    @abstractmethod
    def term_names_(self) -> list[str]:
        """Names of the terms: those of the columns, then ``a & b`` of each pair."""

    @property
    @abstractmethod
    def term_importances_(self) -> np.ndarray:
        """(p,) mean distance of each term from 0 over the training rows."""

    @property
    @abstractmethod
    def term_importance_errors_(self) -> np.ndarray:
        """(p,) standard errors of `term_importances_`."""

    def _known(self, what: str) -> Posterior:
        """The posterior; an AttributeError, as `hasattr` understands, if there is none."""
        posterior = vars(self).get("_posterior")
        if posterior is None:
            raise AttributeError(
                f"{what} needs the covariance of the coefficients, which this "
                f"{type(self).__name__} has not: fit it with smoothness='reml' or 'gcv', or with "
                "covariance=True"
            )
        found: Posterior = posterior
        return found

    @property
    def _edited_terms(self) -> list[str]:
        """Names of the terms that were edited after the fit, each once.

        What an edit of a pair adds to the curves of its columns changes these.
        """
        names, p = self.term_names_, self.bases_.n_columns
        edited = dict.fromkeys(edit["term"] for edit in vars(self).get("edits_", ()))
        for name, pair in zip(names[p:], self.bases_.pair_columns, strict=True):
            if name in edited:
                edited |= dict.fromkeys(names[d] for d in pair)
        return list(edited)

    @property
    def smoothing_(self) -> np.ndarray:
        """(p,) or (p, K) weight of each term's penalty beside the sum of the losses.

        Infinite of a column without a curve.
        """
        return _by_term(self._known("smoothing_").weights)

    @property
    def line_smoothing_(self) -> np.ndarray:
        """(p,) or (p, K) weight of the penalty of each term's straight line; 0: it has none.

        With ``penalty_order=2`` only: the penalty of lower orders takes the line in.
        """
        return _by_term(self._known("line_smoothing_").line_weights)

    @property
    def effective_dof_(self) -> np.ndarray:
        """(p,) or (p, K) effective degrees of freedom of each term, the trace of V H."""
        return _by_term(self._known("effective_dof_").freedom)

    @property
    def scale_(self) -> float | np.ndarray:
        """Dispersion, a number or (K,): 1 for classes and counts.

        Of the squared error the variance of the residuals, of other losses Pearson's statistic over
        the rows less the degrees of freedom.
        """
        scale = self._known("scale_").scale
        return float(scale[0]) if len(scale) == 1 else scale.copy()

    def summary_table(self) -> SummaryTable:
        """The terms with their importances, degrees of freedom and tests.

        The facts of all are above them, the deviance explained among these.  Up to two classes a
        term has its importance, the mean distance from 0 over the training rows, and the standard
        error of that (`term_importance_errors_`).  A term's p-value is of the hypothesis that it
        has no effect (`smooth.significance`); it takes the smoothness as known, so it is
        approximate.  Nothing but the importance is known of terms that were edited: NaN.  No read.

        Returns
        -------
        SummaryTable
            ``print`` it; its ``columns`` and ``facts`` are dicts.
        """
        posterior = self._known("summary_table")
        loss = self._loss
        facts: dict[str, str | float] = {
            "model": type(self).__name__,
            "loss": loss.name,
            "smoothness": self._criterion or self._smoothness_of_one_c,
        }
        classes = getattr(self, "classes_", [])
        several = [str(label) for label in classes] if len(classes) > 2 else []
        # with several classes a line is of one of them, an importance of all
        sizes = () if several else (self.term_importances_, self.term_importance_errors_)
        table = make_table(posterior, self.term_names_, several, facts, loss.scale_known, sizes)
        return table.after_edits(edited) if (edited := self._edited_terms) else table

    @property
    def _smoothness_of_one_c(self) -> str:
        """The smoothness, in words, where no criterion chose it on all rows."""
        weights = self._known("smoothing_").weights
        if self.C is None and (weights[np.isfinite(weights)] != 1.0).any():
            return "reml on a sample"
        return f"C={self._weight:g}"

    def _deviation_chunk(self, chunk: Chunk) -> np.ndarray:
        """(m,) or (m, K) standard deviations of the decisions."""
        found = row_deviations(self._known("the standard deviation"), self.bases_, chunk.X)
        return found[:, 0] if found.shape[1] == 1 else found

    def _check_deviation(self) -> None:
        self._known("the standard deviation")
        if edited := self._edited_terms:
            raise AttributeError(
                f"the standard deviation of a decision is not known of this "
                f"{type(self).__name__}, as {', '.join(edited[:5])} was edited after the fit; ask "
                "the model before its edits"
            )

    def _curve_deviation(self, d: int, grid: object) -> np.ndarray:
        """(m,) or (m, K) standard deviations of the curve of column d; NaN if it was edited."""
        return self._term_deviation(d, evaluate(self.bases_, d, np.asarray(grid)))

    def _term_deviation(self, term: int, phi: np.ndarray) -> np.ndarray:
        """(m,) or (m, K) standard deviations where a term's functions are `phi` (m, n)."""
        own = slice(*self.bases_.first[term : term + 2])
        found = curve_deviations(self._known("the standard deviation"), own, phi)
        if self.term_names_[term] in self._edited_terms:
            found = np.full_like(found, np.nan)
        return found[:, 0] if found.shape[1] == 1 else found

    def _pair_deviation(self, i: int) -> np.ndarray:
        """(k l, K) standard deviations of the table of pair i at its nodes, row after row."""
        term = self.bases_.n_columns + i
        n = int(np.diff(self.bases_.first[term : term + 2])[0])
        return self._term_deviation(term, np.eye(n)).reshape(n, -1)


def _by_term(values: np.ndarray) -> np.ndarray:
    """(p,) of one output, (p, K) of several."""
    return values[0].copy() if len(values) == 1 else values.T.copy()
