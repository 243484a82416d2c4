"""Agreement of raters and judges on a published run's outputs and their parts, by all current ratings.

Parts are steps of agents and claims. Trust in a judge is measured by criterion: the share of people's failures that
it finds, and the calibration of its probabilities.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations, groupby, product
from operator import itemgetter
from typing import Any

import duckdb
import numpy as np

from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.prompts.distributions import tempered
from gradebook.rubrics.statistics.agreement import Measure, measure_raters, measure_sides
from gradebook.rubrics.statistics.arrays import Floats
from gradebook.rubrics.statistics.judge_quality import JudgeTrust, judge_trust
from gradebook.rubrics.text.reasons import asdict_in_words
from gradebook.rubrics.text.wording import EACH_CASE_ONCE, counted
from gradebook.tasks.agreement.mart import (
    JUDGE_RATERS,
    JUDGES,
    LEAST_OUTPUTS,
    MOST_ONE_BY_ONE,
    RATERS,
    Group,
    ScoreMatrix,
    add_criteria_of_run,
    add_statements_of_run,
    groups_of,
    is_crowded,
    level_table,
    measure_group,
    read_score_matrices,
)
from gradebook.tasks.agreement.preferences import (
    ModelRanking,
    Preference,
    measure_preferences,
    rank_run,
    share_over_cases,
)
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect_up_to_date
from gradebook.tasks.lake.rows import Row, read_rows
from gradebook.tasks.lake.sql import query
from gradebook.tasks.ratings.offered import offered_note
from gradebook.tasks.rubric_store.questions import add_questions_of_run
from gradebook.tasks.system.shell import shell_line

BEST = 1.0  # score of a step without an error
_STEP = ("output_id", "step_index")


@dataclass(frozen=True, slots=True)
class StepAgreement:
    """Agreement on the steps of a run's outputs by one criterion. kind: `raters`, `judge_raters` or `judges`.

    A lead's decision about a step replaces the raters' marks in comparisons with the judge, not among the raters.
    judges: votes of a panel's or cascade's judges, or of one judge asked repeatedly. n: steps with two marks; kappa:
    Cohen's of two sides, Conger's of more than two raters or votes. found_rate: share of the steps marked below the
    best label by a rater that the judge (or the other rater or vote) marked so too. same_type_rate: of steps that both
    marked so, the share with the same type of error. Intervals are over cases. error_pairs: (type by the first, type by
    the second, count), for steps on which one of them has an error; type None: no error.
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
    return _measure_marks(rows)


def measure_claims(
    connection: duckdb.DuckDBPyConnection, run_id: str, criterion_id: str | None = None
) -> tuple[StepAgreement, ...]:
    """One row for each criterion and kind of pairs with claims that two marked; none in an older lake.

    Claims are measured as steps are. found_rate: of the claims that a rater did not mark as supported, the share that
    the judge (or the other rater) did not either. error_type: contradicted, or not_in_source, which
    includes unverified.
    """
    try:
        add_questions_of_run(connection, run_id, "claim_ratings")
        rows = read_rows(connection, query("agreement/claim_marks_of_run"), run_id=run_id, criterion_id=criterion_id)
    except duckdb.CatalogException:  # a version of the lake before people rated claims
        return ()
    return _measure_marks(rows)


def _measure_marks(rows: Sequence[Row]) -> tuple[StepAgreement, ...]:
    """Agreement on marks of parts of outputs, by criterion. rows: as of `agreement/step_marks_of_run`, in its order."""
    return tuple(
        agreement
        for name, marks in groupby(rows, itemgetter("criterion_id"))
        for agreement in _step_agreements(name, list(marks))
    )


