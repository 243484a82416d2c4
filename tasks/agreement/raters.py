"""Raters of a published run: how much each rated, how far each agrees with the others, and who is stricter."""

import itertools
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gradebook.rubrics.model.arrays import Floats
from gradebook.rubrics.statistics.agreement import Measure
from gradebook.rubrics.statistics.rater_comparison import RaterComparison, compare_rater
from gradebook.rubrics.statistics.rater_severity import AdjustedMean, SeverityFit
from gradebook.tasks.agreement.mart import LEAST_OUTPUTS, MOST_ONE_BY_ONE
from gradebook.tasks.agreement.published_run import find_run, refuse_unknown, unrated_words
from gradebook.tasks.agreement.settled_labels import SettledCriterion, settle_run
from gradebook.tasks.agreement.statements import add_decisions_of_run, add_ratings_of_run
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect_up_to_date
from gradebook.tasks.lake.rows import Row, read_rows
from gradebook.tasks.lake.sql import query

LEAST_SHEET_S = 3.0  # less was not read
READING_RATE = 100.0  # characters a second: four times as fast as people read


@dataclass(frozen=True, slots=True)
class RaterRow:
    """One rater. beside: all other raters. decisions: share of decided ratings with the level that was decided.

    gold: share of the ratings of gold outputs with the level that was settled. severity: the rater's scores minus those
    of the average rater on the same outputs, below 0: stricter; None if the raters share no outputs.
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
    """Mean rating of a model, plain and adjusted for the severity of those who rated it."""

    model: str
    mean: AdjustedMean


@dataclass(frozen=True, slots=True)
class RaterPair:
    """Two raters who rated two outputs or more in common; the difference is the first one's."""

    rater: str
    other: str
    beside: RaterComparison


@dataclass(frozen=True, slots=True)
class RaterPace:
    """Time that a rater spent on the rating page. fast_sheet_count: sheets submitted before the output can be read."""

    rater: str
    sheet_count: int
    minutes: float
    median_sheet_s: float
    fast_sheet_count: int


@dataclass(frozen=True, slots=True)
class RunRaters:
    """Raters of a run by name, and their pairs if requested. note: why there are none.

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
        raters = [asdict(row) for row in self.rows]
        pairs, paces = ([asdict(each) for each in listed] for listed in (self.pairs, self.paces))
        models = [{"model": each.model} | asdict(each.mean) for each in self.models]
        found = {"run": self.run, "raters": raters, "pairs": pairs, "paces": paces, "models": models}
        return found | {"settled": [each.as_json() for each in self.settled], "note": self.note}


@dataclass(frozen=True, slots=True)
class _Sheets:
    """scores, decided, gold: (rater, unit), NaN where missing. outputs, criteria, cases: (unit,), numbers of each.

    models: (unit,), names.
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
        chosen = ~np.isnan(self.scores[rater])
        return compare_rater(self.scores[rater, chosen], others[:, chosen], self.criteria[chosen], self.cases[chosen])


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
        timed = read_rows(
            connection, query("agreement/rater_paces"), least_sheet_s=LEAST_SHEET_S, reading_rate=READING_RATE
        )
        settled = settle_run(connection, run["run_id"], criterion_id) if has_labels else ()
    if not rated.num_rows:
        return RunRaters(run, (), (), unrated_words(run["run_id"], lake.words()), settled=settled)
    sheets = _sheets(rated.combine_chunks())
    is_crowded = has_pairs and len(sheets.raters) > MOST_ONE_BY_ONE
    fit = SeverityFit(sheets.scores, sheets.cases)
    severities = [None] * len(sheets.raters) if fit.severities is None else fit.severities.tolist()
    rows = tuple(replace(_row(sheets, place), severity=each) for place, each in enumerate(severities))
    models = tuple(ModelMean(str(name), fit.mean_of(sheets.models == name)) for name in np.unique(sheets.models))
    pairs = _pairs(sheets) if has_pairs and not is_crowded else ()
    note = f"more than {MOST_ONE_BY_ONE} raters: their pairs are left out" if is_crowded else None
    return RunRaters(run, rows, pairs, note, tuple(RaterPace(**row) for row in timed), models, settled)


def _row(sheets: _Sheets, place: int) -> RaterRow:
    is_rated = ~np.isnan(sheets.scores[place])
    others = np.delete(sheets.scores, place, axis=0)
    decisions = _agreement(sheets, place, sheets.decided, "nobody decided on these ratings")
    gold = _agreement(sheets, place, sheets.gold, "no gold output was rated")
    output_count = np.unique(sheets.outputs[is_rated]).size
    beside = sheets.compare(place, others)
    return RaterRow(sheets.raters[place], int(is_rated.sum()), output_count, beside, decisions, gold)


def _agreement(sheets: _Sheets, place: int, others: Floats, why_none: str) -> Measure:
    """Agreement of a rater with what was said about the same units."""
    found = sheets.compare(place, others[place : place + 1]).agreement
    return found if found.n else Measure(found.statistic, None, None, None, why_none, 0)


def _pairs(sheets: _Sheets) -> tuple[RaterPair, ...]:
    found = []
    for one, other in itertools.combinations(range(len(sheets.raters)), 2):
        is_common = ~np.isnan(sheets.scores[one]) & ~np.isnan(sheets.scores[other])
        if np.unique(sheets.outputs[is_common]).size >= LEAST_OUTPUTS:
            beside = sheets.compare(one, sheets.scores[other : other + 1])
            found.append(RaterPair(sheets.raters[one], sheets.raters[other], beside))
    return tuple(found)


def _sheets(rated: pa.Table) -> _Sheets:
    codes = {
        name: rated.column(name).combine_chunks().dictionary_encode()
        for name in ("rater", "output_id", "criterion_id", "shared")
    }
    raters, outputs, criteria, cases = (each.indices.to_numpy().astype(np.int64) for each in codes.values())
    names = codes["rater"].dictionary.to_pylist()
    order = sorted(range(len(names)), key=names.__getitem__)
    rows = np.argsort(order)[raters]
    is_new = np.append(True, (np.diff(outputs) != 0) | (np.diff(criteria) != 0))
    units = np.cumsum(is_new) - 1
    values = [np.full((len(names), int(is_new.sum())), np.nan) for _ in range(3)]
    for array, name in zip(values, ("score", "decided", "gold"), strict=True):
        array[rows, units] = rated.column(name).to_numpy()
    ordered = tuple(names[place] for place in order)
    scores, decided, gold = values
    models = np.array(rated.column("model").to_pylist())[is_new]
    return _Sheets(ordered, scores, decided, gold, outputs[is_new], criteria[is_new], cases[is_new], models)
