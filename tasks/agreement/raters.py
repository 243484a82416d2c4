"""Raters of a published run: their counts of ratings, agreement with the others, and severity.

Levels of outputs are settled from the levels by raters and judges, weighted by the errors of each (Dawid and Skene).
"""

import itertools
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gradebook.rubrics.statistics.agreement import Measure, scale_of
from gradebook.rubrics.statistics.arrays import Floats
from gradebook.rubrics.statistics.rater_comparison import RaterComparison, compare_rater
from gradebook.rubrics.statistics.rater_models import AdjustedMean, SeverityFit, settle_labels
from gradebook.rubrics.text.reasons import asdict_in_words, reason_words
from gradebook.tasks.agreement.mart import (
    JUDGE,
    LEAST_OUTPUTS,
    MEMBER,
    MOST_ONE_BY_ONE,
    RATER,
    ScoreMatrix,
    add_decisions_of_run,
    add_ratings_of_run,
    add_statements_of_run,
    read_score_matrices,
)
from gradebook.tasks.agreement.published_run import find_run, refuse_unknown, unrated_note
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect_up_to_date
from gradebook.tasks.lake.rows import Row, read_rows
from gradebook.tasks.lake.sql import query

_OUTPUTS = "select distinct output_id from statements where criterion_id = ? order by output_id"
NO_LEVELS = "the scores are not levels"


@dataclass(frozen=True, slots=True)
class ScorerErrors:
    """Errors of a rater or judge. accuracy: probability of the true level; confusion: rows are true levels."""

    side: str
    who: str
    n: int
    accuracy: float
    confusion: tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True)
class SettledCriterion:
    """Settled levels of a criterion. levels: scores of its levels, 0..1; shares: of outputs at each level.

    labels: output_id, level (its score) and probability of each output. reason: why nothing is settled.
    """

    criterion_id: str
    reason: str | None
    levels: tuple[float, ...] = ()
    shares: tuple[float, ...] = ()
    voices: tuple[ScorerErrors, ...] = ()
    labels: tuple[tuple[str, float, float], ...] = ()

    def as_json(self) -> dict[str, Any]:
        names = ("output_id", "level", "probability")
        return {**asdict(self), "labels": [dict(zip(names, label, strict=True)) for label in self.labels]}


def settle_run(
    connection: duckdb.DuckDBPyConnection, run_id: str, criterion_id: str | None
) -> tuple[SettledCriterion, ...]:
    """Settle each criterion of a published run that has two scorers on two outputs. connection: to the lake."""
    if not add_statements_of_run(connection, run_id):
        return ()
    return tuple(_settled(connection, list(read_score_matrices(connection, criterion_id))))


def _settled(connection: duckdb.DuckDBPyConnection, matrices: list[ScoreMatrix]) -> Iterator[SettledCriterion]:
    for matrix in matrices:
        output_ids = [name for (name,) in connection.execute(_OUTPUTS, [matrix.criterion_id]).fetchall()]
        yield settle_criterion(matrix, output_ids)


def settle_criterion(matrix: ScoreMatrix, output_ids: list[str]) -> SettledCriterion:
    """Settle one criterion by its raters and a panel's judges or the run's judge, without a lead's decisions."""
    positions = [*matrix.rows_of(RATER), *(matrix.rows_of(MEMBER) or matrix.rows_of(JUDGE))]
    levels = matrix.levels[positions]
    scale = scale_of(levels, matrix.scale)
    if scale is None:
        return SettledCriterion(matrix.criterion_id, NO_LEVELS)
    is_rated = np.asarray((~np.isnan(levels)).any(axis=0))
    who_rated, outputs = np.nonzero(~np.isnan(levels[:, is_rated]))
    labels = np.searchsorted(scale, levels[:, is_rated][who_rated, outputs])
    settlement = settle_labels(who_rated, outputs, labels, len(scale))
    if settlement.reason is not None:
        return SettledCriterion(matrix.criterion_id, reason_words(settlement.reason))
    counts = np.bincount(who_rated, minlength=len(positions)).tolist()
    errors = [
        ScorerErrors(*matrix.names[position], n, accuracy, tuple(map(tuple, confusion)))
        for position, n, accuracy, confusion in zip(
            positions, counts, settlement.accuracies.tolist(), settlement.confusions.tolist(), strict=True
        )
    ]
    best = settlement.posteriors.argmax(axis=1)
    rated_ids = [name for name, has_level in zip(output_ids, is_rated.tolist(), strict=True) if has_level]
    settled = zip(rated_ids, scale[best].tolist(), settlement.posteriors.max(axis=1).tolist(), strict=True)
    shares = tuple(settlement.shares.tolist())
    return SettledCriterion(matrix.criterion_id, None, tuple(scale.tolist()), shares, tuple(errors), tuple(settled))