def _step_agreements(criterion_id: str, marks: Sequence[Row]) -> Iterator[StepAgreement]:
    raters = sorted({mark["who"] for mark in marks if mark["side"] == "rater"})
    has_judge = any(mark["side"] == "judge" for mark in marks)
    steps = [list(of_step) for _, of_step in groupby(marks, itemgetter(*_STEP))]
    sides = ("rater", "vote", "judge", "settled")
    by_rater, votes, judged, settled = ([_marks_of_side(side, of_step) for of_step in steps] for side in sides)
    if len(raters) > 1:
        yield from _step_agreement(criterion_id, RATERS, _pairs(by_rater), by_rater)
    if has_judge and raters:
        people = [
            [mark for mark in decided or marks if mark["score"] is not None]
            for decided, marks in zip(settled, by_rater, strict=True)
        ]
        pairs = [
            pair
            for judge_marks, people_marks in zip(judged, people, strict=True)
            for pair in product(judge_marks, people_marks)
        ]
        both_sides = [judge_marks + people_marks for judge_marks, people_marks in zip(judged, people, strict=True)]
        yield from _step_agreement(criterion_id, JUDGE_RATERS, pairs, both_sides)
    yield from _step_agreement(criterion_id, JUDGES, _pairs(votes), votes)


def _marks_of_side(side: str, marks: Sequence[Row]) -> list[Row]:
    return [mark for mark in marks if mark["side"] == side]


def _pairs(steps: Sequence[Sequence[Row]]) -> list[tuple[Row, Row]]:
    return [pair for of_step in steps for pair in combinations(of_step, 2)]


def _step_agreement(
    criterion_id: str, kind: str, pairs: Sequence[tuple[Row, Row]], steps: Sequence[Sequence[Row]]
) -> Iterator[StepAgreement]:
    if not pairs:
        return
    steps = [of_step for of_step in steps if of_step]
    markers = sorted({(mark["side"], mark["who"]) for of_step in steps for mark in of_step})  # the judge is the first
    scores = np.full((len(markers), len(steps)), np.nan)
    for column, of_step in enumerate(steps):
        for mark in of_step:
            scores[markers.index((mark["side"], mark["who"])), column] = mark["score"]
    cases = np.unique([of_step[0]["shared"] for of_step in steps], return_inverse=True)[1]
    is_mutual = kind != JUDGE_RATERS
    measure = measure_raters if is_mutual else measure_sides
    agreement = measure(scores, scores, np.unique(scores[~np.isnan(scores)]), cases)
    measures = {row.statistic: row for row in agreement.measures}
    # Among raters or votes, each is once the reference; for the judge, the rater is the reference.
    references = [*pairs, *((other, first_mark) for first_mark, other in pairs)] if is_mutual else list(pairs)
    missed = [turn for turn in references if turn[1]["score"] < BEST]
    with_error = [
        turn for turn in missed if turn[0]["score"] < BEST and (turn[0]["error_type"] or turn[1]["error_type"])
    ]
    types = Counter((first_mark["error_type"], other["error_type"]) for first_mark, other in pairs)
    yield StepAgreement(
        criterion_id,
        kind,
        agreement.n,
        len({pair[0]["shared"] for pair in pairs}),
        measures["percent_agreement"],
        measures["conger_kappa"],  # of two sides it is Cohen's
        _share(
            "found_rate",
            [first_mark["score"] < BEST for first_mark, _ in missed],
            missed,
            "nothing is below the best label",
        ),
        _share(
            "same_type_rate",
            [first_mark["error_type"] == other["error_type"] for first_mark, other in with_error],
            with_error,
            _NO_PAIR,
        ),
        tuple((*kinds, count) for kinds, count in types.most_common() if kinds != (None, None)),
    )


_NO_PAIR = "nothing is below the best label, with an error, by both"


def _share(name: str, values: Sequence[bool], turns: Sequence[tuple[Row, Row]], why_none: str) -> Measure:
    shares: Floats = np.array(values, dtype=np.float64)
    return share_over_cases(name, shares, np.array([one["shared"] for one, _ in turns], dtype=np.str_), why_none)


ROUNDING = 1e-9  # rounding error of scores


@dataclass(frozen=True, slots=True)
class CriterionTrust:
    """Judge against people on one criterion."""

    criterion_id: str
    trust: JudgeTrust

    def as_json(self) -> dict[str, Any]:
        trust = asdict(self.trust) | {"is_no_better_than_passing": self.trust.is_no_better_than_passing}
        return {"criterion_id": self.criterion_id} | trust


