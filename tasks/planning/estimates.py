"""Requests of a plan, counted and priced: replies in the ledger, and tokens and dollars of the open requests.

Tokens and dollars are estimated from the judge's past replies, with their uncertainty: each judge by its own replies,
the second judge of a cascade also by the past escalation rate.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeVar

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gradebook.rubrics.model.verdicts import JUDGMENT_SCHEMA
from gradebook.rubrics.prompts.feedback import FEEDBACK_CRITERION_ID
from gradebook.rubrics.prompts.objects import OBJECT_CRITERION_ID
from gradebook.tasks.judging.opinions.parts import PartList, Scale, is_unsure
from gradebook.tasks.judging.prices import BYTES_PER_TOKEN, Price, Usage, cost_usd, find_price, prompt_bytes
from gradebook.tasks.judging.replies.list_questions import ListAnswer, ListQuestion, asked_judge
from gradebook.tasks.judging.settings.judge import FIRST, THEN, Judge, JudgeSettings, Opinion
from gradebook.tasks.lake.rows import make_table
from gradebook.tasks.lake.sql import query

BYTES_PER_TOKEN_RANGE = (3.0, 5.0)  # without past replies: usual languages and code
# Without past replies: evidence, a short rationale and a label.
USUAL_COMPLETION_TOKENS = 120.0
USUAL_COMPLETION_RANGE = (60.0, 240.0)
# Without past replies at an effort: tokens of reasoning before a reply.
USUAL_REASONING_TOKENS: Mapping[str | None, float] = MappingProxyType(
    {None: 400.0, "none": 0.0, "minimal": 50.0, "low": 200.0, "medium": 400.0, "high": 1_600.0, "xhigh": 6_400.0}
)
MOST_REPLIES_READ = 20_000
FEWEST_QUESTIONS = 20  # minimum for an estimate from past replies to the same criterion
# Student's t at 90% with 19 degrees of freedom: exact for the fewest questions, slightly wide for more.
QUANTILE = 1.328


@dataclass(frozen=True, slots=True)
class Completions:
    """Completion tokens per question. low, high: 10% and 90% quantiles of one question.

    has_reasoning: includes reasoning at the judge's effort; False: learned at another effort, without reasoning.
    """

    question_count: int
    mean: float
    sd: float
    low: float
    high: float
    has_reasoning: bool = True


@dataclass(frozen=True, slots=True)
class Prompts:
    """Prompt tokens of past questions by their bytes. sd: deviation of one question, in tokens."""

    question_count: int
    tokens_per_byte: float
    mean_bytes: float
    sd: float


@dataclass(frozen=True, slots=True)
class History:
    """Statistics of a judge's past replies.

    The rates are shares of prompt tokens served from the prefix cache: for the first question about an output in a run,
    and for the later ones.
    """

    completions: Mapping[str, Completions] = field(default_factory=dict)  # by criterion
    all_completions: Completions | None = None
    prompts: Prompts | None = None
    first_cached_rate: float = 0.0
    later_cached_rate: float = 0.0
    service_tier: str | None = None  # the most frequent in replies


@dataclass(frozen=True, slots=True)
class Estimate:
    """Estimate for a number of questions. Dollars are None if the price is unknown; 80% of sums lie in the range."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = 0.0
    cost_low_usd: float | None = 0.0
    cost_high_usd: float | None = 0.0


@dataclass(frozen=True, slots=True)
class Spread:
    """Expected sum, and the range in which 80% of such sums lie."""

    expected: float
    low: float
    high: float


