"""The plan: which judgments are not in the ledger yet, and what asking for them will cost."""

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
    """What one criterion will take. The dollars: None where the price is unknown.

    request_count: over all judges and opinions; that of several criteria counts at the first of them, and its tokens at
    each in equal shares. Tokens and dollars count those of at_most_count at the share that was sent in the past, all of
    them where that is unknown. cost_low_usd, cost_high_usd: 80% of such sums lie between, see
    `estimate_questions`; None: no range is known.
    """

    criterion_id: str
    method: str
    row_count: int
    replayed_count: int = 0  # held, and sure to be needed
    request_count: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = 0.0
    cost_low_usd: float | None = None
    cost_high_usd: float | None = None
    cached_tokens: int = 0  # of the prompt tokens, as the endpoint's prefix cache served the judge before
    at_most_count: int = 0  # of the requests: sent only where the first judge of a cascade is unsure
    open_count: int = 0  # judgments that no reply answers yet, at most


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What the run will take, criterion by criterion, in the order of the rubric."""

    criteria: tuple[CriterionPlan, ...]
    unmatched_rating_count: int = 0  # ratings of the file that fit no output
    own_count: OwnCount = field(default_factory=OwnCount)  # criteria that rows bring along
    asked_judges: tuple[int, ...] = ()  # the members of the judge that something is left to ask of

    @property
    def request_count(self) -> int:
        """Requests to send."""
        return sum(criterion.request_count for criterion in self.criteria)

    @property
    def at_most_count(self) -> int:
        """Those of them that are sent only where the first judge of a cascade is unsure."""
        return sum(criterion.at_most_count for criterion in self.criteria)

    @property
    def replayed_count(self) -> int:
        """Judgments that are held already, and sure to be needed."""
        return sum(criterion.replayed_count for criterion in self.criteria)

    @property
    def open_count(self) -> int:
        """Judgments that no reply answers yet: more than requests, where one asks for several."""
        return sum(criterion.open_count for criterion in self.criteria)

    @property
    def cost_usd(self) -> float | None:
        """Estimated dollars of the requests; None where a price is unknown."""
        return _added(criterion.cost_usd for criterion in self.criteria)

    @property
    def cost_low_usd(self) -> float | None:
        """The low ends of the criteria added up. Their misses partly cancel out, so the run's own range is narrower."""
        return _added(c.cost_usd if c.cost_low_usd is None else c.cost_low_usd for c in self.criteria)

    @property
    def cost_high_usd(self) -> float | None:
        """The high ends of the criteria added up."""
        return _added(c.cost_usd if c.cost_high_usd is None else c.cost_high_usd for c in self.criteria)


def _added(costs: Iterable[float | None]) -> float | None:
    known = list(costs)
    return None if None in known else sum(cost for cost in known if cost is not None)


_Part = tuple[str, str, int, Tallies | None]  # a criterion's id, method and rows; no tallies where nobody is asked


def plan_run(  # noqa: PLR0913 - what is planned, for whom, and what it may look at
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
    """Write a plan file for each judged criterion and shard; add up what is left to ask.

    is_anew: plan as if nothing had been judged yet; the past still tells what a question takes. is_preview: what killed
    runs left in their journals counts as held; a run takes it into the ledger first. folders: those of the dataset's
    files, where pictures and sounds lie; None: whatever names one is taken for text.

    A plan file has a row a wanted opinion: output_id, criterion_id, request_key, judge_index (among the judge's
    members), replicate, is_swapped; then what the ledger holds for the key: status, level_id, distribution,
    evidence, rationale, cost_usd, paid_by (a run_id); null where it is still to be made.
    """
    judged = rubric.judged_criteria
    own_count = sum(pq.read_metadata(file).num_rows for file in case_criteria_files(folder))
    unjudged = tuple(CriterionPlan(c.id, c.method.type, row_count) for c in rubric.criteria)
    if judge is None or not (judged or own_count):
        return RunPlan((*unjudged, CriterionPlan(CASE_CRITERIA, "", own_count)) if own_count else unjudged)
    with _ledger(lake) as ledger:
        _hold_judgments(ledger, journaled_judgments(lake) if is_preview else None, is_anew=is_anew)
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
    """The plan of each criterion, in their order."""
    begun: set[int] = set()  # the judges that were asked something about the outputs before
    for criterion_id, method, row_count, tallies in parts:
        if tallies is None:
            yield CriterionPlan(criterion_id, method, row_count)
            continue
        estimated = [
            estimate_opinion(judge, opinion, criterion_id, tally, past, begun) for opinion, tally in tallies.items()
        ]
        yield _sum_up(criterion_id, method, row_count, estimated)


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


def count_case_bytes(shard: str) -> int:
    """Bytes of the cases of a shard and of their outputs, as a judge is shown them."""
    return sum(case_bytes(case) for _, case in read_cases(shard))


@contextmanager
def _ledger(lake: Lake) -> Iterator[duckdb.DuckDBPyConnection]:
    """The lake's judgments; none where there is no lake yet, as in the dry run of a first evaluation."""
    if lake_exists(lake):
        with connect(lake, read_only=True) as connection:
            yield connection
        return
    with duckdb.connect() as connection:
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