def measure_trust(
    connection: duckdb.DuckDBPyConnection, run_id: str, criterion_id: str | None = None
) -> tuple[CriterionTrust, ...]:
    """Trust on the criteria of a published run that a judge scored and people rated, in the rubric's order.

    An output passes a criterion if its score reaches the threshold; without one, the best level of a gate, else 0.5.
    Reads latest_ratings and latest_decisions, as `add_statements_of_run` makes them.
    """
    rows = read_rows(connection, query("agreement/judged_and_rated"), run_id=run_id, criterion_id=criterion_id)
    temperatures = read_temperatures(connection, run_id)
    trusts = []
    for name, of_criterion in groupby(rows, lambda row: row["criterion_id"]):
        trusts.append(CriterionTrust(name, trust_on(list(of_criterion), temperatures.get(name))))
    return tuple(trusts)


def trust_on(rows: Sequence[Row], temperature: float | None) -> JudgeTrust:
    """Trust from the rows of judged_and_rated of one criterion, at least one. temperature: of its recalibration."""
    cases = np.unique([str(row["case_id"]) for row in rows], return_inverse=True)[1]
    passed, judged = (np.array([_is_passed(row, row[column]) for row in rows]) for column in ("people_score", "score"))
    probabilities = np.array([_probability(row, temperature) for row in rows])
    return judge_trust(passed, judged, probabilities, cases)


def _is_passed(row: Row, score: float) -> bool:
    return bool((score >= row["bar"] - ROUNDING) != row["is_penalty"])


def read_temperatures(connection: duckdb.DuckDBPyConnection, run_id: str) -> dict[str, float]:
    """Temperature of each criterion of a run whose judge was recalibrated."""
    (run,) = read_rows(connection, "select judge, settings from runs where run_id = ?", run_id)
    settings = json.loads(run["settings"]) if isinstance(run["settings"], str) else run["settings"] or {}
    temperatures: dict[str, float] = settings.get("recalibration", {}).get(run["judge"], {}).get("temperatures", {})
    return temperatures


def _probability(row: Row, temperature: float | None) -> float:
    """Probability of passing by the judge's recalibrated distribution; NaN without a distribution."""
    if row["distribution"] is None:
        return float("nan")
    scores = dict(row["levels"])
    shares = json.loads(row["distribution"])
    if temperature is not None:
        shares = tempered(shares, temperature)
    return float(min(sum(share for level, share in shares.items() if _is_passed(row, scores[level])), 1.0))


_RUN = "select run_id, status, rubric_id, rubric_version, judge from runs where run_id = ?"
UNWEIGHTED = (
    "the cases were drawn by stratum and count as one each here: these figures are of the sample, not of all cases"
)
_COUNTS_CASES = "select 1 from runs where run_id = ? and contains(array_to_string(notes, chr(10)), ?)"
BY_OUTPUT = "cases have unlike numbers of outputs: the run's means count each case once, these figures each output"
_DRAWN = "select count(stratum) from output_scores where run_id = ?"
_LATEST = """
select run_id from runs where status = 'published' and ($1 is null or rubric_id = $1) order by version desc limit 1
"""
_CRITERIA = "select distinct criterion_id from asked_questions order by criterion_id"


@dataclass(frozen=True, slots=True)
class AgreementPart:
    """Agreement of two sides on one criterion. judge, rater: None: all of them, or for the judge the run's verdict.

    levels: scores of the levels; confusion: counts of levels of the first side (rows) by levels of the other. Both are
    empty if more than two are compared.
    """

    criterion_id: str
    kind: str
    judge: str | None
    rater: str | None
    n: int
    pair_count: int
    measures: tuple[Measure, ...]
    levels: tuple[float, ...]
    confusion: tuple[tuple[int, ...], ...]

    def measure(self, statistic: str) -> Measure:
        """Measure of one statistic, by name; unknown if it is not of this kind of pairs."""
        matching = (measure for measure in self.measures if measure.statistic == statistic)
        return next(matching, Measure(statistic, None, None, None, None))

    def as_json(self) -> dict[str, Any]:
        head = {name: getattr(self, name) for name in ("criterion_id", "kind", "judge", "rater", "n", "pair_count")}
        statistics = {measure.statistic: _without_name(measure) for measure in self.measures}
        return {**head, "statistics": statistics, "levels": list(self.levels), "confusion": list(self.confusion)}