LEAST_SHEET_S = 3.0  # in a shorter time no output can be read
READING_RATE = 100.0  # characters a second: four times as fast as people read


@dataclass(frozen=True, slots=True)
class RaterRow:
    """One rater. beside: comparison with all other raters.

    decisions: share of decided ratings with the level that was decided. gold: share of the ratings of gold outputs with
    the level that was settled. severity: the rater's scores minus those of the average rater on the same outputs, below
    0: stricter; None if the raters share no outputs.
    """

    rater: str
    rating_count: int
    output_count: int
    beside: RaterComparison
    decisions: Measure
    gold: Measure
    severity: float | None = None


@dataclass(frozen=True, slots=True)
class ModelMean:
    """Mean rating of a model, plain and adjusted for the severity of its raters."""

    model: str
    mean: AdjustedMean


@dataclass(frozen=True, slots=True)
class RaterPair:
    """Two raters who rated two outputs or more in common. The difference is the first rater's minus the other's."""

    rater: str
    other: str
    beside: RaterComparison


@dataclass(frozen=True, slots=True)
class RaterPace:
    """Time of a rater on the rating page. fast_sheet_count: sheets submitted faster than the output can be read."""

    rater: str
    sheet_count: int
    minutes: float
    median_sheet_s: float
    fast_sheet_count: int


@dataclass(frozen=True, slots=True)
class RunRaters:
    """Raters of a run by name, and their pairs if requested. note: why there are no raters.

    paces: of the raters whose time is known, on all criteria. settled: levels settled from raters and judges, if
    requested.
    """

    run: Row
    rows: tuple[RaterRow, ...]
    pairs: tuple[RaterPair, ...]
    note: str | None
    paces: tuple[RaterPace, ...] = ()
    models: tuple[ModelMean, ...] = ()
    settled: tuple[SettledCriterion, ...] = ()

    def as_json(self) -> dict[str, Any]:
        raters = [asdict_in_words(row) for row in self.rows]
        pairs, paces = ([asdict_in_words(row) for row in rows] for rows in (self.pairs, self.paces))
        models = [{"model": mean.model} | asdict_in_words(mean.mean) for mean in self.models]
        content = {"run": self.run, "raters": raters, "pairs": pairs, "paces": paces, "models": models}
        return content | {"settled": [criterion.as_json() for criterion in self.settled], "note": self.note}


@dataclass(frozen=True, slots=True)
class _Sheets:
    """Ratings as arrays. scores, decided, gold: (rater, unit), NaN where missing.

    outputs, criteria, cases: (unit,), codes. models: (unit,), names.
    """

    raters: tuple[str, ...]
    scores: Floats
    decided: Floats
    gold: Floats
    outputs: NDArray[np.int64]
    criteria: NDArray[np.int64]
    cases: NDArray[np.int64]
    models: NDArray[np.str_]

    def compare(self, rater: int, others: Floats) -> RaterComparison:
        is_rated = ~np.isnan(self.scores[rater])
        return compare_rater(
            self.scores[rater, is_rated], others[:, is_rated], self.criteria[is_rated], self.cases[is_rated]
        )


