"""Agreement on parts of outputs, steps of agents or claims: raters with raters, and the judge with raters."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, groupby, product
from operator import itemgetter

import duckdb
import numpy as np

from gradebook.rubrics.model.arrays import Floats
from gradebook.rubrics.statistics.agreement import Measure, measure_raters, measure_sides
from gradebook.tasks.agreement.mart import JUDGE_RATERS, JUDGES, RATERS
from gradebook.tasks.agreement.preferences import share_over_cases
from gradebook.tasks.lake.rows import Row, read_rows
from gradebook.tasks.lake.sql import query
from gradebook.tasks.rubric_store.questions import add_questions_of_run

BEST = 1.0  # score of a step without an error
_STEP = ("output_id", "step_index")


@dataclass(frozen=True, slots=True)
class StepAgreement:
    """Agreement on the steps of a run's outputs by one criterion. kind: `raters`, `judge_raters` or `judges`.

    A lead's decision about a step counts in place of the raters' marks beside the judge, and not among the raters.
    judges: votes of a panel's or cascade's judges, or of one judge asked repeatedly. n: steps with two marks; kappa:
    Cohen's of two sides, Conger's of more than two raters or votes. found_rate: share of the steps that a rater marked
    below the best label which the judge, or the other rater or vote, did too. same_type_rate: share of such steps,
    marked by both, with the same type of error. Intervals are over cases. error_pairs: type by the one, type by the
    other, count of marks, where one of them has an error; a type is None where one saw no error.
    """

    criterion_id: str
    kind: str
    n: int
    case_count: int
    percent_agreement: Measure
    kappa: Measure
    found_rate: Measure
    same_type_rate: Measure
    error_pairs: tuple[tuple[str | None, str | None, int], ...]


def measure_steps(
    connection: duckdb.DuckDBPyConnection, run_id: str, criterion_id: str | None = None
) -> tuple[StepAgreement, ...]:
    """One row for each criterion and kind of pairs with steps that two marked; none in an older lake."""
    try:
        add_questions_of_run(connection, run_id, "step_ratings", "step_adjudications")
        rows = read_rows(connection, query("agreement/step_marks_of_run"), run_id=run_id, criterion_id=criterion_id)
    except duckdb.CatalogException:  # a version of the lake before there were marks of steps
        return ()
    return tuple(
        each for name, marks in groupby(rows, itemgetter("criterion_id")) for each in _of_criterion(name, list(marks))
    )


def measure_claims(
    connection: duckdb.DuckDBPyConnection, run_id: str, criterion_id: str | None = None
) -> tuple[StepAgreement, ...]:
    """Measured as steps are, with a claim for a step: one row for each criterion and kind of pairs with claims that two
    marked; none in an older lake.

    found_rate: share of the claims that a rater did not mark as supported which the judge, or the other rater, did not
    either. error_type: contradicted or not_in_source, to which unverified belongs.
    """
    try:
        add_questions_of_run(connection, run_id, "claim_ratings")
        rows = read_rows(connection, query("agreement/claim_marks_of_run"), run_id=run_id, criterion_id=criterion_id)
    except duckdb.CatalogException:  # a version of the lake before people rated claims
        return ()
    return _measure_marks(rows)


def _measure_marks(rows: Sequence[Row]) -> tuple[StepAgreement, ...]:
    """Agreement on marks of parts of outputs, by criterion. rows: in the order of `agreement/step_marks_of_run`, whose
    columns they have.
    """
    return tuple(
        each for name, marks in groupby(rows, itemgetter("criterion_id")) for each in _of_criterion(name, list(marks))
    )


def _of_criterion(criterion_id: str, marks: Sequence[Row]) -> Iterator[StepAgreement]:
    raters = sorted({mark["who"] for mark in marks if mark["side"] == "rater"})
    has_judge = any(mark["side"] == "judge" for mark in marks)
    steps = [list(of_step) for _, of_step in groupby(marks, itemgetter(*_STEP))]
    sides = ("rater", "vote", "judge", "settled")
    by_rater, votes, judged, settled = ([_of_side(side, of_step) for of_step in steps] for side in sides)
    if len(raters) > 1:
        yield from _measured(criterion_id, RATERS, _pairs(by_rater), by_rater)
    if has_judge and raters:
        people = [
            [mark for mark in decided or marks if mark["score"] is not None]
            for decided, marks in zip(settled, by_rater, strict=True)
        ]
        pairs = [pair for one, others in zip(judged, people, strict=True) for pair in product(one, others)]
        both = [one + others for one, others in zip(judged, people, strict=True)]
        yield from _measured(criterion_id, JUDGE_RATERS, pairs, both)
    yield from _measured(criterion_id, JUDGES, _pairs(votes), votes)


def _of_side(side: str, marks: Sequence[Row]) -> list[Row]:
    return [mark for mark in marks if mark["side"] == side]


def _pairs(steps: Sequence[Sequence[Row]]) -> list[tuple[Row, Row]]:
    return [pair for of_step in steps for pair in combinations(of_step, 2)]


def _measured(
    criterion_id: str, kind: str, pairs: Sequence[tuple[Row, Row]], steps: Sequence[Sequence[Row]]
) -> Iterator[StepAgreement]:
    if not pairs:
        return
    steps = [of_step for of_step in steps if of_step]
    voices = sorted({(mark["side"], mark["who"]) for of_step in steps for mark in of_step})  # the judge is the first
    scores = np.full((len(voices), len(steps)), np.nan)
    for place, of_step in enumerate(steps):
        for mark in of_step:
            scores[voices.index((mark["side"], mark["who"])), place] = mark["score"]
    cases = np.unique([of_step[0]["shared"] for of_step in steps], return_inverse=True)[1]
    is_mutual = kind != JUDGE_RATERS
    measure = measure_raters if is_mutual else measure_sides
    found = measure(scores, scores, np.unique(scores[~np.isnan(scores)]), cases)
    measures = {each.statistic: each for each in found.measures}
    # Of raters or votes each is the other's reference in turn; the judge is compared with the rater.
    turns = [*pairs, *((other, one) for one, other in pairs)] if is_mutual else list(pairs)
    missed = [turn for turn in turns if turn[1]["score"] < BEST]
    both = [turn for turn in missed if turn[0]["score"] < BEST and (turn[0]["error_type"] or turn[1]["error_type"])]
    types = Counter((one["error_type"], other["error_type"]) for one, other in pairs)
    yield StepAgreement(
        criterion_id,
        kind,
        found.n,
        len({pair[0]["shared"] for pair in pairs}),
        measures["percent_agreement"],
        measures["conger_kappa"],  # of two sides it is Cohen's
        _share("found_rate", [one["score"] < BEST for one, _ in missed], missed, "nothing is below the best label"),
        _share("same_type_rate", [one["error_type"] == other["error_type"] for one, other in both], both, _NO_PAIR),
        tuple((*kinds, count) for kinds, count in types.most_common() if kinds != (None, None)),
    )


_NO_PAIR = "nothing is below the best label, with an error, by both"


def _share(name: str, values: Sequence[bool], turns: Sequence[tuple[Row, Row]], why_none: str) -> Measure:
    shares: Floats = np.array(values, dtype=np.float64)
    return share_over_cases(name, shares, np.array([one["shared"] for one, _ in turns], dtype=np.str_), why_none)
