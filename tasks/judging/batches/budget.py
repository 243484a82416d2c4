"""The budget of a run's batches: the same record that its requests online are held by."""

import math
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Self

from gradebook.tasks.judging.money.budget import BudgetRecord


class BatchMoney:
    """Money set aside for whole batches. record: None where no price is known, and there is nothing to count."""

    def __init__(self, limit_usd: float | None, record: Path | None) -> None:
        self._limit_usd = limit_usd
        self._path = record
        self._record = None if record is None else BudgetRecord(record)
        self._last_ticket = self._record.last_ticket if self._record else 0

    @property
    def left_usd(self) -> float:
        """What may still be set aside; infinite where there is no limit."""
        if self._limit_usd is None or self._path is None:
            return math.inf
        with closing(BudgetRecord(self._path)) as written:  # what was settled more than once counts once
            return self._limit_usd - written.spent_usd

    @property
    def next_ticket(self) -> int | None:
        """The ticket of the next reservation; None where nothing is counted."""
        return self._last_ticket + 1 if self._record else None

    def reserve(self, ticket: int | None, worst_usd: float) -> None:
        """Set money aside under `next_ticket`; an older ticket has its money already."""
        if self._record is None or ticket is None or ticket <= self._last_ticket:
            return
        self._record.reserve(ticket, worst_usd)
        self._last_ticket = ticket

    def settle(self, ticket: int | None, cost_usd: float) -> None:
        """Note what came of a reservation; the last note of a ticket counts."""
        if self._record is not None and ticket is not None:
            self._record.settle(ticket, cost_usd)

    def close(self) -> None:
        """Let go of the record."""
        if self._record is not None:
            self._record.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
