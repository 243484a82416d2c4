"""Budget of a run's batches, with the same record as its online requests."""

import math
from contextlib import closing
from pathlib import Path
from typing import Self

from gradebook.tasks.judging.money.budget import BudgetRecord


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