def read_history(ledger: duckdb.DuckDBPyConnection, judge: JudgeSettings) -> History:
    """Summarise the latest replies of a judge, by its name in the ledger; reasoning counts at its effort alone."""
    ledger.register("no_judgments", JUDGMENT_SCHEMA.empty_table())  # the columns that an earlier gradebook's lake lacks
    effort = "/".join(str(setting) for setting in (judge.reasoning_effort, judge.thinking) if setting is not None)
    make_table(ledger, "planning/recent_questions", judge=judge.judge, effort=effort, most_count=MOST_REPLIES_READ)
    ledger.unregister("no_judgments")
    texts = {"feedback": FEEDBACK_CRITERION_ID, "proposal": OBJECT_CRITERION_ID}
    rows = ledger.execute(query("planning/completion_tokens"), texts).fetchall()
    completions = {criterion_id: Completions(*row) for criterion_id, *row in rows}
    prompts = ledger.execute(query("planning/prompt_tokens")).fetchone()
    first_rate, later_rate, tier = ledger.execute(query("planning/cache_rates")).fetchone() or (0.0, 0.0, None)
    of_all = completions.pop(None, None)
    return History(completions, of_all, Prompts(*prompts) if prompts else None, first_rate, later_rate, tier)


def estimate_questions(
    history: History,
    judge: JudgeSettings,
    criterion_id: str,
    question_count: int,
    prompt_bytes: int,
    *,
    is_first: bool = False,
    usual_tokens: float | None = None,
) -> Estimate:
    """Estimate for a criterion's questions. is_first: their outputs are not in the prefix cache yet.
    usual_tokens: tokens of a reply, until the criterion has past replies; None: use the replies to other criteria.

    The range is that of the sum of all n questions, not of one. If the new questions are like the m past ones, the sum
    lies in it in 80% of the cases, with 10% on either side. The width includes the variance of the new questions and of
    the past mean, so it is sqrt(n + n^2 / m) times the spread of one question. A criterion without past
    replies gets n times the range of a single reply of this judge, as its mean is unknown. Without any past replies
    the range is a guess.
    """
    if not question_count:
        return Estimate()
    prompts = _prompt_spread(history.prompts, question_count, prompt_bytes)
    completions = _completion_spread(history, criterion_id, question_count, usual_tokens)
    if judge.is_decision:  # output is free
        completions = Spread(0.0, 0.0, 0.0)
    if not (history.all_completions and history.all_completions.has_reasoning) and judge.is_reasoning:
        usual = USUAL_REASONING_TOKENS.get(judge.reasoning_effort, USUAL_REASONING_TOKENS["high"])
        reasoned = question_count * min(usual, judge.thinking or usual)
        low, high = completions.low + reasoned / 4, completions.high + reasoned * 4
        completions = Spread(completions.expected + reasoned, low, high)
    cached_rate = history.first_cached_rate if is_first else history.later_cached_rate
    price, tier = find_price(judge), expected_tier(judge, history)

    def dollars(prompt_tokens: float, completion_tokens: float) -> float | None:
        return _dollars(price, tier, question_count, prompt_tokens, cached_rate, completion_tokens)

    expected = dollars(prompts.expected, completions.expected)
    return Estimate(
        round(prompts.expected),
        round(prompts.expected * cached_rate),
        round(completions.expected),
        expected,
        _range_end(
            expected, dollars(prompts.low, completions.expected), dollars(prompts.expected, completions.low), -1
        ),
        _range_end(
            expected, dollars(prompts.high, completions.expected), dollars(prompts.expected, completions.high), 1
        ),
    )


def expected_tier(judge: JudgeSettings, history: History) -> str | None:
    """Service tier that replies will most likely name."""
    if judge.mode == "batch":
        return "batch"
    return history.service_tier if judge.service_tier in (None, "auto") else judge.service_tier


def _dollars(
    price: Price | None, tier: str | None, count: int, prompt_tokens: float, cached_rate: float, completions: float
) -> float | None:
    usage = Usage(round(prompt_tokens), round(prompt_tokens * cached_rate), round(completions))
    return cost_usd(price, usage, count, tier=tier)


def _range_end(
    expected: float | None, by_prompts: float | None, by_completions: float | None, sign: int
) -> float | None:
    """One end of the range: deviations of prompts and completions are independent, so they add up as squares."""
    if expected is None or by_prompts is None or by_completions is None:
        return None
    return max(0.0, expected + sign * math.hypot(by_prompts - expected, by_completions - expected))