def compare_raters(
    lake: Lake,
    run_id: str | None,
    *,
    criterion_id: str | None = None,
    has_pairs: bool = False,
    has_labels: bool = False,
) -> RunRaters:
    """Compare the raters of a published run by all current ratings; by default the latest run.

    has_pairs: also compare each rater with each other one. has_labels: also settle the outputs' levels. Raises
    `InputError` for an unknown run or criterion.
    """
    with connect_up_to_date(lake) as connection:
        run = find_run(connection, lake, run_id, None)
        refuse_unknown(connection, run["run_id"], criterion_id)
        add_ratings_of_run(connection, run["run_id"])
        add_decisions_of_run(connection)
        rated = connection.execute(query("agreement/rated_units"), {"criterion_id": criterion_id}).to_arrow_table()
        paces = read_rows(
            connection, query("agreement/rater_paces"), least_sheet_s=LEAST_SHEET_S, reading_rate=READING_RATE
        )
        settled = settle_run(connection, run["run_id"], criterion_id) if has_labels else ()
    if not rated.num_rows:
        return RunRaters(run, (), (), unrated_note(run["run_id"], lake.words()), settled=settled)
    sheets = _sheets(rated.combine_chunks())
    is_crowded = has_pairs and len(sheets.raters) > MOST_ONE_BY_ONE
    fit = SeverityFit(sheets.scores, sheets.cases)
    severities = [None] * len(sheets.raters) if fit.severities is None else fit.severities.tolist()
    rows = tuple(replace(_row(sheets, index), severity=value) for index, value in enumerate(severities))
    models = tuple(ModelMean(str(name), fit.mean_of(sheets.models == name)) for name in np.unique(sheets.models))
    pairs = _pairs(sheets) if has_pairs and not is_crowded else ()
    note = f"more than {MOST_ONE_BY_ONE} raters: their pairs are left out" if is_crowded else None
    return RunRaters(run, rows, pairs, note, tuple(RaterPace(**row) for row in paces), models, settled)


def _row(sheets: _Sheets, index: int) -> RaterRow:
    is_rated = ~np.isnan(sheets.scores[index])
    others = np.delete(sheets.scores, index, axis=0)
    decisions = _agreement(sheets, index, sheets.decided, "nobody decided on these ratings")
    gold = _agreement(sheets, index, sheets.gold, "no gold output was rated")
    output_count = np.unique(sheets.outputs[is_rated]).size
    comparison = sheets.compare(index, others)
    return RaterRow(sheets.raters[index], int(is_rated.sum()), output_count, comparison, decisions, gold)


def _agreement(sheets: _Sheets, index: int, others: Floats, why_none: str) -> Measure:
    """Agreement of a rater with other scores of the same units."""
    agreement = sheets.compare(index, others[index : index + 1]).agreement
    return agreement if agreement.n else Measure(agreement.statistic, None, None, None, why_none, 0)


def _pairs(sheets: _Sheets) -> tuple[RaterPair, ...]:
    pairs = []
    for first_rater, other in itertools.combinations(range(len(sheets.raters)), 2):
        is_common = ~np.isnan(sheets.scores[first_rater]) & ~np.isnan(sheets.scores[other])
        if np.unique(sheets.outputs[is_common]).size >= LEAST_OUTPUTS:
            comparison = sheets.compare(first_rater, sheets.scores[other : other + 1])
            pairs.append(RaterPair(sheets.raters[first_rater], sheets.raters[other], comparison))
    return tuple(pairs)


def _sheets(rated: pa.Table) -> _Sheets:
    codes = {
        name: rated.column(name).combine_chunks().dictionary_encode()
        for name in ("rater", "output_id", "criterion_id", "shared")
    }
    raters, outputs, criteria, cases = (code.indices.to_numpy().astype(np.int64) for code in codes.values())
    names = codes["rater"].dictionary.to_pylist()
    order = sorted(range(len(names)), key=names.__getitem__)
    rows = np.argsort(order)[raters]
    is_new = np.append(True, (np.diff(outputs) != 0) | (np.diff(criteria) != 0))
    units = np.cumsum(is_new) - 1
    values = [np.full((len(names), int(is_new.sum())), np.nan) for _ in range(3)]
    for array, name in zip(values, ("score", "decided", "gold"), strict=True):
        array[rows, units] = rated.column(name).to_numpy()
    ordered = tuple(names[index] for index in order)
    scores, decided, gold = values
    models = np.array(rated.column("model").to_pylist())[is_new]
    return _Sheets(ordered, scores, decided, gold, outputs[is_new], criteria[is_new], cases[is_new], models)
