"""Budget of a run: no request or batch is sent that could exceed it, over all restarts of the run."""

import asyncio
import math
import os
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from types import UnionType
from typing import Any, Self

import orjson

from gradebook.rubrics.model.errors import BudgetReached, LakeError, UnfinishedError
from gradebook.rubrics.text.wording import price_words
from gradebook.tasks.system.files import GroupCommit, append_whole, sync_path

_ROUNDING = 1e-9  # relative error of sums of floats


class Budget:
    """Reservations made before a request is sent and settled when its reply is in. Used from one event loop.

    With a record, the spending and the open reservations of the run's earlier sessions count. planned_usd: estimated
    cost of this session from its start; None without an estimate.
    """

    def __init__(self, limit_usd: float | None, record: Path | None = None, planned_usd: float | None = None) -> None:
        self.limit_usd = limit_usd
        self._planned_usd = planned_usd
        self._record = None if record is None else BudgetRecord(record)
        self._spent_usd = self._earlier_usd = self._record.spent_usd if self._record else 0.0
        self._next_ticket = self._record.last_ticket if self._record else 0
        self._reserved: dict[int, float] = {}
        self._freed = asyncio.Event()
        self._broken: str | None = None  # why no further request may be sent

    @property
    def spent_usd(self) -> float:
        """Cost of the replies, plus the worst cost of requests without one."""
        return self._spent_usd

    async def reserve(self, worst_usd: float) -> int:
        """Reserve the worst cost of a request; returns the ticket for its settlement.

        Waits while requests in flight reserve the money. Raises `BudgetReached` if it does not fit although none is in
        flight, and after a request that cost more than it reserved.
        """
        while self._broken or not self._fits(worst_usd):
            if self._broken:
                raise BudgetReached(self._broken)
            if not self._reserved:
                raise BudgetReached(
                    f"budget: the next request could cost {price_words(worst_usd)}, {price_words(self._spent_usd)} of "
                    f"{price_words(self.limit_usd)} are spent or may have been billed; to go on, run the same command "
                    f"with {self._larger_budget(worst_usd)}"
                )
            await self._freed.wait()
        self._next_ticket += 1
        if self._record:
            self._record.reserve(self._next_ticket, worst_usd)
        self._reserved[self._next_ticket] = worst_usd
        return self._next_ticket

    def settle(self, ticket: int, cost_usd: float | None) -> None:
        """Replace a reservation by the request's cost; None: the worst cost, as it may have been billed."""
        worst_usd = self._reserved.pop(ticket)
        paid_usd = worst_usd if cost_usd is None else cost_usd
        self._spent_usd += paid_usd
        if self.limit_usd is not None and paid_usd > worst_usd * (1 + _ROUNDING):
            self._broken = (
                f"budget: a request that could cost at most {price_words(worst_usd)} came to {price_words(paid_usd)} "
                "by the token counts of its reply, so no budget can be enforced there; expected counts within the "
                "request and `max_tokens`: check the endpoint, `max_tokens` and `prices` of the judge"
            )
        if self._record:
            self._record.settle(ticket, paid_usd)
        self._freed.set()
        self._freed = asyncio.Event()

    def settle_earlier(self, ticket: int, cost_usd: float) -> None:
        """Replace the worst cost of a request that an earlier, killed session reserved, if what it cost is less."""
        if self._record is None:
            return
        worst_usd = self._record.earlier_usd.pop(ticket, 0.0)
        if cost_usd < worst_usd:
            self._spent_usd -= worst_usd - cost_usd
            self._earlier_usd -= worst_usd - cost_usd
            self._record.settle(ticket, cost_usd)

    def close(self) -> None:
        if self._record:
            self._record.close()

    def _larger_budget(self, worst_usd: float) -> str:
        """Budget sufficient for the rest as planned plus the last request; two digits, rounded up."""
        if self._planned_usd is None:
            return "a larger --budget-usd"
        needed_usd = Decimal(max(self._earlier_usd + self._planned_usd, self._spent_usd) + worst_usd)
        step = Decimal(10) ** (needed_usd.adjusted() - 1)
        return f"--budget-usd {math.ceil(needed_usd / step) * step:f}"

    def _fits(self, worst_usd: float) -> bool:
        if self.limit_usd is None:
            return True
        return math.fsum((self._spent_usd, worst_usd, *self._reserved.values())) <= self.limit_usd