def _prompt_spread(past: Prompts | None, question_count: int, prompt_bytes: int) -> Spread:
    if past is None or past.question_count < FEWEST_QUESTIONS:
        few, many = (prompt_bytes / rate for rate in reversed(BYTES_PER_TOKEN_RANGE))
        expected = prompt_bytes / BYTES_PER_TOKEN if past is None else prompt_bytes * past.tokens_per_byte
        return Spread(expected, min(few, expected), max(many, expected))
    scale = prompt_bytes / question_count / past.mean_bytes  # deviations grow with the prompt
    return sum_spread(prompt_bytes * past.tokens_per_byte, past.sd * scale, question_count, past.question_count)


def _completion_spread(
    history: History, criterion_id: str, question_count: int, usual_tokens: float | None = None
) -> Spread:
    own_past, any_past = history.completions.get(criterion_id), history.all_completions
    if own_past is not None and own_past.question_count >= FEWEST_QUESTIONS:
        return sum_spread(question_count * own_past.mean, own_past.sd, question_count, own_past.question_count)
    if own_past is None and usual_tokens is not None:
        return Spread(
            question_count * usual_tokens, question_count * usual_tokens / 2, question_count * usual_tokens * 2
        )
    past = own_past or any_past
    mean = past.mean if past else USUAL_COMPLETION_TOKENS
    low, high = USUAL_COMPLETION_RANGE
    if any_past is not None and any_past.question_count >= FEWEST_QUESTIONS:
        low, high = any_past.low, any_past.high
    return Spread(question_count * mean, question_count * min(low, mean), question_count * max(high, mean))


def sum_spread(expected: float, sd: float, new_count: int, past_count: int) -> Spread:
    """Spread of the sum of new values with this standard deviation, whose mean is estimated from past values."""
    half_width = QUANTILE * sd * math.sqrt(new_count + new_count**2 / past_count)
    return Spread(expected, max(0.0, expected - half_width), expected + half_width)


def held_rationales(ledger: duckdb.DuckDBPyConnection, keys: Iterable[str]) -> dict[str, str]:
    """Rationales of the ledger's usable replies by request key. ledger: with the view held_judgments."""
    ledger.register("wanted_keys", pa.table({"request_key": pa.array(keys, pa.string())}))
    rationales = dict(ledger.execute(query("planning/held_rationales")).fetchall())
    ledger.unregister("wanted_keys")
    return rationales


# Columns of a plan that are counted. prompt_bytes: bytes of the whole request; for a typed question, as if asked alone.
# question_bytes: bytes of the request's typed questions. is_needed: null if not known yet.
COUNTED_SCHEMA = pa.schema(
    [
        pa.field("output_id", pa.string()),
        pa.field("request_key", pa.string()),
        pa.field("judge_index", pa.int32()),
        pa.field("replicate", pa.int32()),
        pa.field("is_swapped", pa.bool_()),
        pa.field("status", pa.string()),
        pa.field("prompt_bytes", pa.int64()),
        pa.field("question_bytes", pa.int64()),
        pa.field("is_needed", pa.bool_()),
    ]
)
_NOT, _AT_MOST, _SURELY = 0, 1, 2  # whether a row is asked; _AT_MOST: only if another judge is unsure

States = NDArray[np.int8]


@dataclass(frozen=True, slots=True)
class Asked:
    """Number of questions, and the bytes of their prompts."""

    count: int = 0
    prompt_bytes: int = 0


