"""People's choices between two outputs of a case: which model they prefer, and whether the judge prefers the same."""

from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

import duckdb
import numpy as np
from numpy.typing import NDArray

from gradebook.rubrics.model.arrays import Floats
from gradebook.rubrics.statistics.agreement import Measure
from gradebook.rubrics.statistics.score_intervals import score_interval
from gradebook.tasks.lake.rows import Row, read_rows
from gradebook.tasks.lake.sql import query

LEAST_CASES = 2
TIE = 0.5
EQUAL = 1e-9  # a smaller difference of scores is none
_PAIR = ("criterion_id", "model_a", "checkpoint_a", "model_b", "checkpoint_b")


@dataclass(frozen=True, slots=True)
class Preference:
    """Choices of all raters between the outputs of two models on one criterion, each rater's latest.

    b_share: share of the choices that prefer B, a tie counts as half; over cases. judge: share of the choices that
    prefer one side on which the judge's scores differ to the same side; the others are not counted.
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
