"""The budget of a run: nothing is sent that could pass it."""

import asyncio
import math

from rubrics.errors import BudgetReached


class Budget:
    """Money set aside before a request is sent and settled when its reply is in. Used from one event loop."""

    def __init__(self, limit_usd: float | None) -> None:
        self.limit_usd = limit_usd
        self._spent_usd = 0.0
        self._reserved: dict[int, float] = {}
        self._next_ticket = 0
        self._freed = asyncio.Event()

    @property
    def spent_usd(self) -> float:
        """What replies cost, and what timed-out requests could have cost."""
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
                    f"{self.limit_usd:.6f} USD are spent; run the same command with a larger budget to go on"
                )
            await self._freed.wait()
        self._next_ticket += 1
        self._reserved[self._next_ticket] = worst_usd
        return self._next_ticket

    def settle(self, ticket: int, cost_usd: float | None) -> None:
        """Give a reservation back and count what the request cost; None: its worst case, as it may have been billed."""
        worst_usd = self._reserved.pop(ticket)
        self._spent_usd += worst_usd if cost_usd is None else cost_usd
        self._freed.set()
        self._freed = asyncio.Event()

    def _fits(self, worst_usd: float) -> bool:
        if self.limit_usd is None:
            return True
        return math.fsum((self._spent_usd, worst_usd, *self._reserved.values())) <= self.limit_usd