@dataclass(slots=True)
class Tally:
    """Counts of one vote on a criterion while shards are planned.

    question_count: open judgments; request_count: requests, those of batched criteria counted at the first criterion.
    Both include at_most counts, which are asked only if another judge is unsure. prompt_bytes: batched criteria share
    the bytes of their requests equally.
    """

    row_count: int = 0
    replayed_count: int = 0
    open_count: int = 0
    question_count: int = 0
    request_count: int = 0
    prompt_bytes: int = 0
    at_most_count: int = 0  # questions that are asked only if another judge is unsure
    at_most_requests: int = 0
    at_most_bytes: int = 0

    def add_rows(self, rows: pa.Table) -> None:
        """Count the rows of a shard, as `COUNTED_SCHEMA`; rows in the ledger count only if certainly needed."""
        is_held = rows.column("status").is_valid()
        self.row_count += rows.num_rows
        self.replayed_count += _true_count(pc.and_(is_held, pc.fill_null(rows.column("is_needed"), False)))
        self.open_count += _true_count(pc.and_(pc.invert(is_held), pc.fill_null(rows.column("is_needed"), True)))

    def add_asked(self, surely: Asked, at_most: Asked, position: int, size: int) -> None:
        """Count the requests of a shard. position, size: of the criterion in its batch, and the batch's size."""
        shares = [
            requests.prompt_bytes // size + (position < requests.prompt_bytes % size) for requests in (surely, at_most)
        ]
        self.question_count += surely.count + at_most.count
        self.at_most_count += at_most.count
        self.prompt_bytes += sum(shares)
        self.at_most_bytes += shares[1]
        if position == 0:
            self.request_count += surely.count + at_most.count
            self.at_most_requests += at_most.count

    def add_typed(self, counts: "TypedCounts") -> None:
        """Count the typed questions of a shard on one criterion."""
        self.question_count += counts.question_count
        self.at_most_count += counts.at_most_count
        self.request_count += counts.request_count
        self.at_most_requests += counts.at_most_requests
        self.prompt_bytes += counts.prompt_bytes
        self.at_most_bytes += counts.at_most_bytes


Tallies = dict[Opinion, Tally]


@dataclass(frozen=True, slots=True)
class TypedCounts:
    """Counts of typed questions on one criterion, which share requests with others about the same outputs.

    request_count: requests whose first question is one of these. prompt_bytes: of the questions, and of the states that
    they share equally with the others of their request. All include those that may be asked.
    """

    question_count: int
    request_count: int
    prompt_bytes: int
    at_most_count: int
    at_most_requests: int
    at_most_bytes: int


def count_asked(pack: Sequence[pa.Table]) -> tuple[Asked, Asked]:
    """Requests for one vote on batched criteria: (certainly sent, perhaps sent).

    pack: rows of each criterion, as `COUNTED_SCHEMA`; a single criterion may have an output several times. Batched
    criteria are asked whole if one of them is open; equal requests are sent once.
    """
    first_rows = pack[0]
    states = _states(first_rows)
    for table in pack[1:]:
        indices = pc.index_in(first_rows.column("output_id"), table.column("output_id").combine_chunks())
        other_states = pa.array(_states(table)).take(indices.combine_chunks())
        states = np.maximum(states, pc.fill_null(other_states, _NOT).to_numpy())
    columns = {"key": first_rows.column("request_key"), "state": states, "bytes": first_rows.column("prompt_bytes")}
    requests = pa.table(columns).filter(pa.array(states > _NOT))
    grouped = requests.group_by("key").aggregate([("state", "max"), ("bytes", "max")])
    return _asked(grouped, _SURELY), _asked(grouped, _AT_MOST)


