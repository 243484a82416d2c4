"""Cascade chosen from stored verdicts of both judges, or of a judge and people: its rule, its loss and its price."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isnan
from typing import Any, Literal

import duckdb
import numpy as np
import yaml

from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.prompts.combine_opinions import measure_doubt
from gradebook.rubrics.prompts.distributions import threshold_distance
from gradebook.rubrics.statistics.cascade_rule import ChosenRule, JudgedTwice, Tradeoff, choose_rule
from gradebook.tasks.agreement.mart import add_decisions_of_run, add_ratings_of_run
from gradebook.tasks.agreement.published_run import find_run
from gradebook.tasks.judging.settings.judge import Judge
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect_up_to_date
from gradebook.tasks.lake.rows import Row, read_rows
from gradebook.tasks.lake.sql import query
from gradebook.tasks.ledger.past_judges import read_past_judge
from gradebook.tasks.rubric_store.questions import add_questions_of_run

SEED = 20_261_129
LEAST_CASES = 20
ROUNDING = 1e-9  # of scores
Of = Literal["verdicts", "gates"]
Key = tuple[str, str]  # output and criterion
PEOPLE = "people"
_AUDIT = 0.05  # of a cascade that is written


@dataclass(frozen=True, slots=True)
class CascadeChoice:
    """Rule for asking the second judge, chosen from verdicts of both.

    verdict_count: verdicts that both gave. missing_count: those of the first that the second did not give, left out.
    """

    first: str
    then: str
    of: Of
    rule: ChosenRule
    verdict_count: int
    missing_count: int

    def as_json(self) -> dict[str, Any]:
        """Plain JSON; unknown numbers are null."""
        plain: dict[str, Any] = _without_nan(asdict(self))
        return plain

    def file_text(self, first: str | None, then: str | None) -> str:
        """Judge file of the cascade. first, then: as the file names the judges; None: by their models.

        Raises `InputError` where no rule was found, or where people are the second judge and none is named.
        """
        chosen = self.rule.chosen
        if chosen is None:
            raise InputError("--write", "no rule that keeps the loss", "a larger --loss, or verdicts on more cases")
        if then is None and self.then == PEOPLE:
            raise InputError("--write", "people as the second judge", "--then with the judge to ask in their place")
        when = {chosen.rule.name: chosen.rule.value, "audit": _AUDIT}
        written = {"cascade": {"first": first or self.first, "then": then or self.then, "when": when}}
        what = "gates passed otherwise" if self.of == "gates" else "verdicts that differ"
        header = (
            f"# Chosen by `gradebook judge calibrate` on {self.rule.case_count:,} cases, for at most "
            f"{self.rule.target:.1%} {what}\n# from always asking {self.then}, with {self.rule.confidence:.0%} "
            "confidence. On other cases: "
            f"{chosen.loss.value:.1%} of the verdicts differ, {chosen.asked:.1%} are asked.\n"
        )
        return header + yaml.safe_dump(written, sort_keys=False, allow_unicode=True)


def calibrate_cascade(
    lake: Lake, run_ids: Sequence[str], *, loss: float = 0.02, confidence: float = 0.95, of: Of = "verdicts"
) -> CascadeChoice:
    """Choose when a cascade asks its second judge.

    run_ids: one run by each judge over the same outputs; or one run of a panel of two, of a cascade with an audit, or
    of one judge whose outputs people rated. loss: share of verdicts (or of gates) that may differ from always asking
    the second. Raises `InputError` for runs without such verdicts, and for a first judge without probabilities.
    """
    if not 0 < loss < 1:
        raise InputError("--loss", f"{loss:g}", "a share above 0 and below 1, such as 0.02")
    if not 0.5 <= confidence < 1:
        raise InputError("--confidence", f"{confidence:g}", "0.5 or more and below 1, such as 0.95")
    names = list(dict.fromkeys(run_ids))
    if len(names) > 2:
        raise InputError("RUN", f"{len(names)} runs", "one or two: of the first judge, and of the second")
    with connect_up_to_date(lake) as connection:
        runs = [find_run(connection, lake, name, None) for name in names]
        if len({(row["rubric_id"], row["rubric_version"]) for row in runs}) > 1:
            raise InputError("RUN", "runs of different rubric versions", "runs of the same rubric version")
        first, then, votes, second_votes = _read_votes(connection, runs)
        rubric = add_questions_of_run(connection, names[0])
    second_votes = {key: vote for key, vote in second_votes.items() if vote["score"] is not None}
    if rubric is None:
        raise InputError(f"run {names[0]}", "a rubric that this version can't read", "one that it can")
    criteria = {criterion.id: criterion for criterion in rubric.judged_criteria}
    listed = [(key, vote) for key, vote in votes.items() if key[1] in criteria]
    both = [(key, vote) for key, vote in listed if key in second_votes]
    if of == "gates" and not any(criteria[criterion_id].gate for (_, criterion_id), _ in both):
        raise InputError("--of", "gates, which the judged criteria have none of", "verdicts")
    pairs = _pair_verdicts(criteria, both, second_votes, of)
    if pairs.case_count < LEAST_CASES:
        hint = "evaluate the same outputs with the second judge, or rate some: `gradebook people rate RUN --n 200`"
        fault = f"{pairs.case_count} cases with verdicts of both {first} and {then}"
        raise InputError("RUN", fault, f"{LEAST_CASES} or more", hint)
    rule = choose_rule(pairs, loss, confidence, np.random.default_rng(SEED), of_gates=of == "gates")
    return CascadeChoice(first, then, of, rule, len(both), len(listed) - len(both))


def _read_votes(
    connection: duckdb.DuckDBPyConnection, runs: Sequence[Row]
) -> tuple[str, str, dict[Key, Row], dict[Key, Row]]:
    """Names and votes of the first judge and of the second, by output and criterion."""
    run_id = str(runs[0]["run_id"])
    if len(runs) == 2:
        first, then = (str(row["judge"]) for row in runs)
        votes, second_votes = (_read_judge_votes(connection, str(row["run_id"]), None) for row in runs)
        return first, then, votes, second_votes
    (row,) = read_rows(connection, "select run_id, judge, settings from runs where run_id = ?", run_id)
    past = read_past_judge(connection, row)
    judge = past.restore(None, None) if past is not None else None
    if judge is not None and len(judge.members) > 1:
        if len(judge.members) != 2:
            raise InputError(f"run {run_id}", f"a panel of {len(judge.members)} judges", "a panel of two")
        first, then = judge.member_names
        second_votes = _read_judge_votes(connection, run_id, then)
        return first, then, _read_judge_votes(connection, run_id, first), _audited_votes(judge, run_id, second_votes)
    add_ratings_of_run(connection, run_id)
    add_decisions_of_run(connection)
    people = read_rows(connection, query("comparing/people_scores"))
    rated = {(row["output_id"], row["criterion_id"]): row for row in people}
    return str(runs[0]["judge"]), PEOPLE, _read_judge_votes(connection, run_id, None), rated


def _audited_votes(judge: Judge, run_id: str, votes: dict[Key, Row]) -> dict[Key, Row]:
    """Votes that the first judge's doubt did not choose: of a cascade those of its audit."""
    if judge.when is None:
        return votes
    if not judge.when.audit:
        expected = "a cascade with `audit: 0.05` or more, a panel of the two judges, or a run by each"
        raise InputError(f"run {run_id}", "a cascade without an audit", expected)
    return {key: vote for key, vote in votes.items() if judge.when.is_audited(key[0])}


