"""The budget of a run: nothing is sent that could pass it, however often the run is started again."""

import asyncio
import math
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson

from gradebook.rubrics.model.errors import BudgetReached, LakeError, UnfinishedError
from gradebook.tasks.system.files import append_whole


class Budget:
    """Money set aside before a request is sent and settled when its reply is in. Used from one event loop.

    With a record, what earlier sessions of the run spent counts, and so does what they had set aside when they died.
    planned_usd: what this session is thought to need, from its start; None where nobody estimated it.
    """

    def __init__(self, limit_usd: float | None, record: Path | None = None, planned_usd: float | None = None) -> None:
        self.limit_usd = limit_usd
        self._planned_usd = planned_usd
        self._record = None if record is None else BudgetRecord(record)
        self._spent_usd = self._earlier_usd = self._record.spent_usd if self._record else 0.0
        self._next_ticket = self._record.last_ticket if self._record else 0
        self._reserved: dict[int, float] = {}
        self._freed = asyncio.Event()

    @property
    def spent_usd(self) -> float:
        """What replies cost, and what requests without one could have cost."""
        return self._spent_usd

    async def reserve(self, worst_usd: float) -> int:
        """Set the worst case of a request aside and return the ticket to settle it with.

        Waits while requests in flight hold what is needed. Raises `BudgetReached` when none is in flight and it still
        does not fit.
        """
        while not self._fits(worst_usd):
            if not self._reserved:
                raise BudgetReached(
                    f"budget: the next request could cost {worst_usd:.6f} USD, {self._spent_usd:.6f} of "
                    f"{self.limit_usd:.6f} USD are spent; to go on, run the same command with "
                    f"{self._larger_budget(worst_usd)}"
                )
            await self._freed.wait()
        self._next_ticket += 1
        if self._record:
            self._record.reserve(self._next_ticket, worst_usd)
        self._reserved[self._next_ticket] = worst_usd
        return self._next_ticket

    def settle(self, ticket: int, cost_usd: float | None) -> None:
        """Give a reservation back and count what the request cost; None: its worst case, as it may have been billed."""
        worst_usd = self._reserved.pop(ticket)
        paid_usd = worst_usd if cost_usd is None else cost_usd
        self._spent_usd += paid_usd
        if self._record:
            self._record.settle(ticket, paid_usd)
        self._freed.set()
        self._freed = asyncio.Event()

    def close(self) -> None:
        """Let go of the record."""
        if self._record:
            self._record.close()

    def _larger_budget(self, worst_usd: float) -> str:
        """A budget that the rest should fit in: as planned, with room for the last request; two digits, rounded up."""
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
    """An append-only file of reservations and settlements, a JSON line each. One process writes it at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fault: str | None = None
        costs_usd: dict[int, float] = {}
        if path.exists():
            costs_usd = read_budget(path)
            _cut_torn_line(path)
        self.spent_usd = math.fsum(costs_usd.values())
        self.last_ticket = max(costs_usd, default=0)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: int | None = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def reserve(self, ticket: int, worst_usd: float) -> None:
        """Note the most that a request can cost, before it is sent. Raises `UnfinishedError` where that fails."""
        self._append({"ticket": ticket, "worst_usd": worst_usd})
        if self._fault is not None:
            raise UnfinishedError(f"{self._path}: the record of the budget can't be written: {self._fault}")

    def settle(self, ticket: int, cost_usd: float) -> None:
        """Note what the request cost; where that can't be written it counts at its worst case."""
        self._append({"ticket": ticket, "cost_usd": cost_usd})

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _append(self, note: dict[str, Any]) -> None:
        """Write a line in one call; after half a line nothing may follow."""
        if self._fault is not None:
            return
        self._fault = append_whole(self._file, orjson.dumps(note, option=orjson.OPT_APPEND_NEWLINE))


def read_budget(path: Path) -> dict[int, float]:
    """What each ticket of a record cost, its worst case where it was not settled. A torn last line is left out.

    Nothing hangs on that line: its request was never sent, or counts at its worst case. Raises `LakeError`.
    """
    *lines, _torn = path.read_bytes().split(b"\n")
    costs_usd: dict[int, float] = {}
    for number, line in enumerate(lines, start=1):
        try:
            note = orjson.loads(line)
            costs_usd[note["ticket"]] = float(note["cost_usd"] if "cost_usd" in note else note["worst_usd"])
        except (orjson.JSONDecodeError, LookupError, TypeError, ValueError):
            raise LakeError(f"{path}:{number}", "no line of a budget", "one") from None
    return costs_usd


def _cut_torn_line(path: Path) -> None:
    content = path.read_bytes()
    whole_length = content.rfind(b"\n") + 1
    if whole_length < len(content):
        os.truncate(path, whole_length)
