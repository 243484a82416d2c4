"""Plan of a run: the judgments not in the ledger yet, and their estimated cost."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from gradebook.rubrics.model.judgments import JUDGMENT_SCHEMA
from gradebook.rubrics.model.rubric import Rubric
from gradebook.tasks.datasets.case_criteria import CASE_CRITERIA, OwnCount, case_criteria_files
from gradebook.tasks.judging.settings.panels import Judge
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect, lake_exists
from gradebook.tasks.ledger.ledger import HELD_COLUMNS, HELD_SCHEMA, journaled_judgments
from gradebook.tasks.planning.cases import plan_cases, read_cases
from gradebook.tasks.planning.opinion_estimates import OpinionEstimate, Past, asked_judges, estimate_opinion, read_past
from gradebook.tasks.planning.request_counts import Tallies
from gradebook.tasks.planning.shard_plan import ShardPlanner, case_bytes, read_shard
from gradebook.tasks.workspace.folder import RunFolder


@dataclass(frozen=True, slots=True)
class CriterionPlan:
    """Estimate for one criterion. Dollars are None if the price is unknown.

    request_count: over all judges and votes; a request of batched criteria counts at the first of them, its tokens at
    each in equal shares. Tokens and dollars include the requests of at_most_count at the share sent in the past, or all
    of them if that is unknown. cost_low_usd, cost_high_usd: range of 80% of such sums, see `estimate_questions`; None:
    no range is known.
    """

    criterion_id: str
    method: str
    row_count: int
    replayed_count: int = 0  # in the ledger, and certainly needed
    request_count: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = 0.0
    cost_low_usd: float | None = None
    cost_high_usd: float | None = None
    cached_tokens: int = 0  # of the prompt tokens, at the judge's past cache rate
    at_most_count: int = 0  # requests sent only if the first judge of a cascade is unsure
    open_count: int = 0  # maximum number of judgments without a reply


@dataclass(frozen=True, slots=True)
class RunPlan:
    """Estimate for the run, criterion by criterion, in the order of the rubric."""

    criteria: tuple[CriterionPlan, ...]
    unmatched_rating_count: int = 0  # ratings that match no output
    own_count: OwnCount = field(default_factory=OwnCount)  # per-case criteria
    asked_judges: tuple[int, ...] = ()  # indices of the judge's members with open questions

    @property
    def request_count(self) -> int:
        return sum(criterion.request_count for criterion in self.criteria)

    @property
    def at_most_count(self) -> int:
        """Requests sent only if the first judge of a cascade is unsure."""
        return sum(criterion.at_most_count for criterion in self.criteria)

    @property
    def replayed_count(self) -> int:
        """Judgments in the ledger that are certainly needed."""
        return sum(criterion.replayed_count for criterion in self.criteria)

    @property
    def open_count(self) -> int:
        """Judgments without a reply; more than the requests if criteria are batched."""
        return sum(criterion.open_count for criterion in self.criteria)

    @property
    def cost_usd(self) -> float | None:
        """Estimated dollars of the requests; None if a price is unknown."""
        return _added(criterion.cost_usd for criterion in self.criteria)

    @property
    def cost_low_usd(self) -> float | None:
        """Sum of the criteria's low ends. Deviations partly cancel out, so the run's own range is narrower."""
        return _added(c.cost_usd if c.cost_low_usd is None else c.cost_low_usd for c in self.criteria)

    @property
    def cost_high_usd(self) -> float | None:
        """Sum of the criteria's high ends."""
        return _added(c.cost_usd if c.cost_high_usd is None else c.cost_high_usd for c in self.criteria)


def _added(costs: Iterable[float | None]) -> float | None:
    known = list(costs)
    return None if None in known else sum(cost for cost in known if cost is not None)


_Part = tuple[str, str, int, Tallies | None]  # criterion id, method, rows; tallies: None if no judge is asked


