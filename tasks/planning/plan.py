"""The plan: which judgments are not in the ledger yet, and what asking for them will cost."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path

import duckdb
import pyarrow as pa

from gradebook.rubrics.model.judgments import JUDGMENT_SCHEMA
from gradebook.rubrics.model.methods import Sees
from gradebook.rubrics.model.rubric import Criterion, Rubric
from gradebook.rubrics.prompts.feedback import FEEDBACK_CRITERION_ID, usual_byte_counts
from gradebook.tasks.datasets.case_criteria import (
    CASE_CRITERIA,
    OwnCount,
    count_case_criteria,
    methods_used,
    refuse_no_criteria,
    write_case_criteria,
)
from gradebook.tasks.datasets.ingest import Ingested
from gradebook.tasks.judging.money.prices import BYTES_PER_TOKEN, Usage, cost_usd, find_price
from gradebook.tasks.judging.settings.embedder import Embedder, EmbedderSettings
from gradebook.tasks.judging.settings.judge import JudgeSettings
from gradebook.tasks.judging.settings.panels import Judge, members_of, writer_of
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect, lake_exists
from gradebook.tasks.lake.sql import open_database
from gradebook.tasks.ledger.ledger import HELD_COLUMNS, HELD_SCHEMA, journaled_judgments
from gradebook.tasks.planning.cases import plan_cases, read_cases, views_of
from gradebook.tasks.planning.lists import ListCount, ListPlanner
from gradebook.tasks.planning.opinion_estimates import OpinionEstimate, Past, asked_judges, estimate_opinion, read_past
from gradebook.tasks.planning.request_counts import Tallies
from gradebook.tasks.planning.shard_plan import ShardCases, ShardPlanner, case_bytes, read_shard
from gradebook.tasks.planning.similarity import VectorsPlanner, read_compared_texts, similarity_criteria
from gradebook.tasks.ratings.run_ratings import has_preferred, kept_count, match_ratings
from gradebook.tasks.workspace.folder import RunFolder

FEEDBACK_COMPLETION_TOKENS = 150  # a usual text


@dataclass(frozen=True, slots=True)
class CriterionPlan:
    """Plan of one criterion. Dollars are None if the price is unknown.

    request_count: over all judges and opinions. A request for several criteria counts at the first of them; its tokens
    are divided equally among them. Requests of at_most_count count in tokens and dollars at the share that was sent in
    the past, or in full if that is unknown. cost_low_usd, cost_high_usd: 80% of such sums lie between them, see
    `estimate_questions`; None if no range is known.
    """

    criterion_id: str
    method: str
    row_count: int
    replayed_count: int = 0  # stored judgments that are certainly needed
    request_count: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = 0.0
    cost_low_usd: float | None = None
    cost_high_usd: float | None = None
    cached_tokens: int = 0  # of the prompt tokens, as the endpoint's prefix cache served the judge before
    at_most_count: int = 0  # of the requests: sent only where the first judge of a cascade is unsure
    open_count: int = 0  # judgments that no reply answers yet, at most


_FOR_ALL = "--stop {forecast.rule} judges all cases: {forecast.reason}"
_NO_FORECAST = (
    "--stop {forecast.rule} against {forecast.baseline_run_id}: nothing is known of the spread of differences"
)
_FORECAST = (
    "--stop {forecast.rule} against {forecast.baseline_run_id} judges on average these shares of "
    "{forecast.case_count:,} cases, by true difference: {shares} (standard deviation {forecast.sd:.2f}, "
    "{forecast.sd_source})"
)


@dataclass(frozen=True, slots=True)
class StopForecast:
    """Expected savings of a rule. reason: why there are none; sd: of the differences, and where it is from.

    expected: share of the cases that are judged on average (0..1), by true difference.
    """

    rule: str
    case_count: int
    reason: str | None = None
    baseline_run_id: str | None = None
    sd: float | None = None
    sd_source: str | None = None
    expected: tuple[tuple[float, float], ...] = ()

    @property
    def sentence(self) -> str:
        """Forecast in words."""
        template = _FOR_ALL if self.reason is not None else _FORECAST if self.expected else _NO_FORECAST
        shares = ", ".join(f"{share:.0%} at {difference:.2f}" for difference, share in self.expected)
        return template.format(forecast=self, shares=shares)


@dataclass(frozen=True, slots=True)
class RunPlan:
    """Plan of a run by criterion, in the rubric's order."""

    criteria: tuple[CriterionPlan, ...]
    unmatched_rating_count: int = 0  # ratings of the file that fit no output
    own_count: OwnCount = field(default_factory=OwnCount)  # per-case criteria
    asked_judges: tuple[int, ...] = ()  # indexes of the judge's members with requests left to send
    shortened_count: int = 0  # trajectories that judges are not shown whole
    stop: StopForecast | None = None  # of a dry run
    budget_note: str | None = None  # of a dry run: why the budget does not pay for all requests

    @property
    def request_count(self) -> int:
        """Requests to send."""
        return sum(criterion.request_count for criterion in self.criteria)

    @property
    def at_most_count(self) -> int:
        """Requests, of request_count, that are sent only if the first judge of a cascade is unsure."""
        return sum(criterion.at_most_count for criterion in self.criteria)

    @property
    def replayed_count(self) -> int:
        """Stored judgments that are certainly needed."""
        return sum(criterion.replayed_count for criterion in self.criteria)

    @property
    def open_count(self) -> int:
        """Judgments without a reply; more than requests if one request asks for several."""
        return sum(criterion.open_count for criterion in self.criteria)

    @property
    def cost_usd(self) -> float | None:
        """Estimated cost of the requests in US dollars; None if a price is unknown."""
        return _added(criterion.cost_usd for criterion in self.criteria)

    @property
    def cost_low_usd(self) -> float | None:
        """Sum of the criteria's low ends. Their errors partly cancel out, so the run's own range is narrower."""
        return _added(c.cost_usd if c.cost_low_usd is None else c.cost_low_usd for c in self.criteria)

    @property
    def cost_high_usd(self) -> float | None:
        """Sum of the criteria's high ends."""
        return _added(c.cost_usd if c.cost_high_usd is None else c.cost_high_usd for c in self.criteria)


