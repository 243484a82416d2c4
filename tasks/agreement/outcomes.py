"""Outcomes in use beside the scores of a run: what follows them, and where weights would have to go."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from math import isnan
from typing import Any

import duckdb
import numpy as np

from gradebook.rubrics.files.digest import rubric_from_body
from gradebook.rubrics.model.arrays import Floats
from gradebook.rubrics.model.rubric import Rubric, effective_weights
from gradebook.rubrics.statistics.intervals import Interval
from gradebook.rubrics.statistics.outcomes import Correlation, SuggestedWeights, pearson, spearman, suggest_weights
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect_up_to_date
from gradebook.tasks.lake.rows import Row, model_name, read_published_run, read_rows
from gradebook.tasks.lake.sql import query
from gradebook.tasks.system.number_format import difference_interval_words, rate_words, signed_words, with_interval

MOST_UNITS = 5_000  # outputs of a correlation: more are drawn at random
SEED = 20_261_126
OVERALL = ""
LIMITS = (
    "Correlations over the cases of this run show no cause, and weights fitted to an outcome hold for these cases "
    "alone: criteria that hardly vary can't show what they are worth, noise of the judge weakens all, and outcomes may "
    "have causes that no criterion asks about. Cases that were drawn by stratum count as one each."
)
_GROUPS = "select model, checkpoint from run_scores where run_id = ? order by model, checkpoint"


@dataclass(frozen=True, slots=True)
class Followed:
    """How one score follows an outcome. criterion_id: empty for the overall score. Intervals of 95%; None if unknown.

    weight: in the rubric now, as a share; suggested: by `suggest_weights`, with its interval.
    """

    criterion_id: str
    n: int
    case_count: int
    pearson: float | None
    pearson_low: float | None
    pearson_high: float | None
    spearman: float | None
    spearman_low: float | None
    spearman_high: float | None
    weight: float | None = None
    suggested: float | None = None
    suggested_low: float | None = None
    suggested_high: float | None = None


@dataclass(frozen=True, slots=True)
class OutcomeFollowing:
    """One outcome beside the scores of one model. rows: the overall score, then criteria in the rubric's order.

    r2_fit, r2_now: share of the outcome's variance explained by the suggested weights and by the overall score.
    """

    name: str
    grain: str
    model: str
    is_higher_better: bool
    rows: tuple[Followed, ...]
    r2_fit: float | None
    r2_now: float | None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def measure_outcomes(lake: Lake, run_id: str) -> tuple[OutcomeFollowing, ...]:
    """Each outcome of a published run's outputs, cases and days, by model. Raises `InputError` for an unknown run."""
    with connect_up_to_date(lake) as connection:
        run = read_published_run(connection, lake, run_id, query("agreement/rubric_of_run"))
        return outcomes_of(connection, run_id, rubric_from_body(run["body"]))


def outcomes_of(connection: duckdb.DuckDBPyConnection, run_id: str, rubric: Rubric) -> tuple[OutcomeFollowing, ...]:
    """As `measure_outcomes`, on a connection to the lake."""
    if not connection.execute("select 1 from outcomes limit 1").fetchall():
        return ()
    cells = read_rows(connection, query("agreement/outcome_cells"), run_id=run_id)
    found = list(_by_group(cells, rubric))
    for group in read_rows(connection, _GROUPS, run_id):
        days = read_rows(connection, query("agreement/outcome_days"), run_id=run_id, **group)
        found += _by_group([row | group | {"grain": "day", "output_id": row["shared"]} for row in days], rubric)
    return tuple(found)


def _by_group(cells: Sequence[Row], rubric: Rubric) -> Iterator[OutcomeFollowing]:
    def key(row: Row) -> tuple[str, str, str, str]:
        return row["name"], row["grain"], row["model"], row["checkpoint"] or ""

    for _, group in groupby(sorted(cells, key=key), key):
        rows = [*group]
        units = [*dict.fromkeys(row["output_id"] for row in rows)]  # an output without an overall score has others
        if len(units) > MOST_UNITS:
            chosen = np.random.default_rng(SEED).choice(len(units), MOST_UNITS, replace=False)
            units = [units[place] for place in np.sort(chosen).tolist()]
        yield _follow(rows, {unit: place for place, unit in enumerate(units)}, rubric)


