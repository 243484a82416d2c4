"""Estimates per vote: each judge by its own past, the second of a cascade by its past escalation rate."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass

import duckdb

from gradebook.tasks.judging.settings.judge import JudgeSettings
from gradebook.tasks.judging.settings.panels import (
    FIRST,
    THEN,
    CascadeSettings,
    Judge,
    Opinion,
    member_names,
    members_of,
)
from gradebook.tasks.lake.sql import query
from gradebook.tasks.planning.estimates import Estimate, History, estimate_questions, read_history
from gradebook.tasks.planning.request_counts import Tallies, Tally

FEWEST_FIRST_OPINIONS = 20  # below it the past says too little of how often the second judge is asked


@dataclass(frozen=True, slots=True)
class Past:
    """Past of each member. escalated_rate: share of questions a cascade passed to its second judge, 1 if unknown."""

    histories: tuple[History, ...]
    escalated_rate: float = 1.0


@dataclass(frozen=True, slots=True)
class OpinionEstimate:
    """Estimate for one vote on a criterion. at_most_count: requests that depend on another vote."""

    replayed_count: int
    open_count: int
    request_count: int
    at_most_count: int
    estimate: Estimate


def read_past(ledger: duckdb.DuckDBPyConnection, judge: Judge) -> Past:
    """Summarise the past of a judge, or of each member."""
    histories = tuple(
        read_history(ledger, member.judge) if isinstance(member, JudgeSettings) else History()
        for member in members_of(judge)
    )
    return Past(histories, _escalated_rate(ledger, judge) if isinstance(judge, CascadeSettings) else 1.0)


def estimate_opinion(
    judge: Judge, opinion: Opinion, criterion_id: str, tally: Tally, past: Past, begun: set[int]
) -> OpinionEstimate:
    """Estimate for one vote on a criterion. begun: judges with earlier questions about the outputs; updated."""
    index = opinion.judge_index
    member = members_of(judge)[index]
    if not isinstance(member, JudgeSettings):
        return OpinionEstimate(tally.row_count, 0, 0, 0, Estimate())
    unsent_rate = 1 - past.escalated_rate  # of the questions that depend on another vote
    count = tally.question_count - math.floor(tally.at_most_count * unsent_rate)
    byte_count = tally.prompt_bytes - math.floor(tally.at_most_bytes * unsent_rate)
    is_first = index not in begun
    if tally.question_count:
        begun.add(index)
    estimate = estimate_questions(past.histories[index], member, criterion_id, count, byte_count, is_first=is_first)
    return OpinionEstimate(
        tally.replayed_count, tally.open_count, tally.request_count, tally.at_most_requests, estimate
    )


def asked_judges(tallies: Mapping[str, Tallies]) -> tuple[int, ...]:
    """Indices of the members with open questions."""
    asked = {opinion.judge_index for each in tallies.values() for opinion, tally in each.items() if tally.request_count}
    return tuple(sorted(asked))


def _escalated_rate(ledger: duckdb.DuckDBPyConnection, judge: CascadeSettings) -> float:
    names = member_names(judge)
    given = {
        "judge": judge.judge,
        "identity": json.dumps(judge.identity),
        "first": names[FIRST],
        "then": names[THEN],
    }
    try:
        found = ledger.execute(query("planning/escalations"), given).fetchone()
    except duckdb.CatalogException:  # no lake yet, or one of an earlier gradebook
        return 1.0
    count, rate = found or (0, None)
    return float(rate) if rate is not None and count >= FEWEST_FIRST_OPINIONS else 1.0