def count_typed(pack: Sequence[pa.Table], size: int) -> list[TypedCounts]:
    """Counts of each criterion whose open questions about an output share requests.

    size: most questions of one request. pack: rows of each criterion, as `COUNTED_SCHEMA`; a single criterion may have
    an output several times. Equal questions about equal outputs are sent once.
    """
    criteria = np.repeat(np.arange(len(pack)), [rows.num_rows for rows in pack])
    rows = pa.concat_tables(pack)
    states = np.concatenate([_states(member) for member in pack])
    keys = rows.column("request_key").combine_chunks().dictionary_encode().indices.to_numpy()
    open_rows = np.flatnonzero(states > _NOT)
    open_rows = open_rows[np.sort(np.unique(keys[open_rows], return_index=True)[1])]  # the first of equal questions
    outputs = rows.column("output_id").combine_chunks().dictionary_encode().indices.to_numpy()[open_rows]
    order = np.argsort(outputs, kind="stable")  # by output, in the order of the criteria
    open_rows, outputs = open_rows[order], outputs[order]
    starts = np.flatnonzero(np.r_[True, outputs[1:] != outputs[:-1]]) if len(outputs) else np.zeros(0, np.int64)
    lengths = np.diff(np.r_[starts, len(outputs)])
    position = np.arange(len(outputs)) - np.repeat(starts, lengths)  # among the open questions about the output
    requests = position // size
    sharing = np.minimum(size, np.repeat(lengths, lengths) - requests * size)  # questions of the same request
    question_bytes = rows.column("question_bytes").to_numpy()[open_rows]
    state_bytes = rows.column("prompt_bytes").to_numpy()[open_rows] - question_bytes
    own_bytes = question_bytes + state_bytes / np.maximum(sharing, 1)
    is_first, is_at_most = position % size == 0, states[open_rows] == _AT_MOST
    counts = []
    for criterion in range(len(pack)):
        is_of_criterion = criteria[open_rows] == criterion
        counts.append(
            TypedCounts(
                int(is_of_criterion.sum()),
                int((is_of_criterion & is_first).sum()),
                round(float(own_bytes[is_of_criterion].sum())),
                int((is_of_criterion & is_at_most).sum()),
                int((is_of_criterion & is_first & is_at_most).sum()),
                round(float(own_bytes[is_of_criterion & is_at_most].sum())),
            )
        )
    return counts


def _states(rows: pa.Table) -> States:
    is_open = rows.column("status").is_null().to_numpy()
    is_needed = pc.fill_null(rows.column("is_needed"), True).to_numpy()
    is_known = rows.column("is_needed").is_valid().to_numpy()
    states: States = np.where(is_open & is_needed, np.where(is_known, _SURELY, _AT_MOST), _NOT).astype(np.int8)
    return states


def _asked(grouped: pa.Table, state: int) -> Asked:
    byte_counts = grouped.filter(pc.equal(grouped.column("state_max"), state)).column("bytes_max")
    return Asked(len(byte_counts), pc.sum(byte_counts).as_py() or 0)


def _true_count(flags: pa.ChunkedArray) -> int:
    return pc.sum(flags).as_py() or 0


FEWEST_FIRST_OPINIONS = 20  # minimum for an estimate of how often the second judge is asked


@dataclass(frozen=True, slots=True)
class Past:
    """Past replies of each member.

    escalated_rate: share of questions passed to a cascade's second judge, 1 if unknown.
    """

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
    """Summarise the past replies of a judge, or of each member."""
    histories = tuple(
        History() if member.as_model is None else read_history(ledger, member.as_model) for member in judge.members
    )
    return Past(histories, 1.0 if judge.when is None else _escalated_rate(ledger, judge))


def estimate_opinion(
    judge: Judge, opinion: Opinion, criterion_id: str, tally: Tally, past: Past, begun: set[int]
) -> OpinionEstimate:
    """Estimate for one vote on a criterion. begun: judges with earlier questions about the outputs; updated."""
    index = opinion.judge_index
    model = judge.members[index].as_model
    if model is None:
        return OpinionEstimate(tally.row_count, 0, 0, 0, Estimate())
    unsent_rate = 1 - past.escalated_rate  # of the questions that depend on another vote
    count = tally.question_count - math.floor(tally.at_most_count * unsent_rate)
    byte_count = tally.prompt_bytes - math.floor(tally.at_most_bytes * unsent_rate)
    is_first = index not in begun
    if tally.question_count:
        begun.add(index)
    estimate = estimate_questions(past.histories[index], model, criterion_id, count, byte_count, is_first=is_first)
    return OpinionEstimate(
        tally.replayed_count, tally.open_count, tally.request_count, tally.at_most_requests, estimate
    )


