"""Cost of judging, from the ledger: billed and saved, in total and by criterion, judge, day and stage."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import duckdb

from gradebook.rubrics.model.errors import LakeError
from gradebook.rubrics.text.wording import counted, price_words
from gradebook.tasks.judging.budget import read_budget
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect_up_to_date
from gradebook.tasks.lake.rows import Row, make_table, read_run
from gradebook.tasks.lake.sql import query
from gradebook.tasks.workspace.folder import RunFolder

Part = Literal["criterion", "judge", "day", "stage"]
_ROUNDING_USD = 1e-9
_SHARED = "select count(request_key) - count(distinct request_key) from verdicts where run_id = ?"
PARTS: tuple[Part, ...] = ("criterion", "judge", "day", "stage")


@dataclass(frozen=True, slots=True)
class CostSum:
    """Cost of some judgments. Dollars are the known part, None if none is known; the counts give the unknown part.

    unpriced: price unknown, tokens counted. uncounted: the endpoint did not report the tokens.
    """

    part: str | None  # criterion, judge, day or stage; None: all
    judgment_count: int = 0
    request_count: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    written_tokens: int = 0  # to the endpoint's cache, part of prompt_tokens
    reasoning_tokens: int = 0  # part of completion_tokens
    billed_usd: float | None = 0.0
    unpriced_count: int = 0
    uncounted_count: int = 0
    replayed_count: int = 0
    saved_usd: float | None = 0.0
    unpriced_replayed_count: int = 0


@dataclass(frozen=True, slots=True)
class Spending:
    """Costs of a run, or of a lake since a time.

    possible_usd: maximum additional cost of requests without a counted reply; None if unknown. fault: of the budget
    record. shared_count: verdicts of the run whose judgment another verdict of the run uses too.
    """

    run_id: str | None
    since: datetime | None
    total: CostSum
    parts: Mapping[Part, tuple[CostSum, ...]]
    possible_usd: float | None = None
    journal_count: int = 0  # journals not settled yet
    fault: str | None = None
    shared_count: int = 0

    @property
    def notes(self) -> Iterator[str]:
        """Sentences about what the sums leave out."""
        total = self.total
        if self.shared_count and (total.judgment_count or total.replayed_count):
            shared = counted(self.shared_count, "verdict shares", "verdicts share")
            yield f"{shared} a judgment with others: an equal prompt is asked and billed once"
        if total.unpriced_count:
            yield f"price unknown for {counted(total.unpriced_count, 'judgment')}: tokens are counted"
        if total.uncounted_count:
            uncounted = counted(total.uncounted_count, "judgment")
            yield f"cost unknown of {uncounted}: the endpoint reported no tokens, or too few"
        if total.unpriced_replayed_count:
            replayed = counted(total.unpriced_replayed_count, "replayed judgment")
            yield f"price unknown for {replayed}: not in what is saved"
        if self.possible_usd:
            yield f"requests without a counted reply may have cost {price_words(self.possible_usd)} more, at most"
        if self.fault:
            yield f"what requests without a counted reply may have cost is unknown: {self.fault}"
        if self.journal_count:
            yield f"{counted(self.journal_count, 'journal')} of replies not counted yet: the next run counts them"

    def as_json(self) -> Row:
        return {
            "run_id": self.run_id,
            "since": self.since,
            "total": _cells(self.total, "all"),
            "by": {part: [_cells(cost_sum, part) for cost_sum in sums] for part, sums in self.parts.items()},
            "possible_usd": self.possible_usd,
            "notes": list(self.notes),
        }


def read_spending(
    lake: Lake, run_id: str | None = None, since: datetime | None = None, parts: tuple[Part, ...] = PARTS
) -> Spending:
    """Sum up the cost of a run, or of all requests since a time. Raises `InputError` for an unknown run."""
    with connect_up_to_date(lake) as connection:
        if run_id is not None:
            read_run(connection, lake, run_id)
        return sum_spending(connection, lake, run_id, since, parts)


def sum_spending(
    connection: duckdb.DuckDBPyConnection,
    lake: Lake,
    run_id: str | None = None,
    since: datetime | None = None,
    parts: tuple[Part, ...] = PARTS,
) -> Spending:
    """Sum up over an open connection, and leave the table `cost_lines`; otherwise as `read_spending`."""
    make_table(connection, "ledger/cost_lines", run_id=run_id, since=since)
    sums = {part: _sums(connection, part) for part in parts}
    total = next(iter(_sums(connection, None)), CostSum(None))
    journal_count = sum(1 for _ in lake.journal_folder.glob("*.jsonl"))
    possible_usd = fault = None
    try:
        possible_usd = None if run_id is None or journal_count else _possible_usd(lake, run_id, total)
    except LakeError as error:
        fault = str(error)
    ((shared_count,),) = connection.execute(_SHARED, [run_id]).fetchall() if run_id else ((0,),)
    return Spending(run_id, since, total, sums, possible_usd, journal_count, fault, shared_count)


def _sums(connection: duckdb.DuckDBPyConnection, part: Part | None) -> tuple[CostSum, ...]:
    return tuple(CostSum(*row) for row in connection.execute(query("ledger/cost_sums"), {"part": part}).fetchall())


def _possible_usd(lake: Lake, run_id: str, total: CostSum) -> float | None:
    """Budget spent beyond the ledger: requests without a reply, or with a reply without usage."""
    record: Path = RunFolder.below(lake.root, run_id).path / "budget.jsonl"
    if not record.exists():
        return None
    possible_usd = math.fsum((*read_budget(record).values(), -(total.billed_usd or 0.0)))
    return possible_usd if possible_usd > _ROUNDING_USD else 0.0


def _cells(costs: CostSum, part: str) -> dict[str, Any]:
    cells = asdict(costs)
    name = cells.pop("part")
    return cells if part == "all" else {part: name} | cells