def _added(costs: Iterable[float | None]) -> float | None:
    known = list(costs)
    return None if None in known else sum(cost for cost in known if cost is not None)


def prepare_plan(
    lake: Lake, folder: RunFolder, rubric: Rubric, shards: tuple[str, ...], ratings: pa.Table | None = None
) -> None:
    """Write the per-case criteria, and the ratings matched with outputs, to the run's folder.

    ratings: of the request's file. Raises `OutputsError` if there is no criterion at all, `RatingsError` for a
    rating that fits several outputs.
    """
    own_count = write_case_criteria(folder, shards)
    refuse_no_criteria(rubric, own_count)
    if ratings is not None or "ratings" in methods_used(rubric, own_count) or has_preferred(rubric):
        match_ratings(lake if lake_exists(lake) else None, folder, rubric, shards, ratings)


def plan_run(  # noqa: PLR0913 - what is planned, for whom, and what it may look at
    lake: Lake,
    folder: RunFolder,
    rubric: Rubric,
    judge: Judge | None,
    ingested: Ingested,
    *,
    feedback: str | None = None,
    is_anew: bool = False,
    is_preview: bool = False,
    folders: tuple[Path, ...] | None = None,
    embedder: Embedder | None = None,
    baseline: str | None = None,
) -> RunPlan:
    """Write a plan file for each judged criterion and shard; sum up the missing judgments. First call `prepare_plan`.

    feedback: of the request; texts by the judge are the last line of the plan. is_anew: plan as if the ledger were
    empty; estimates still use past replies. is_preview: judgments in the journals of killed runs count as stored; a run
    settles them first. folders: of the dataset's files, for images and sounds; None: their names are read as text.
    embedder, baseline: of the request.

    A plan file has one row per wanted opinion: output_id, criterion_id, request_key, judge_index (among the judge's
    members), replicate, is_swapped; then the ledger's columns for the key: status, level_id, distribution, evidence,
    rationale, cost_usd, paid_by (a run_id), null for a missing judgment.
    """
    own_count = count_case_criteria(folder)
    parts = [CriterionPlan(each.id, each.method.type, ingested.output_count) for each in rubric.criteria]
    parts += [CriterionPlan(CASE_CRITERIA, "", own_count.criterion_count)] if own_count.criterion_count else []
    asked: tuple[int, ...] = ()
    shortened_count = 0
    judged = rubric.judged_criteria
    listed = {each.id: each for each in rubric.asked_criteria if each not in judged}
    if judge is not None and (judged or own_count.criterion_count or listed):
        with _ledger(lake) as ledger:
            _hold_judgments(ledger, journaled_judgments(lake) if is_preview else None, is_anew=is_anew)
            planner = ShardPlanner(ledger, folder, judge)
            for index, shard in enumerate(ingested.shards):
                views = views_of(judged, folder, index)
                read = partial(_read_cases, shard, index, folder, folders, views)
                cases = replace(read(is_heard=False), heard=cache(partial(read, is_heard=True)))
                shortened_count += cases.shortened_count
                planner.plan(judged, cases, index)
                planner.plan_own(cases, index)
            past = read_past(ledger, judge)
            lists = ListPlanner(ledger, folder, judge, rubric.taxonomy)
            counted = {name: lists.count(each, ingested.shards) for name, each in listed.items()}
            parts = list(_add_lists(parts, counted, judge, past))
        tallies = {name: planner.tallies.get(name, {}) for name in (*(each.id for each in judged), CASE_CRITERIA)}
        parts, asked = [*_add_estimates(parts, tallies, judge, past)], asked_judges(tallies)
        of_lists = {index for found in counted.values() for index, each in found.items() if each.request_count}
        asked = tuple(sorted({*asked, *of_lists}))
    compared_by = {each.id: each for each in similarity_criteria(rubric)}
    if isinstance(embedder, EmbedderSettings) and compared_by:
        with _ledger(lake) as ledger:
            _hold_judgments(ledger, journaled_judgments(lake) if is_preview else None, is_anew=is_anew)
            vectors = VectorsPlanner(ledger, folder, embedder, read_compared_texts(lake, rubric, baseline))
            parts = list(_add_vectors(parts, vectors, compared_by, ingested.shards))
    if feedback:
        parts.append(_plan_feedback(judge, rubric, ingested))
    unmatched_count = kept_count(folder.ratings_file) or 0
    return RunPlan(tuple(parts), unmatched_count, own_count, asked, shortened_count)