def _read_judge_votes(connection: duckdb.DuckDBPyConnection, run_id: str, judge: str | None) -> dict[Key, Row]:
    rows = read_rows(connection, query("comparing/votes_of_run"), run_id=run_id, judge=judge)
    return {(row["output_id"], row["criterion_id"]): row for row in rows}


def _pair_verdicts(
    criteria: Mapping[str, Criterion], both: Sequence[tuple[Key, Row]], second_votes: Mapping[Key, Row], of: Of
) -> JudgedTwice:
    """Verdicts of both judges as arrays. Raises `InputError` where the first gave no probabilities."""
    asked_criteria = [criteria[key[1]] for key, _ in both]
    distributions = [json.loads(vote["distribution"] or "{}") for _, vote in both]
    if both and not any(distributions):
        expected = "probabilities: of a decision model, or in `mode: logprobs`"
        raise InputError("RUN", "verdicts of the first judge without probabilities", expected)
    first = np.array([_float_or_nan(vote["score"]) for _, vote in both])
    second = np.array([_float_or_nan(second_votes[key]["score"]) for key, _ in both])
    is_gate = np.array([criterion.gate for criterion in asked_criteria], dtype=np.bool_)
    levels = [_level(criterion, vote) for criterion, (_, vote) in zip(asked_criteria, both, strict=True)]
    other_levels = [
        _level(criterion, second_votes[key]) for criterion, (key, _) in zip(asked_criteria, both, strict=True)
    ]
    passes = [
        [
            _is_met(criterion, level, score)
            for criterion, level, score in zip(asked_criteria, of_judge, scores, strict=True)
        ]
        for of_judge, scores in ((levels, first), (other_levels, second))
    ]
    return JudgedTwice(
        _measure_doubts(asked_criteria, distributions, of),
        np.array([a != b for a, b in zip(levels, other_levels, strict=True)], dtype=np.bool_),
        is_gate,
        is_gate & np.array([a != b for a, b in zip(*passes, strict=True)], dtype=np.bool_),
        first,
        second,
        np.unique([str(vote["shared"]) for _, vote in both], return_inverse=True)[1],
        np.array([_float_or_nan(vote["cost_usd"]) for _, vote in both]),
        np.array([_float_or_nan(second_votes[key].get("cost_usd")) for key, _ in both]),
        np.unique([key[0] for key, _ in both], return_inverse=True)[1],
    )


