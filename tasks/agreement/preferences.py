"""Choices between two outputs of a case: people's preferences between models, agreement of the judge with them, and
rankings of a run's models by choices of people, choices of the judge, and scores.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from math import sqrt
from operator import itemgetter
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from gradebook.rubrics.statistics.agreement import Measure
from gradebook.rubrics.statistics.arrays import Floats
from gradebook.rubrics.statistics.davidson import Choices, Ranking, number_models, rank_models
from gradebook.rubrics.statistics.means import score_interval
from gradebook.rubrics.text.reasons import reason_words
from gradebook.tasks.lake.rows import Row, model_name, read_rows
from gradebook.tasks.lake.sql import query

LEAST_CASES = 2
TIE = 0.5
EQUAL = 1e-9  # scores with a smaller difference count as equal
_PAIR = ("criterion_id", "model_a", "checkpoint_a", "model_b", "checkpoint_b")


@dataclass(frozen=True, slots=True)
class Preference:
    """Choices of all raters between the outputs of two models on one criterion, each rater's latest.

    b_share: share of the choices that prefer B, over cases; a tie counts as half. judge: share of the choices without
    tie that the judge's scores agree with; pairs with equal scores are not counted.
    """

    criterion_id: str
    model_a: str
    checkpoint_a: str | None
    model_b: str
    checkpoint_b: str | None
    rater_count: int
    choice_count: int
    a_count: int
    tie_count: int
    b_count: int
    b_share: Measure
    judge: Measure


def measure_preferences(
    connection: duckdb.DuckDBPyConnection, run_id: str, criterion_id: str | None = None
) -> tuple[Preference, ...]:
    """One row for each criterion and pair of models of a published run on which people chose; none in an older lake."""
    try:
        rows = read_rows(connection, query("agreement/preferences_of_run"), run_id=run_id, criterion_id=criterion_id)
    except duckdb.CatalogException:  # a version of the lake before there were preferences
        return ()
    return tuple(_preference(list(group)) for _, group in groupby(rows, itemgetter(*_PAIR)))


def _preference(rows: list[Row]) -> Preference:
    wins = np.array([row["wins"] for row in rows])
    cases = np.array([row["shared"] for row in rows])
    judged = np.array([np.nan if row["judged"] is None else row["judged"] for row in rows])
    is_compared = (np.abs(judged) > EQUAL) & (wins != TIE)
    is_same = (judged[is_compared] > 0) == (wins[is_compared] > TIE)
    return Preference(
        **{name: rows[0][name] for name in _PAIR},
        rater_count=len({row["rater"] for row in rows}),
        choice_count=len(rows),
        a_count=int((wins == 0).sum()),
        tie_count=int((wins == TIE).sum()),
        b_count=int((wins == 1).sum()),
        b_share=share_over_cases("b_share", wins, cases, "nobody chose"),
        judge=share_over_cases(
            "judge", is_same.astype(float), cases[is_compared], "no choice on which the judge's scores differ"
        ),
    )


def share_over_cases(name: str, values: Floats, cases: NDArray[np.str_], why_none: str) -> Measure:
    """Mean of values in 0..1 with its interval over cases."""
    if not values.size:
        return Measure(name, None, None, None, why_none, 0)
    codes = np.unique(cases, return_inverse=True)[1]
    if codes.max() + 1 < LEAST_CASES:
        return Measure(name, float(values.mean()), None, None, "one case", values.size)
    interval = score_interval(values, codes)
    return Measure(name, float(values.mean()), interval.low, interval.high, None, values.size)


PEOPLE, JUDGE, SCORES = "people", "judge", "scores"
_TWO_SIDED = 1.959963984540054  # standard deviations that noise exceeds in 5% of cases


@dataclass(frozen=True, slots=True)
class ModelRanking:
    """Ranking of models by Davidson's model. source: people, judge or scores; criterion_id: of the choices.

    tie_margin: largest difference of two scores that counts as a tie. at_equal_length: ranking adjusted for the
    outputs' log lengths, effect per doubling; None without choices.
    """

    source: str
    criterion_id: str | None
    models: tuple[str, ...]
    tie_margin: float | None
    ranking: Ranking
    at_equal_length: Ranking | None = None

    def as_json(self) -> dict[str, Any]:
        rows = [
            {"model": name} | asdict(strength) | {"elo": strength.elo}
            for name, strength in zip(self.models, self.ranking.strengths, strict=True)
        ]
        adjusted = self.at_equal_length
        if adjusted is not None:
            for row, strength in zip(rows, adjusted.strengths, strict=True):
                row["at_equal_length"] = strength.value
        return {
            "source": self.source,
            "criterion_id": self.criterion_id,
            "tie_margin": self.tie_margin,
            "reason": reason_words(self.ranking.reason) or None,
            "length_effect": None if adjusted is None else adjusted.effect,
            "strengths": rows,
        }


def rank_run(connection: duckdb.DuckDBPyConnection, run_id: str, criterion_id: str | None) -> tuple[ModelRanking, ...]:
    """Rankings of a published run's models: by people and by the judge's preferences on each criterion, then by the
    overall scores.
    """
    rankings: list[ModelRanking] = []
    for source, select in ((PEOPLE, query("agreement/preferences_of_run")), (JUDGE, query("agreement/judged_choices"))):
        try:
            rows = read_rows(connection, select, run_id=run_id, criterion_id=criterion_id)
        except duckdb.CatalogException:  # a version of the lake before there were such choices
            continue
        rankings += [
            _of_choices(source, name, list(group)) for name, group in groupby(rows, itemgetter("criterion_id"))
        ]
    if not rankings:
        return ()
    margin = tie_margin(connection, run_id)
    return (*rankings, *_of_scores(read_rows(connection, query("agreement/score_pairs"), run_id=run_id), margin))


def tie_margin(connection: duckdb.DuckDBPyConnection, *run_ids: str) -> float:
    """Difference of two overall scores that the judge's noise alone exceeds in 5%. run_ids: one for each side, or one.

    `EQUAL` if no judge replied several times.
    """
    select = query("agreement/overall_noise")
    variances = [read_rows(connection, select, run_id=run_id)[0]["variance"] or 0.0 for run_id in run_ids]
    return max(EQUAL, _TWO_SIDED * sqrt(sum(variances) * 2 / len(variances)))


def wins_of(differences: Floats, margin: float) -> Floats:
    """Outcome of each pair: 1 if the second side wins, 0 if the first wins, 0.5 within the margin."""
    return np.where(np.abs(differences) <= margin, 0.5, (differences > 0).astype(np.float64))


def _of_choices(source: str, criterion_id: str, rows: Sequence[Row]) -> ModelRanking:
    names = [
        (
            model_name({"model": row["model_a"], "checkpoint": row["checkpoint_a"]}),
            model_name({"model": row["model_b"], "checkpoint": row["checkpoint_b"]}),
        )
        for row in rows
    ]
    wins, longer = (np.array([row[name] for row in rows], dtype=np.float64) for name in ("wins", "longer"))
    models, ranking = _ranked(names, wins, [row["shared"] for row in rows], None)
    varies = bool(np.ptp(longer) > EQUAL)
    adjusted = _ranked(names, wins, [row["shared"] for row in rows], longer)[1] if varies else None
    return ModelRanking(source, criterion_id, models, None, ranking, adjusted)


def _of_scores(rows: Sequence[Row], margin: float) -> Iterator[ModelRanking]:
    if rows:
        wins = wins_of(np.array([row["difference"] for row in rows]), margin)
        names = [(row["model_a"], row["model_b"]) for row in rows]
        models, ranking = _ranked(names, wins, [row["shared"] for row in rows], None)
        yield ModelRanking(SCORES, None, models, margin, ranking)


def _ranked(
    names: Sequence[tuple[str, str]], wins: Floats, shared: Sequence[str], covariate: Floats | None
) -> tuple[tuple[str, ...], Ranking]:
    models, firsts, seconds = number_models(names)
    cases = np.unique(np.array(shared), return_inverse=True)[1].ravel()
    return models, rank_models(Choices(firsts, seconds, wins, cases, covariate), len(models))