@dataclass(frozen=True, slots=True)
class RunAgreement:
    """Agreement of a run's raters and judges, and people's preferences between its outputs.

    note: why there is no agreement, or what is left out. steps, claims: agreement on the steps of agents, and on
    claims. trust: the judge's rate of people's failures that it finds.
    """

    run: Row
    parts: tuple[AgreementPart, ...]
    note: str | None
    preferences: tuple[Preference, ...] = ()
    rankings: tuple[ModelRanking, ...] = ()
    steps: tuple[StepAgreement, ...] = ()
    claims: tuple[StepAgreement, ...] = ()
    trust: tuple[CriterionTrust, ...] = ()

    def as_json(self) -> dict[str, Any]:
        preferences = [asdict_in_words(preference) for preference in self.preferences]
        agreement = [part.as_json() for part in self.parts]
        return {
            "run": self.run,
            "agreement": agreement,
            "preferences": preferences,
            "rankings": [ranking.as_json() for ranking in self.rankings],
            "steps": [asdict_in_words(step) for step in self.steps],
            "claims": [asdict_in_words(claim) for claim in self.claims],
            "trust": [criterion.as_json() for criterion in self.trust],
            "note": self.note,
        }


def measure_run(
    lake: Lake,
    run_id: str | None,
    *,
    rubric_id: str | None = None,
    criterion_id: str | None = None,
    is_passed_on: bool = False,
) -> RunAgreement:
    """Measure the agreement on a published run's outputs; by default the latest run, or the rubric's latest.

    is_passed_on: others read the note, as of `Lake.words`. Raises `InputError` for an unknown run or criterion.
    """
    lake_words = lake.words(is_passed_on=is_passed_on)
    with connect_up_to_date(lake) as connection:
        run = find_run(connection, lake, run_id, rubric_id)
        refuse_unknown(connection, run["run_id"], criterion_id)
        parts, note = measure_parts(connection, run["run_id"], criterion_id, lake_words=lake_words)
        offered = offered_note(connection, run["run_id"], lake_words)
        preferences = measure_preferences(connection, run["run_id"], criterion_id)
        rankings = rank_run(connection, run["run_id"], criterion_id)
        steps = measure_steps(connection, run["run_id"], criterion_id)
        claims = measure_claims(connection, run["run_id"], criterion_id)
        trust = measure_trust(connection, run["run_id"], criterion_id)
    note = "; ".join(filter(None, (note, offered))) or None
    return RunAgreement(run, parts, note, preferences, rankings, steps, claims, trust)


def measure_parts(
    connection: duckdb.DuckDBPyConnection,
    run_id: str,
    criterion_id: str | None = None,
    *,
    is_by_rater: bool = True,
    lake_words: Sequence[str] = (),
) -> tuple[tuple[AgreementPart, ...], str | None]:
    """Agreement on a published run's outputs by the current ratings, and a note on what is missing or may mislead.

    connection: to the lake. is_by_rater: measure each rater separately too. lake_words: options that name the lake.
    """
    if not add_statements_of_run(connection, run_id):
        return (), unrated_note(run_id, lake_words)
    parts: list[AgreementPart] = []
    crowded: list[str] = []
    for matrix in read_score_matrices(connection, criterion_id):
        parts.extend(_agreement_parts(matrix, is_by_rater=is_by_rater))
        crowded.extend([matrix.criterion_id] if is_by_rater and is_crowded(matrix) else [])
    other_notes = (
        _chosen_words(connection, run_id, criterion_id),
        unweighted_words(connection, run_id),
        uneven_words(connection, run_id),
    )
    return tuple(parts), _note(parts, crowded, other_notes)


def unrated_note(run_id: str, lake_words: Sequence[str] = (), *, what: str = "the outputs of this run") -> str:
    """Sentence on a run without ratings, with the next command. lake_words: options that name its lake."""
    command = shell_line(("gradebook", "people", "rate", run_id, "--n", "50", *lake_words))
    return f"nobody rated {what}; to collect ratings: `{command}`"