def plan_run(  # noqa: PLR0913 - run, judge, shards and options
    lake: Lake,
    folder: RunFolder,
    rubric: Rubric,
    judge: Judge | None,
    shards: tuple[str, ...],
    row_count: int,
    *,
    is_anew: bool = False,
    is_preview: bool = False,
    folders: tuple[Path, ...] | None = None,
) -> RunPlan:
    """Write a plan file for each judged criterion and shard; sum up the open requests.

    is_anew: plan as if nothing had been judged yet; past replies still inform the estimates. is_preview: count replies
    in the journals of killed runs as present; a run settles them first. folders: of the dataset's files, for images and
    sounds; None: references to them are treated as text.

    A plan file has one row per wanted vote: output_id, criterion_id, request_key, judge_index (among the judge's
    members), replicate, is_swapped; then the ledger's values for the key: status, level_id, distribution, evidence,
    rationale, cost_usd, paid_by (a run_id); null if still to be judged.
    """
    judged = rubric.judged_criteria
    own_count = sum(pq.read_metadata(file).num_rows for file in case_criteria_files(folder))
    unjudged = tuple(CriterionPlan(c.id, c.method.type, row_count) for c in rubric.criteria)
    if judge is None or not (judged or own_count):
        return RunPlan((*unjudged, CriterionPlan(CASE_CRITERIA, "", own_count)) if own_count else unjudged)
    with _ledger(lake) as ledger:
        _create_judgments_view(ledger, journaled_judgments(lake) if is_preview else None, is_anew=is_anew)
        planner = ShardPlanner(ledger, folder, judge)
        for index, shard in enumerate(shards):
            cases = read_shard(plan_cases(shard, index, folder, folders))
            planner.plan(judged, cases, index)
            planner.plan_own(cases, index)
        past = read_past(ledger, judge)
    of_rubric = {criterion.id: planner.tallies.get(criterion.id, {}) for criterion in judged}
    parts: list[_Part] = [(c.id, c.method.type, row_count, of_rubric.get(c.id)) for c in rubric.criteria]
    if own_count:
        parts.append((CASE_CRITERIA, "", own_count, planner.tallies.get(CASE_CRITERIA, {})))
    return RunPlan(tuple(_plan_parts(parts, judge, past)), asked_judges=asked_judges(planner.tallies))


def _plan_parts(parts: Iterable[_Part], judge: Judge, past: Past) -> Iterator[CriterionPlan]:
    """Plan of each criterion, in order."""
    begun: set[int] = set()  # judges with earlier questions about the outputs
    for criterion_id, method, row_count, tallies in parts:
        if tallies is None:
            yield CriterionPlan(criterion_id, method, row_count)
            continue
        estimated = [
            estimate_opinion(judge, opinion, criterion_id, tally, past, begun) for opinion, tally in tallies.items()
        ]
        yield _sum_up(criterion_id, method, row_count, estimated)


def _sum_up(criterion_id: str, method: str, row_count: int, estimated: Sequence[OpinionEstimate]) -> CriterionPlan:
    """Plan of a criterion, summed over all votes on it."""
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


def count_case_bytes(shard: str) -> int:
    """Bytes of a shard's cases, as shown to a judge."""
    return sum(case_bytes(case) for _, case in read_cases(shard))


@contextmanager
def _ledger(lake: Lake) -> Iterator[duckdb.DuckDBPyConnection]:
    """Connection to the lake's judgments; empty if there is no lake yet, as in the dry run of a first evaluation."""
    if lake_exists(lake):
        with connect(lake, read_only=True) as connection:
            yield connection
        return
    with duckdb.connect() as connection:
        connection.register("judgments", JUDGMENT_SCHEMA.empty_table())
        yield connection


def _create_judgments_view(ledger: duckdb.DuckDBPyConnection, journaled: pa.Table | None, *, is_anew: bool) -> None:
    """Create the view of judgments that need not be asked for."""
    names = ", ".join(HELD_COLUMNS)
    ledger.register("journaled_judgments", HELD_SCHEMA.empty_table() if journaled is None else journaled)
    ledger.execute(
        f"create or replace temp view held_judgments as select {names} from (select {names} from judgments "
        f"union all by name from journaled_judgments) where {not is_anew}"
    )