def _measure_doubts(
    criteria: Sequence[Criterion], distributions: Sequence[Mapping[str, float]], of: Of
) -> dict[str, np.ndarray[Any, np.dtype[np.float64]]]:
    """Measures by the name of their rule, NaN without a distribution. With two levels all of them order alike.

    A criterion without a threshold is infinitely far from it: a cascade does not ask about it.
    """
    if of == "gates":
        distances = [
            threshold_distance(shares, criterion) if shares else float("nan")
            for criterion, shares in zip(criteria, distributions, strict=True)
        ]
        has_reply = np.array([bool(shares) for shares in distributions], dtype=np.bool_)
        distance = np.array(distances)
        return {"near_threshold": np.where(has_reply & np.isnan(distance), np.inf, distance)}
    width = max((len(shares) for shares in distributions), default=1) or 1
    table = np.full((len(distributions), width), np.nan)
    for row, shares in enumerate(distributions):
        if shares:
            table[row] = [*shares.values(), *[0.0] * (width - len(shares))]
    doubt = measure_doubt(table)
    if all(len(criterion.ranked_levels) == 2 for criterion in criteria):
        return {"share_below": doubt.share}
    return {"share_below": doubt.share, "margin_below": doubt.margin, "entropy_above": doubt.entropy}


def _level(criterion: Criterion, vote: Row) -> str:
    """Level of a vote; of people, whose mean may lie between two, the nearest."""
    if vote.get("level_id") is not None:
        return str(vote["level_id"])
    score = _float_or_nan(vote["score"])
    return min(criterion.ranked_levels, key=lambda level: abs(level.score - score)).id


def _is_met(criterion: Criterion, level: str, score: float) -> bool:
    """Whether a criterion is met: from its threshold on, without one at its best level."""
    if criterion.threshold is not None:
        return bool(score >= criterion.threshold - ROUNDING)
    return level == criterion.ranked_levels[-1].id


def _float_or_nan(value: float | None) -> float:
    return float("nan") if value is None else float(value)


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nan(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(inner) for inner in value]
    return None if isinstance(value, float) and isnan(value) else value


def rule_words(row: Tradeoff) -> str:
    """Rule as a judge file has it."""
    return f"{row.rule.name}: {row.rule.value:g}"