class BudgetRecord:
    """Append-only file of reservations and settlements, one JSON line each. One process writes it at a time.

    Lines are on disk at most 50 ms late.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fault: str | None = None
        costs_usd: dict[int, float] = {}
        if path.exists():
            costs_usd = read_budget(path)
            _cut_torn_line(path)
        self.earlier_usd = costs_usd  # of earlier sessions, by ticket
        self.spent_usd = math.fsum(costs_usd.values())
        self.last_ticket = max(costs_usd, default=0)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: int | None = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._disk = GroupCommit(self._file)
        sync_path(path.parent)

    def reserve(self, ticket: int, worst_usd: float) -> None:
        """Record the worst cost of a request before it is sent. Raises `UnfinishedError` if that fails."""
        self._append({"ticket": ticket, "worst_usd": worst_usd})
        if self._fault is not None:
            raise UnfinishedError(f"{self._path}: the record of the budget can't be written: {self._fault}")

    def settle(self, ticket: int, cost_usd: float) -> None:
        """Record the cost of a request; if that fails, it counts at its worst cost."""
        self._append({"ticket": ticket, "cost_usd": cost_usd})

    def close(self) -> None:
        if self._file is not None:
            self._disk.close()
            os.close(self._file)
            self._file = None

    def _append(self, note: dict[str, Any]) -> None:
        """Write a line in one call; nothing may follow a partial line."""
        if self._fault is not None:
            return
        self._fault = append_whole(self._file, orjson.dumps(note, option=orjson.OPT_APPEND_NEWLINE))
        self._disk.note()
        self._fault = self._fault or self._disk.fault


def read_budget(path: Path) -> dict[int, float]:
    """Cost of each ticket in a record, the worst cost if not settled. A torn last line is left out.

    The torn line can be ignored: its request was never sent, or counts at its worst cost. Raises `LakeError`.
    """
    *lines, _torn = path.read_bytes().split(b"\n")
    costs_usd: dict[int, float] = {}
    for number, line in enumerate(lines, start=1):
        try:
            note = orjson.loads(line)
            ticket, usd = note["ticket"], note["cost_usd"] if "cost_usd" in note else note["worst_usd"]
        except (orjson.JSONDecodeError, LookupError, TypeError):
            ticket = usd = None
        if not (_is_number(ticket, int) and ticket > 0 and _is_number(usd, int | float) and 0 <= usd < math.inf):
            raise LakeError(f"{path}:{number}", "no line of a budget", "a ticket and its cost in USD, 0 or more")
        costs_usd[ticket] = float(usd)
    return costs_usd


def _is_number(value: object, kind: type | UnionType) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


def _cut_torn_line(path: Path) -> None:
    content = path.read_bytes()
    whole_length = content.rfind(b"\n") + 1
    if whole_length < len(content):
        os.truncate(path, whole_length)


class BatchBudget:
    """Reservations for whole batches. record: None if no price is known and nothing is counted."""

    def __init__(self, limit_usd: float | None, record: Path | None) -> None:
        self._limit_usd = limit_usd
        self._path = record
        self._record = None if record is None else BudgetRecord(record)
        self._last_ticket = self._record.last_ticket if self._record else 0

    @property
    def left_usd(self) -> float:
        """Amount that may still be reserved; infinite without a limit."""
        if self._limit_usd is None or self._path is None:
            return math.inf
        with closing(BudgetRecord(self._path)) as written:  # repeated settlements count once
            return self._limit_usd - written.spent_usd

    @property
    def next_ticket(self) -> int | None:
        """Ticket of the next reservation; None if nothing is counted."""
        return self._last_ticket + 1 if self._record else None

    def reserve(self, ticket: int | None, worst_usd: float) -> None:
        """Reserve an amount under `next_ticket`; older tickets are already reserved."""
        if self._record is None or ticket is None or ticket <= self._last_ticket:
            return
        self._record.reserve(ticket, worst_usd)
        self._last_ticket = ticket

    def settle(self, ticket: int | None, cost_usd: float) -> None:
        """Record the cost of a reservation; the last entry of a ticket counts."""
        if self._record is not None and ticket is not None:
            self._record.settle(ticket, cost_usd)

    def close(self) -> None:
        if self._record is not None:
            self._record.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