def _read_cases(
    shard: str,
    index: int,
    folder: RunFolder,
    folders: tuple[Path, ...] | None,
    views: Collection[Sees],
    *,
    is_heard: bool,
) -> ShardCases:
    with_steps = any(sees != "answer" for sees in views)
    return read_shard(plan_cases(shard, index, folder, folders, is_heard=is_heard, with_steps=with_steps), views)


def _add_estimates(
    parts: Iterable[CriterionPlan], tallies: Mapping[str, Tallies], judge: Judge, past: Past
) -> Iterator[CriterionPlan]:
    """Plans of the criteria, in order. tallies: of the judged ones, by criterion."""
    begun: set[int] = set()  # judges with earlier requests about the outputs
    for part in parts:
        if part.criterion_id not in tallies:
            yield part
            continue
        of_criterion = tallies[part.criterion_id].items()
        estimated = [
            estimate_opinion(judge, opinion, part.criterion_id, tally, past, begun) for opinion, tally in of_criterion
        ]
        yield _sum_up(part.criterion_id, part.method, part.row_count, estimated)


def _add_lists(
    parts: Iterable[CriterionPlan], counted: Mapping[str, Mapping[int, ListCount]], judge: Judge, past: Past
) -> Iterator[CriterionPlan]:
    """Plans of the criteria, in order, with those judged by claims, steps or pairs."""
    for part in parts:
        found = counted.get(part.criterion_id)
        estimated = [
            OpinionEstimate(
                each.replayed_count,
                each.request_count,
                each.request_count,
                each.at_most_count,
                each.estimate(past.histories[index], member, part.criterion_id),
            )
            for index, each in (found or {}).items()
            if isinstance(member := members_of(judge)[index], JudgeSettings)
        ]
        yield _sum_up(part.criterion_id, part.method, part.row_count, estimated) if found else part


