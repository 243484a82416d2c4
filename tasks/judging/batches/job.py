"""What a run's batches are worked on with: the job, its record, money and endpoint, and patience."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from gradebook.rubrics.model.errors import EndpointUnavailable
from gradebook.tasks.judging.batches.budget import BatchMoney
from gradebook.tasks.judging.batches.endpoint import BatchEndpoint, NoAnswer
from gradebook.tasks.judging.batches.files import Limits
from gradebook.tasks.judging.batches.state import BatchRecord, Intent
from gradebook.tasks.judging.money.prices import Price
from gradebook.tasks.judging.replies.question import Askable
from gradebook.tasks.judging.settings.judge import JudgeSettings

PATIENCE_FACTOR = 20  # a batch takes hours, so an outage may take longer than one that holds up requests online

Returned = TypeVar("Returned")


@dataclass(frozen=True, slots=True)
class Pace:
    """How long to wait for what, in seconds."""

    first_poll_s: float = 5.0
    most_poll_s: float = 60.0
    window_s: float = 25 * 3600.0  # the endpoint promises 24 h
    margin_s: float = 600.0  # at least so long before the deadline the batches are given up
    margin_rate: float = 0.1  # or this share of the time that there was
    cancel_s: float = 1200.0  # an endpoint takes up to 10 minutes; a deadline comes first


@dataclass(frozen=True, slots=True)
class BatchJob:
    """What is asked for whom, and where it is kept. questions_of: the open questions of the shard of an index.

    planned_questions_of: with those that the ledger answers by now: a reply to one of them is paid for all the same.
    is_submitting: False where the run asks online now, and only older batches are to be brought to their end.
    """

    settings: JudgeSettings
    price: Price | None
    run_id: str
    folder: Path
    journal_folder: Path
    budget_record: Path
    budget_usd: float | None
    questions_of: Callable[[int], Iterator[Askable[Any]]]
    shard_count: int
    deadline: datetime | None = None
    is_submitting: bool = True
    pace: Pace = field(default_factory=Pace)
    limits: Limits = field(default_factory=Limits)
    planned_questions_of: Callable[[int], Iterator[Askable[Any]]] | None = None  # None: as questions_of


class Patience:
    """How long an endpoint may not answer: not beyond the deadline."""

    def __init__(self, settings: JudgeSettings, wait_s: float, deadline: datetime | None = None) -> None:
        self._base_url = settings.base_url
        self._deadline = deadline
        self._limit_s = settings.patience_s * PATIENCE_FACTOR
        self._wait_s = wait_s
        self._answered_at = time.monotonic()

    def renew(self) -> None:
        """It answered."""
        self._answered_at = time.monotonic()

    def lose(self, reason: str) -> None:
        """It did not. Raises `EndpointUnavailable` where that has lasted too long, or until the deadline."""
        for_how_long = None
        if self._deadline is not None and datetime.now(UTC) >= self._deadline:
            for_how_long = "until the deadline"
        elif time.monotonic() - self._answered_at >= self._limit_s:
            for_how_long = f"for {self._limit_s:g} s"
        if for_how_long is not None:
            raise EndpointUnavailable(
                f"{self._base_url}: asked for batches, it gave no answer {for_how_long}, at last: {reason}; "
                "the same command goes on"
            )

    def insist(self, ask: Callable[[], Returned], until: datetime | None = None) -> Returned:
        """Ask until there is an answer. Raises `NoAnswer` where there is none by some time that is given."""
        self.renew()
        while True:
            try:
                return ask()
            except NoAnswer as fault:
                self.lose(str(fault))
                if until is not None and datetime.now(UTC) >= until:
                    raise
                time.sleep(self._wait_s)


@dataclass(frozen=True, slots=True)
class BatchDesk:
    """All that is needed to work on the batches of one run."""

    job: BatchJob
    record: BatchRecord
    money: BatchMoney
    endpoint: BatchEndpoint
    patience: Patience

    @property
    def last_sending(self) -> datetime | None:
        """Until when a batch that is begun could come to something before the deadline; None where there is none."""
        deadline = self.job.deadline
        return None if deadline is None else deadline - timedelta(seconds=2 * self.job.pace.margin_s)

    def end(
        self,
        intent: Intent,
        ending: str,
        cost_usd: float | None = None,
        *,
        reason: str | None = None,
        reply_count: int = 0,
        remote_files: tuple[str, ...] = (),
    ) -> None:
        """Note that no more will come of an intent. cost_usd: None where the most that it could cost has to count."""
        if cost_usd is not None:
            self.money.settle(intent.ticket, cost_usd)
        own_files = (intent.file_id,) if intent.file_id else ()
        self.record.note(
            intent,
            ending=ending,
            reason=reason,
            cost_usd=cost_usd,
            reply_count=reply_count,
            remote_files=(*own_files, *remote_files),
        )
