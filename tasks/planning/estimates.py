"""Estimates of tokens and dollars from the judge's past replies, with their uncertainty."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import duckdb
import pyarrow as pa

from gradebook.rubrics.model.judgments import JUDGMENT_SCHEMA
from gradebook.rubrics.prompts.feedback import FEEDBACK_CRITERION_ID
from gradebook.tasks.judging.money.prices import BYTES_PER_TOKEN, Price, Usage, cost_usd, find_price
from gradebook.tasks.judging.settings.judge import JudgeSettings
from gradebook.tasks.lake.rows import make_table
from gradebook.tasks.lake.sql import query

BYTES_PER_TOKEN_RANGE = (3.0, 5.0)  # without past replies: usual languages and code
# Without past replies: evidence, a short rationale and a label.
USUAL_COMPLETION_TOKENS = 120.0
USUAL_COMPLETION_RANGE = (60.0, 240.0)
# Without past replies: tokens of reasoning before a reply, by effort.
USUAL_REASONING_TOKENS: Mapping[str | None, float] = MappingProxyType(
    {None: 400.0, "none": 0.0, "minimal": 50.0, "low": 200.0, "medium": 400.0, "high": 1_600.0, "xhigh": 6_400.0}
)
MOST_REPLIES_READ = 20_000
FEWEST_QUESTIONS = 20  # minimum for an estimate from a criterion's own past
# Student's t at 90% with 19 degrees of freedom: exact for the fewest questions, slightly wide for more.
QUANTILE = 1.328


@dataclass(frozen=True, slots=True)
class Completions:
    """Completion tokens per question. low, high: 10% and 90% quantiles of one question."""

    question_count: int
    mean: float
    sd: float
    low: float
    high: float


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
    """Estimate for some questions. Dollars are None if the price is unknown; 80% of sums lie in the range."""

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


def read_history(ledger: duckdb.DuckDBPyConnection, judge: str) -> History:
    """Summarise the latest replies of a judge, by its name in the ledger."""
    ledger.register("no_judgments", JUDGMENT_SCHEMA.empty_table())  # the columns that an earlier gradebook's lake lacks
    make_table(ledger, "planning/recent_questions", judge=judge, most_count=MOST_REPLIES_READ)
    ledger.unregister("no_judgments")
    rows = ledger.execute(query("planning/completion_tokens"), {"feedback": FEEDBACK_CRITERION_ID}).fetchall()
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
    """Estimate for a criterion's questions. is_first: nothing about their outputs is in the prefix cache yet.
    usual_tokens: of a reply, until the criterion has replies of its own; None: as those to other criteria.

    The range is that of the sum of all n questions, not of one. If the new questions are like the m past ones, the sum
    lies in it in 80% of the cases, with 10% on either side. The width includes the variance of the new questions and of
    the past mean, so it is sqrt(n + n^2 / m) times the spread of one question. A criterion without a past of its own
    gets n times the range of a single reply of this judge, as its mean is unknown. Without any past the range is a
    guess.
    """
    if not question_count:
        return Estimate()
    prompts = _prompt_spread(history.prompts, question_count, prompt_bytes)
    completions = _completion_spread(history, criterion_id, question_count, usual_tokens)
    if history.all_completions is None and judge.is_reasoning:
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
        known = prompt_bytes / BYTES_PER_TOKEN if past is None else prompt_bytes * past.tokens_per_byte
        return Spread(known, min(few, known), max(many, known))
    scale = prompt_bytes / question_count / past.mean_bytes  # deviations grow with the prompt
    return sum_spread(prompt_bytes * past.tokens_per_byte, past.sd * scale, question_count, past.question_count)


def _completion_spread(
    history: History, criterion_id: str, question_count: int, usual_tokens: float | None = None
) -> Spread:
    own, any_past = history.completions.get(criterion_id), history.all_completions
    if own is not None and own.question_count >= FEWEST_QUESTIONS:
        return sum_spread(question_count * own.mean, own.sd, question_count, own.question_count)
    if own is None and usual_tokens is not None:
        return Spread(
            question_count * usual_tokens, question_count * usual_tokens / 2, question_count * usual_tokens * 2
        )
    known = own or any_past
    mean = known.mean if known else USUAL_COMPLETION_TOKENS
    low, high = USUAL_COMPLETION_RANGE
    if any_past is not None and any_past.question_count >= FEWEST_QUESTIONS:
        low, high = any_past.low, any_past.high
    return Spread(question_count * mean, question_count * min(low, mean), question_count * max(high, mean))


def sum_spread(expected: float, sd: float, new_count: int, past_count: int) -> Spread:
    """Sum of new values with this standard deviation, whose mean is estimated from past ones."""
    off = QUANTILE * sd * math.sqrt(new_count + new_count**2 / past_count)
    return Spread(expected, max(0.0, expected - off), expected + off)


def held_rationales(ledger: duckdb.DuckDBPyConnection, keys: Iterable[str]) -> dict[str, str]:
    """Rationales of the ledger's usable replies by request key. ledger: with the view held_judgments."""
    ledger.register("wanted_keys", pa.table({"request_key": pa.array(keys, pa.string())}))
    held = dict(ledger.execute(query("planning/held_rationales")).fetchall())
    ledger.unregister("wanted_keys")
    return held