def _add_vectors(
    parts: Iterable[CriterionPlan],
    planner: VectorsPlanner,
    criteria: Mapping[str, Criterion],
    shards: Sequence[str],
) -> Iterator[CriterionPlan]:
    """Plans of the criteria, in order, with those of the method `similarity`."""
    for part in parts:
        if part.criterion_id not in criteria:
            yield part
            continue
        found = planner.count(criteria[part.criterion_id], shards)
        yield replace(
            part,
            replayed_count=found.replayed_count,
            request_count=found.request_count,
            prompt_tokens=found.estimate.prompt_tokens,
            cost_usd=found.estimate.cost_usd,
            cost_low_usd=found.estimate.cost_low_usd,
            cost_high_usd=found.estimate.cost_high_usd,
        )


def _sum_up(criterion_id: str, method: str, row_count: int, estimated: Sequence[OpinionEstimate]) -> CriterionPlan:
    """The plan of a criterion, all opinions on it together."""
    estimates = [one.estimate for one in estimated]
    return CriterionPlan(
        criterion_id,
        method,
        row_count,
        sum(one.replayed_count for one in estimated),
        sum(one.request_count for one in estimated),
        prompt_tokens=sum(each.prompt_tokens for each in estimates),
        completion_tokens=sum(each.completion_tokens for each in estimates),
        cost_usd=_added(each.cost_usd for each in estimates),
        cost_low_usd=_added(each.cost_low_usd for each in estimates),
        cost_high_usd=_added(each.cost_high_usd for each in estimates),
        cached_tokens=sum(each.cached_tokens for each in estimates),
        at_most_count=sum(one.at_most_count for one in estimated),
        open_count=sum(one.open_count for one in estimated),
    )


def _plan_feedback(judge: Judge | None, rubric: Rubric, ingested: Ingested) -> CriterionPlan:
    """Estimate what the texts will take, as if the ledger held none of them; recorded replies hold none, at no cost."""
    writer = writer_of(judge) if judge else None
    if not isinstance(writer, JudgeSettings):
        return CriterionPlan(FEEDBACK_CRITERION_ID, "judge", 0)
    request_count = ingested.output_count + len(ingested.models)
    verdict_bytes, group_bytes = usual_byte_counts(rubric.criteria)
    shown_bytes = sum(case_bytes(case) for shard in ingested.shards for _, case in read_cases(shard))
    prompt_bytes = ingested.output_count * verdict_bytes + shown_bytes + len(ingested.models) * group_bytes
    usage = Usage(round(prompt_bytes / BYTES_PER_TOKEN), completion_tokens=request_count * FEEDBACK_COMPLETION_TOKENS)
    return CriterionPlan(
        FEEDBACK_CRITERION_ID,
        "judge",
        request_count,
        request_count=request_count,
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        cost_usd=cost_usd(find_price(writer), usage, request_count),
    )


@contextmanager
def _ledger(lake: Lake) -> Iterator[duckdb.DuckDBPyConnection]:
    """The lake's judgments; none where there is no lake yet, as in the dry run of a first evaluation."""
    if lake_exists(lake):
        with connect(lake, read_only=True) as connection:
            yield connection
        return
    with open_database() as connection:
        connection.register("judgments", JUDGMENT_SCHEMA.empty_table())
        yield connection


def _hold_judgments(ledger: duckdb.DuckDBPyConnection, journaled: pa.Table | None, *, is_anew: bool) -> None:
    """Name the judgments that need not be asked for."""
    names = ", ".join(HELD_COLUMNS)
    ledger.register("journaled_judgments", HELD_SCHEMA.empty_table() if journaled is None else journaled)
    ledger.execute(
        f"create or replace temp view held_judgments as select {names} from (select {names} from judgments "
        f"union all by name from journaled_judgments) where {not is_anew}"
    )