def find_run(connection: duckdb.DuckDBPyConnection, lake: Lake, run_id: str | None, rubric_id: str | None) -> Row:
    """Row of a published run, or of a rubric's latest one. Raises `InputError` if there is none."""
    if run_id is None:
        latest = read_rows(connection, _LATEST, rubric_id)
        if not latest:
            of_rubric = f" of the rubric {rubric_id!r}" if rubric_id else ""
            raise InputError("run", f"no published run{of_rubric} in {lake.name}", "one")
        run_id = str(latest[0]["run_id"])
    rows = read_rows(connection, _RUN, run_id)
    if not rows or rows[0]["status"] != "published":
        state = f"a run that is {rows[0]['status']}" if rows else "no such run"
        raise InputError(f"run {run_id}", state, "one that `gradebook runs` lists as published")
    if rubric_id is not None and rows[0]["rubric_id"] != rubric_id:
        raise InputError(f"--rubric: found {rubric_id!r}, but run {run_id} is of {rows[0]['rubric_id']}")
    return rows[0]


def known_criteria(connection: duckdb.DuckDBPyConnection, run_id: str) -> list[str]:
    """Ids that may be rated in the run: the rubric's criteria, per-case criteria, the overall row."""
    add_criteria_of_run(connection, run_id)
    return [str(row["criterion_id"]) for row in read_rows(connection, _CRITERIA)]


def refuse_unknown(connection: duckdb.DuckDBPyConnection, run_id: str, criterion_id: str | None) -> None:
    """Raise `InputError` if the requested criterion is not one of the run's."""
    if criterion_id is None:
        return
    criterion_ids = known_criteria(connection, run_id)
    if criterion_id not in criterion_ids:
        raise InputError("--criterion", f"{criterion_id!r}", f"one of {', '.join(criterion_ids[:30])}")


def _agreement_parts(matrix: ScoreMatrix, *, is_by_rater: bool) -> Iterator[AgreementPart]:
    for group in groups_of(matrix):
        if group.rater is not None and not is_by_rater:
            continue
        agreement = measure_group(matrix, group)
        if agreement is not None:
            levels, confusion = _confusion(matrix, group)
            names = (matrix.criterion_id, group.kind, group.judge, group.rater)
            yield AgreementPart(*names, agreement.n, agreement.pair_count, agreement.measures, levels, confusion)


def unweighted_words(connection: duckdb.DuckDBPyConnection, run_id: str) -> str | None:
    """Note on cases that were drawn by stratum but count with equal weight; None for other runs."""
    ((drawn_count,),) = connection.execute(_DRAWN, [run_id]).fetchall()
    return UNWEIGHTED if drawn_count else None


def uneven_words(connection: duckdb.DuckDBPyConnection, run_id: str) -> str | None:
    """Note on a run whose means count each case once, where figures of its ratings count outputs; None of others."""
    return BY_OUTPUT if connection.execute(_COUNTS_CASES, [run_id, EACH_CASE_ONCE]).fetchall() else None


def _note(parts: list[AgreementPart], crowded: list[str], other_notes: Sequence[str | None]) -> str | None:
    if not parts:
        return f"no {LEAST_OUTPUTS} outputs have two ratings, or a rating and a verdict, on a criterion"
    names = ", ".join(crowded)
    crowding = f"{names}: more than {MOST_ONE_BY_ONE} raters, measured together, not one by one" if crowded else None
    return "; ".join(filter(None, (crowding, *other_notes))) or None


def _chosen_words(connection: duckdb.DuckDBPyConnection, run_id: str, criterion_id: str | None) -> str | None:
    """Note on ratings that count in the agreement although their outputs are no random sample; None without them."""
    criteria = None if criterion_id is None else [criterion_id]
    counts: Counter[str] = Counter()
    for row in read_rows(connection, query("agreement/left_out_counts"), run_id=run_id, criteria=criteria):
        counts[row["selection"]] += row["rating_count"]
    if not counts:
        return None
    queues = ", ".join(sorted(counts))
    return (
        f"{counted(counts.total(), 'rating')} of outputs that a queue chose ({queues}) are counted too: on a random "
        "sample, agreement may be higher or lower"
    )


def _without_name(measure: Measure) -> dict[str, Any]:
    return {name: value for name, value in asdict_in_words(measure).items() if name != "statistic"}


def _confusion(matrix: ScoreMatrix, group: Group) -> tuple[tuple[float, ...], tuple[tuple[int, ...], ...]]:
    if not group.first:
        return (), ()
    levels, counts = level_table(matrix, group)
    if not levels.size:
        return (), ()
    return tuple(levels.tolist()), tuple(tuple(row) for row in counts.tolist())