def asked_judges(tallies: Mapping[str, Tallies]) -> tuple[int, ...]:
    """Indices of the members with open questions."""
    indices = {
        opinion.judge_index
        for by_opinion in tallies.values()
        for opinion, tally in by_opinion.items()
        if tally.request_count
    }
    return tuple(sorted(indices))


def _escalated_rate(ledger: duckdb.DuckDBPyConnection, judge: Judge) -> float:
    names = judge.member_names
    parameters = {
        "judge": judge.judge,
        "identity": json.dumps(judge.identity),
        "first": names[FIRST],
        "then": names[THEN],
    }
    try:
        row = ledger.execute(query("planning/escalations"), parameters).fetchone()
    except duckdb.CatalogException:  # no lake yet, or one of an earlier gradebook
        return 1.0
    count, rate = row or (0, None)
    return float(rate) if rate is not None and count >= FEWEST_FIRST_OPINIONS else 1.0


Said = TypeVar("Said")


@dataclass(slots=True)
class ListCount:
    """Requests of a criterion. replayed_count: replies in the ledger; request_count: the others, partly estimated."""

    replayed_count: int = 0
    request_count: int = 0
    byte_count: int = 0
    reply_tokens: float = 0  # usual tokens of all replies together, if the number of parts is known
    at_most_count: int = 0  # requests that are sent only if the first judge of a cascade is unsure

    def estimate(self, history: History, judge: JudgeSettings, criterion_id: str) -> Estimate:
        """Estimate of the requests' cost by the judge's past."""
        usual = self.reply_tokens / self.request_count if self.request_count and self.reply_tokens else None
        return estimate_questions(
            history,
            judge,
            criterion_id,
            self.request_count,
            self.byte_count,
            is_first=True,
            usual_tokens=usual,
        )


class ListPlanner:
    """Counter of requests for criteria whose judges are asked about parts of outputs."""

    def __init__(self, ledger: duckdb.DuckDBPyConnection, judge: Judge) -> None:
        """ledger: with the view held_judgments."""
        self.judge = judge
        self._ledger = ledger
        self._seen: set[str] = set()  # keys of requests that an earlier criterion sends already

    def count_votes(
        self,
        opinions: Sequence[Opinion],
        scale: Scale,
        lists: Sequence[PartList[Said]],
        counts: Mapping[int, ListCount],
        *,
        tokens_of_part: float = 0,
    ) -> None:
        """Count the votes on lists; a second judge's only where the first one is unsure, or not asked yet."""
        judge = self.judge
        waiting: set[int] = set()  # lists that a cascade's first judge is not asked about yet
        for index in sorted(counts):
            of_judge = [opinion for opinion in opinions if opinion.judge_index == index]
            model = judge.members[index].as_model
            if model is None:
                continue
            asked = asked_judge(model)
            second_rule = judge.when if index == THEN else None
            wanted_lists = [
                (row, opinion, lists[row].question(asked, opinion.replicate))
                for row, opinion in judge.drawn_votes(of_judge, [part_list.output_id for part_list in lists])
                if second_rule is None or row in waiting or is_unsure(second_rule, scale, lists[row].votes)
            ]
            replies = self.add([question for *_, question in wanted_lists], counts[index])
            for row, opinion, question in wanted_lists:
                if question.request_key in replies:
                    key = question.request_key
                    lists[row].add(opinion, ListAnswer(key, replies[key], None, 0, None, None))
                    continue
                counts[index].reply_tokens += tokens_of_part * len(lists[row].votes)
                if second_rule is not None:
                    counts[index].at_most_count += row in waiting
                else:
                    waiting.add(row)

    def add(self, questions: Sequence[ListQuestion], count: ListCount) -> dict[str, str]:
        """Add questions; returns the replies that the ledger has, by request key."""
        keys = dict.fromkeys(question.request_key for question in questions)
        replies = held_rationales(self._ledger, keys)
        count.replayed_count += len(replies)
        for question in questions:
            if question.request_key not in replies and question.request_key not in self._seen:
                self._seen.add(question.request_key)
                count.request_count += 1
                count.byte_count += prompt_bytes(question.render(), question.schema)
        return replies
