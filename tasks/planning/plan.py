"""The plan of a run: which judgments are not in the ledger yet, and what asking for them will cost."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import duckdb
import pyarrow as pa

from gradebook.rubrics.model.rubric import Criterion, Rubric
from gradebook.rubrics.model.verdicts import JUDGMENT_SCHEMA
from gradebook.tasks.datasets.case_criteria import OwnCount
from gradebook.tasks.datasets.ingest import Ingested
from gradebook.tasks.judging.settings.embedder import Embedder
from gradebook.tasks.judging.settings.judge import Judge
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect, lake_exists
from gradebook.tasks.lake.sql import open_database
from gradebook.tasks.ledger.ledger import HELD_COLUMNS, HELD_SCHEMA, journaled_judgments
from gradebook.tasks.planning.applying import applied_shard
from gradebook.tasks.planning.estimates import ListPlanner, OpinionEstimate, Past, read_past
from gradebook.tasks.workspace.folder import RunFolder


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
    cached_tokens: int = 0  # prompt tokens from the endpoint's prefix cache, at the judge's past rate
    at_most_count: int = 0  # requests that are sent only if the first judge of a cascade is unsure
    open_count: int = 0  # most judgments without a reply so far


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
    """Expected savings of a stopping rule. reason: why there are none; sd: of the differences, and its source.

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
    shortened_count: int = 0  # trajectories that judges see shortened
    stop: StopForecast | None = None  # in a dry run
    shown: str | None = None  # sentence of a dry run: the differences that the gate can detect with so many cases
    budget_note: str | None = None  # in a dry run: why the budget does not pay for all requests
    notes: tuple[str, ...] = ()  # in a dry run: sentences on its rows and judges

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
        return sum_costs(criterion.cost_usd for criterion in self.criteria)

    @property
    def cost_low_usd(self) -> float | None:
        """Sum of the criteria's low ends. Their errors partly cancel out, so the run's own range is narrower."""
        return sum_costs(c.cost_usd if c.cost_low_usd is None else c.cost_low_usd for c in self.criteria)

    @property
    def cost_high_usd(self) -> float | None:
        """Sum of the criteria's high ends."""
        return sum_costs(c.cost_usd if c.cost_high_usd is None else c.cost_high_usd for c in self.criteria)

    def as_json(self) -> dict[str, Any]:
        """Requests and costs, in all and by criterion, as plain JSON."""
        return {
            "request_count": self.request_count,
            "replayed_count": self.replayed_count,
            "cost_usd": self.cost_usd,
            "cost_low_usd": self.cost_low_usd,
            "cost_high_usd": self.cost_high_usd,
            "criteria": [asdict(criterion) for criterion in self.criteria],
        }


def sum_costs(costs: Iterable[float | None]) -> float | None:
    """Sum in US dollars; None if one is unknown."""
    cost_list = list(costs)
    return None if None in cost_list else sum(cost for cost in cost_list if cost is not None)


@dataclass(frozen=True, slots=True)
class MethodPlan:
    """Plan of the criteria of one method. estimates: of each vote, by criterion; without criteria that ask nothing.

    asked_judges: indexes of the judge's members with requests left to send. shortened_count: as of `RunPlan`.
    """

    estimates: Mapping[str, Sequence[OpinionEstimate]] = field(default_factory=dict)
    asked_judges: frozenset[int] = frozenset()
    shortened_count: int = 0


class JudgePlanning:
    """Judge of a plan, with its past replies, and the lists of questions to it."""

    def __init__(self, ledger: duckdb.DuckDBPyConnection, judge: Judge) -> None:
        self.judge = judge
        self.past: Past = read_past(ledger, judge)
        self.lists = ListPlanner(ledger, judge)


@dataclass(frozen=True)
class Planning:
    """Input of a method's plan: the run, its judge, and the ledger, which is opened if it is needed.

    folders: of the dataset's files, for images and sounds; None: their names are read as text. is_anew: plan as if the
    ledger were empty; estimates still use past replies. is_preview: judgments in the journals of killed runs count as
    stored; a run settles them first.
    """

    lake: Lake
    folder: RunFolder
    rubric: Rubric
    judge: Judge | None
    ingested: Ingested
    own_count: OwnCount
    folders: tuple[Path, ...] | None = None
    embedder: Embedder | None = None
    baseline: str | None = None
    is_anew: bool = False
    is_preview: bool = False
    _stack: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def shards_of(self, criterion: Criterion) -> list[str]:
        """Shards with the outputs that a criterion applies to."""
        return [applied_shard(self.folder, criterion, shard, index) for index, shard in enumerate(self.ingested.shards)]

    @cached_property
    def ledger(self) -> duckdb.DuckDBPyConnection:
        """Connection with the view held_judgments."""
        ledger = self._stack.enter_context(_ledger(self.lake))
        journaled = journaled_judgments(self.lake) if self.is_preview else None
        _create_held_view(ledger, journaled, is_anew=self.is_anew)
        return ledger

    @cached_property
    def asking(self) -> "JudgePlanning | None":
        """Judge of the plan with its past replies; None without a judge."""
        return None if self.judge is None else JudgePlanning(self.ledger, self.judge)


@contextmanager
def _ledger(lake: Lake) -> Iterator[duckdb.DuckDBPyConnection]:
    """Connection to the lake's judgments; empty if there is no lake yet, as in the dry run of a first evaluation."""
    if lake_exists(lake):
        with connect(lake, read_only=True) as connection:
            yield connection
        return
    with open_database() as connection:
        connection.register("judgments", JUDGMENT_SCHEMA.empty_table())
        connection.register(
            "runs", pa.table({"run_id": pa.array([], pa.string()), "settings": pa.array([], pa.string())})
        )
        yield connection


def _create_held_view(ledger: duckdb.DuckDBPyConnection, journaled: pa.Table | None, *, is_anew: bool) -> None:
    """Create the view held_judgments: judgments that need not be asked for."""
    names = ", ".join(HELD_COLUMNS)
    ledger.register("journaled_judgments", HELD_SCHEMA.empty_table() if journaled is None else journaled)
    ledger.execute(
        f"create or replace temp view held_judgments as select {names} from (select {names} from judgments "
        f"union all by name from journaled_judgments) where {not is_anew}"
    )