def _follow(rows: Sequence[Row], places: dict[str, int], rubric: Rubric) -> OutcomeFollowing:
    names = [OVERALL, *(criterion.id for criterion in rubric.criteria)]
    scores = np.full((len(places), len(names)), np.nan)
    values, shared = np.full(len(places), np.nan), np.empty(len(places), dtype=object)
    columns = {name: place for place, name in enumerate(names)}
    for row in rows:
        place, column = places.get(row["output_id"]), columns.get(row["criterion_id"])
        if place is not None and column is not None:
            scores[place, column], values[place], shared[place] = row["score"], row["value"], row["shared"]
    cases = np.unique(shared.astype(str), return_inverse=True)[1].astype(np.int64)
    first = rows[0]
    weights = {name: weight for name, weight in effective_weights(rubric).items() if weight}
    fit = _suggest(scores, values if first["is_higher_better"] else -values, cases, columns, weights)
    total = sum(abs(weight) for weight in weights.values())
    followed = []
    for name in names:
        known = ~np.isnan(scores[:, columns[name]]) & ~np.isnan(values)
        if not known.any():
            continue
        sides = scores[known, columns[name]], values[known], cases[known]
        counts = int(known.sum()), int(np.unique(cases[known]).size)
        suggested: tuple[float | None, ...] = ()
        if name in weights:
            suggested = (abs(weights[name]) / total, *_suggested(fit, [*weights].index(name)))
        followed.append(Followed(name, *counts, *_words(pearson(*sides)), *_words(spearman(*sides)), *suggested))
    return OutcomeFollowing(
        first["name"],
        first["grain"],
        model_name(first),
        bool(first["is_higher_better"]),
        tuple(followed),
        None if fit is None else _known(fit.r2_fit),
        None if fit is None else _known(fit.r2_now),
    )


def _suggest(
    scores: Floats, values: Floats, cases: np.ndarray[Any, Any], columns: dict[str, int], weights: dict[str, float]
) -> SuggestedWeights | None:
    """Suggested weights of the weighted criteria, over the outputs that all of them and the overall score have."""
    chosen = [columns[name] for name in weights]
    signs = np.sign([*weights.values()])  # a penalty counts by its absence
    known = ~np.isnan(scores[:, [0, *chosen]]).any(axis=1) & ~np.isnan(values)
    if not chosen or not known.any():
        return None
    return suggest_weights(scores[known][:, chosen] * signs, scores[known, 0], values[known], cases[known])


def _suggested(fit: SuggestedWeights | None, place: int) -> tuple[float | None, ...]:
    if fit is None:
        return None, None, None
    interval = fit.intervals[place]
    return _known(float(fit.shares[place])), _known(interval.low), _known(interval.high)


def _words(found: Correlation) -> tuple[float | None, float | None, float | None]:
    interval: Interval = found.interval
    return _known(found.value), _known(interval.low), _known(interval.high)


def _known(value: float) -> float | None:
    return None if isnan(value) else float(value)


def cells_of(row: Followed) -> tuple[str, ...]:
    """Words of a row: score, Spearman with its interval, Pearson, weight, suggested weight with its interval, cases."""
    suggested = "–"
    if row.suggested is not None:
        suggested = with_interval(row.suggested, row.suggested_low, row.suggested_high, rate_words)
    return (
        row.criterion_id or "overall",
        signed_words(row.spearman),
        difference_interval_words(row.spearman_low, row.spearman_high),
        signed_words(row.pearson),
        rate_words(row.weight),
        suggested,
        f"{row.case_count:,}",
    )
