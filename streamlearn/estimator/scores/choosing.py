"""Estimators that choose parameters by cross-validation, for families whose fits are their own.

A fit on the rows outside a split may give the models of many candidates: those that differ in the
parameters of a path (columns selected, learners, strengths of a penalty) come from one fit, and all
models of a split are scored in one more read.  Then the best is fitted to all rows.

The splits go in lockstep (`engine.together`): what they all read of the table they read at once, as
many at a time as the plan has room for.  Each fit learns from the rows of its split alone, and a
checkpoint keeps all it has read: one that goes on without the others finds the same bits.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils._param_validation import Interval, validate_parameter_constraints

from ...data.dataset import Dataset
from ...data.source import Source
from ...engine.checkpoint import several
from ...engine.plan import Needs, Term
from ...engine.scratch.materialise import materialised
from ...engine.together.costs import needs_together
from ...engine.together.lockstep import Lockstep
from ...errors import CheckpointError, MemoryBudgetError
from ...numeric.checks import check_integer
from ...numeric.sequences import number_of
from ...passes.summary.reading import facts_nbytes, most_state_bytes, state_nbytes
from ...passes.summary.summary import Summary
from ...solvers.split_errors import JUDGES, TRAINS, Split
from ...solvers.splits import split_shares
from .. import fitting
from ..base import StreamEstimator
from ..callbacks import Tasks, with_callbacks
from ..planning import plan
from ..row_size import decision_bytes
from ..rows.inputs import open_training
from ..rows.spread import TARGET_SAID
from ..rows.streams import WithoutStream
from ..rows.weights import SAID
from .cross_validate import scores_of_split, without_split
from .metrics import check_gain, find_metric
from .paths import Candidate
from .results import Results, best_index, cv_results
from .scoring import scored_bytes

Member = Any
"""An estimator that does not choose."""

_KEPT = ("scores", "n_passes")
"""Names of what a checkpoint keeps of the reads that score the models of a split."""


class ChoosesBySplits(WithoutStream, StreamEstimator):
    """A mixin before an estimator whose parameters in `_choices` may hold several values."""

    cv: int
    scoring: str | None
    one_standard_error: bool
    random_state: int
    _plain: ClassVar[Member]
    """The estimator that fits one candidate."""
    _choices: ClassVar[Mapping[str, str]]
    """Parameter of several values -> the parameter of `_plain`; the simplest models come first."""
    _in_one_fit: ClassVar[tuple[str, ...]] = ()
    """Parameters of `_plain` of whose values one fit gives all models, if not bit for bit."""
    _same_in_one_fit: ClassVar[Mapping[str, float]] = {}  # a fit that has chosen has one model
    _keeps_default: ClassVar[bool] = False
    """Whether `_plain`'s default is left only for what is better beyond the noise of the splits."""
    _choosing_constraints: ClassVar[dict[str, list[object]]] = {
        "cv": [Interval(Integral, 2, None, closed="left")],
        "scoring": [str, None],
        "one_standard_error": ["boolean"],
    }
    _no_stream = (
        "all candidates are compared on the same rows, which are read several times; choose with "
        "fit, then go on with the estimator that does not choose"
    )

    # The candidates.

    def _tried(self, name: str) -> list[object]:
        """The values to try of one parameter.

        A list or array holds several; a tuple does so too where it is not itself a value.
        """
        given = getattr(self, name)  # a parameter by its name, as a grid names it
        several = isinstance(given, list | np.ndarray) or (
            isinstance(given, tuple) and not self._takes_tuples(name)
        )
        values = np.asarray(given).tolist() if isinstance(given, np.ndarray) else given
        found = list(values) if several else [given]
        if not found:
            raise ValueError(f"{name} is empty; give at least one value to try")
        allowed = self._plain._parameter_constraints.get(self._choices[name], ())
        single = {name: [one for one in allowed if one != "array-like"]}
        for value in found:
            validate_parameter_constraints(single, {name: value}, caller_name=type(self).__name__)
            if isinstance(value, Integral):
                number_of(name, value, "numbers that a float can hold")
        return found

    def _takes_tuples(self, name: str) -> bool:
        return tuple in self._plain._parameter_constraints.get(self._choices[name], ())

    def _candidates(self) -> list[Candidate]:
        """All combinations, in the order in which they are written."""
        own = [self._tried(name) for name in self._choices]
        names = list(self._choices.values())
        return [dict(zip(names, values, strict=True)) for values in product(*own)]

    def _default_of(self, candidates: Sequence[Candidate]) -> int | None:
        """The number of the candidate that has the default values of `_plain`, if there is one."""
        values = self._plain().get_params(deep=False)
        default = {name: values[name] for name in self._choices.values()}
        return next((k for k, one in enumerate(candidates) if one == default), None)

    def _member(self, parameters: Candidate) -> Member:
        """The estimator that does not choose, with these parameters."""
        names = self._plain().get_params(deep=False)
        chosen = set(self._choices.values())
        shared = {
            name: value
            for name, value in self.get_params(deep=False).items()
            if name in names and name not in chosen
        }
        member = self._plain(**{**shared, **parameters})
        found = ("classes_", "n_features_in_", "feature_names_in_", "encoding_")
        fitting.share_fitted(self, member, found)
        return member

    def _together(self) -> list[list[int]]:
        """Numbers of candidates whose models one fit gives, for each fit."""
        groups: dict[str, list[int]] = {}
        for k, candidate in enumerate(self._candidates()):
            apart = {name: v for name, v in candidate.items() if name not in self._in_one_fit}
            groups.setdefault(repr(apart), []).append(k)
        return list(groups.values())

    def _fit_without(self, parameters: Candidate, train: Dataset, checkpoint: str | None) -> Member:
        """One fit of a split."""
        return self._member(parameters).fit(train, checkpoint=checkpoint)

    def _scoring(self) -> str:
        if self.scoring is not None:
            return self.scoring
        return "neg_log_loss" if is_classifier(self) else "neg_mean_squared_error"

    def _validate_params(self) -> None:
        super()._validate_params()
        for candidate in self._candidates():
            member = self._member(candidate)
            member._validate_params()
            check_gain(member, self._scoring())

    # What it costs.

    def _largest(self) -> Member:
        """The member whose fits are the largest."""
        groups = self._together()
        candidates = self._candidates()
        return self._member(self._joint([candidates[k] for k in groups[-1]]))

    def _n_fits(self, dataset: Source) -> tuple[int, int]:
        n_groups = len(self._together())
        return n_groups + 1, self.cv * n_groups + 1

    def _needs(self, dataset: Source, summary: Summary | None = None) -> list[Needs]:
        """The phases of the fits, of several splits at a time, and their scoring reads."""
        candidates, groups = self._candidates(), self._together()
        alike: dict[tuple[Needs, ...], int] = {}
        for group in groups:
            member = self._member(self._joint([candidates[k] for k in group]))
            phases = tuple(member._needs(dataset, summary))
            alike[phases] = alike.get(phases, 0) + 1
        found: list[Needs] = []
        for k, (phases, n_groups) in enumerate(alike.items()):
            for need in phases:
                low, high = need.passes
                name = need.name if len(alike) == 1 else f"{need.name}-{k + 1}"
                # the last fit, to all rows, is of any of them
                passes = (low * n_groups, high * (self.cv * n_groups + 1))
                found.append(replace(need, name=name, passes=passes))
        metric = find_metric(self._scoring())
        each = metric.state_bytes(len(getattr(self, "classes_", (0, 0))))
        # decisions, and what a family takes to make them
        of_row = 3 * decision_bytes(self) + scored_bytes(self, [metric])
        n = len(candidates)
        scores = (1, self.cv * len(groups))  # one for all models of the same features
        scoring = Needs("score", each * n, of_row, passes=scores)
        moments_only = self._moments_only()
        limit = most_state_bytes(dataset, moments_only)
        of_summary = state_nbytes(dataset, limit, moments_only)
        facts = facts_nbytes(dataset, moments_only)
        return needs_together([*found, scoring], dataset, self.cv, of_summary, facts)

    def _check_budget(self, rows: Dataset) -> None:
        """Refuse, before any fit is done, a budget that one to all rows would not have."""
        candidates, refused = self._candidates(), list[MemoryBudgetError]()
        for group in self._together():
            try:
                plan(self._member(self._joint([candidates[k] for k in group])), rows)
            except MemoryBudgetError as error:
                refused.append(error)
        if refused:
            raise max(refused, key=lambda error: error.enough or 0)

    def _sample_rows(self, dataset: Source) -> int:
        rows: int = self._largest()._sample_rows(dataset)
        return rows

    # Fitting.

    @with_callbacks
    def fit(
        self,
        X: object,
        y: object = None,
        sample_weight: object = None,
        *,
        validation: object = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Score every candidate on every split, then fit the best to all rows.

        Scores weigh the held-out rows as they are; `class_weight` weighs in the fits alone, and
        "balanced" goes by the rows of each fit.

        Parameters
        ----------
        X : array-like, frame, sparse matrix, dask collection, path or Dataset
            Anything `open_dataset` takes.
        y : array-like of shape (n,) or str
            Targets, or the name of the column that holds them; not with a Dataset that has one.
        sample_weight : array-like of shape (n,) or str
            Finite weights >= 0, or the name of their column; 0 means the row is absent, k means k
            copies of it.
        validation : None
            Refused: candidates are judged on the splits.
        checkpoint : path
            Folder or URL where progress is kept: of one fit where all candidates share their reads,
            else of each fit in a folder of its own.  Run the same line again after a kill, and it
            goes on.

        Returns
        -------
        self
        """
        if validation is not None:
            raise ValueError(
                f"{type(self).__name__} judges on its splits; leave validation out, or fit the "
                f"chosen parameters with {self._plain.__name__}"
            )
        self._validate_params()
        opened = open_training(self, X, y, sample_weight)
        if self._shares_reads(opened):
            fitting.fit(self, opened, None, None, validation=None, checkpoint=checkpoint)
        else:
            self._fit_by_splits(opened, checkpoint)
        return self

    def _shares_reads(self, dataset: Source) -> bool:
        """Whether `_fit` chooses, in reads that all fits share."""
        return False

    def _fit_by_splits(self, opened: Dataset, checkpoint: str | os.PathLike[str] | None) -> None:
        """Choose by fits of their own, whose splits share reads, then fit the best to all rows."""
        tasks = Tasks(self)
        candidates, groups = self._candidates(), self._together()
        place = None if checkpoint is None else os.fspath(checkpoint)
        edges, seed = split_shares(self.cv, self.random_state)
        with materialised(opened) as rows:
            self._check_budget(rows)
            splits = [without_split(rows, edges, split, seed) for split in range(self.cv)]
            joints = [self._joint([candidates[k] for k in group]) for group in groups]

            def fit_without(split: int) -> list[Member]:
                """The fits of a split, in the order of `groups`."""
                train, _ = splits[split]
                with Split(split, self.cv).named(TRAINS):
                    return [
                        self._fit_without(joint, train, several.of_split(place, split, n))
                        for n, joint in enumerate(joints)
                    ]

            def score(split: int, own_fits: Sequence[Member]) -> tuple[np.ndarray, int]:
                models: dict[int, Member] = {}
                for group, fit in zip(groups, own_fits, strict=True):
                    models |= zip(
                        group, fit._models_of([candidates[k] for k in group]), strict=True
                    )
                ordered = [models[k] for k in range(len(candidates))]
                own = None if place is None else several.scores_of_split(place, split)
                with Split(split, self.cv).named(JUDGES):
                    return self._scores_of_split(ordered, rows, splits[split][1], own)

            lockstep = Lockstep(plan(self, rows).peak_bytes)
            each = [partial(fit_without, k) for k in range(self.cv)]
            fitted = lockstep.run(each, unsaid=(SAID, TARGET_SAID))  # the last fit says it, once
            scored = lockstep.run([partial(score, k, own) for k, own in enumerate(fitted)])
            fits = [fit for own in fitted for fit in own]
            scores = np.column_stack([of_split for of_split, _ in scored])
            n_scored = sum(n_reads for _, n_reads in scored)
            self.cv_results_ = self._results_of(candidates, scores, fits)
            self._set_choice(
                best_index(
                    self.cv_results_,
                    one_standard_error=self.one_standard_error,
                    default=self._default_of(candidates) if self._keeps_default else None,
                )
            )
            last = several.of_all_rows(place)
            final = self._member(candidates[self.best_index_]).fit(rows, checkpoint=last)
            # what was read before all fits each of them counts
            n_scored -= len(fits) * rows.passes_before
        self._adopt(final, fits, n_scored, lockstep.peak_bytes)
        for k, candidate in enumerate(candidates):
            mean = float(self.cv_results_["mean_test_score"][k])
            record = {**candidate, "mean_test_score": mean}
            self.history_.append(record)
            tasks.record(record)
        tasks.end()

    def _results_of(
        self, tried: Sequence[Candidate], scores: np.ndarray, fits: Sequence[Member]
    ) -> Results:
        """Table of the candidates tried; `fits` of a split come in the order of `_together`."""
        return cv_results(tried, scores)

    def _scores_of_split(
        self,
        models: Sequence[Member],
        rows: Dataset,
        apart: Dataset,
        place: str | None,
    ) -> tuple[np.ndarray, int]:
        """Scores of one split's models, and the number of reads; from a checkpoint if there.

        Rows of a class that no other split has are left out: to all candidates it is unknown.
        """
        scoring = self._scoring()
        if place is None:
            return scores_of_split(models, apart, scoring, known_only=True)
        kept = several.once(
            place,
            fitting.identity(self, rows, None),
            lambda: dict(
                zip(_KEPT, scores_of_split(models, apart, scoring, known_only=True), strict=True)
            ),
        )
        try:
            scores, n_reads = (np.asarray(kept[name]) for name in _KEPT)
            return np.broadcast_to(scores, len(models)).astype(float), int(n_reads)
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"{place} holds other things than the scores of a split; remove it, and its rows "
                "are scored again"
            ) from error

    def _adopt(self, final: Member, fits: Sequence[Member], n_scored: int, peak_bytes: int) -> None:
        """Take over what the fit to all rows has found, and count what all fits read.

        `peak_bytes`: what the plans of fits at a time allowed together.
        """
        parameters = final.get_params(deep=False)
        for name, value in vars(final).items():
            if name not in parameters and not name.startswith("_callbacks"):
                setattr(self, name, value)
        every = [fitted.certificate_ for fitted in (*fits, final)]
        served = sum(fitted._n_served for fitted in fits)
        self.n_passes_ = sum(c.n_passes for c in every) - served + n_scored
        if peak_bytes > final.plan_.peak_bytes:
            together = "splits", (Term("splits in turns", 1, peak_bytes),)
            terms = (*final.plan_.terms, together)
            self.plan_ = replace(final.plan_, peak_bytes=peak_bytes, terms=terms)
        self.certificate_ = replace(
            final.certificate_,
            n_passes=self.n_passes_,
            rows_read=sum(c.rows_read for c in every),
            bytes_read=sum(c.bytes_read for c in every),
            seconds=sum(c.seconds for c in every),
            peak_memory_bytes=max(c.peak_memory_bytes for c in every),
        )

    def _set_choice(self, best: int) -> None:
        self.best_index_ = best
        self.best_score_ = float(self.cv_results_["mean_test_score"][best])
        self.best_params_ = dict(self.cv_results_["params"][best])

    # Keeping it.

    def _state(self) -> Any:
        own = {"cv_results": self.cv_results_, "best_index": self.best_index_}
        return {**super()._state(), **own}

    def _restore(self, tree: Any) -> None:
        super()._restore(tree)
        results = tree["cv_results"]
        n = len(results["params"])
        if any(len(values) != n for values in results.values()):
            raise ValueError("cv_results has columns of several lengths")
        check_integer("best_index", int(tree["best_index"]), 0, n - 1)
        self.cv_results_ = results
        self._set_choice(int(tree["best_index"]))
