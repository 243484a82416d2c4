"""Context of a run's batches: the job, its record, budget, endpoint and patience."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from gradebook.rubrics.model.errors import EndpointUnavailable
from gradebook.tasks.judging.batches.endpoint import BatchEndpoint, NoAnswer
from gradebook.tasks.judging.batches.files import Limits
from gradebook.tasks.judging.batches.state import BatchRecord, Intent
from gradebook.tasks.judging.budget import BatchBudget
from gradebook.tasks.judging.prices import Price
from gradebook.tasks.judging.replies.question import Askable
from gradebook.tasks.judging.settings.judge import JudgeSettings

PATIENCE_FACTOR = 20  # batches take hours, so outages may last longer than online

Returned = TypeVar("Returned")


@dataclass(frozen=True, slots=True)
class Pace:
    """Waiting times, in seconds."""

    first_poll_s: float = 5.0
    most_poll_s: float = 60.0
    window_s: float = 25 * 3600.0  # endpoints promise 24 h
    margin_s: float = 600.0  # batches are abandoned at least this long before the deadline
    margin_rate: float = 0.1  # or this share of the available time
    cancel_s: float = 1200.0  # endpoints take up to 10 minutes; a deadline takes precedence


@dataclass(frozen=True, slots=True)
class BatchJob:
    """Questions of a run, and its files. questions_of: open questions of a shard, by index.

    planned_questions_of: also questions answered in the ledger by now, as a reply to one of them is paid for all the
    same. is_submitting: False if the run now asks online, and only older batches are completed.
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
    """Maximum time without an answer from the endpoint, at most until the deadline."""

    def __init__(self, settings: JudgeSettings, wait_s: float, deadline: datetime | None = None) -> None:
        self._base_url = settings.base_url
        self._deadline = deadline
        self._limit_s = settings.patience_s * PATIENCE_FACTOR
        self._wait_s = wait_s
        self._answered_at = time.monotonic()

    def renew(self) -> None:
        """Reset the silence timer."""
        self._answered_at = time.monotonic()

    def lose(self, reason: str) -> None:
        """Note a failure. Raises `EndpointUnavailable` after too long a silence, or at the deadline."""
        for_how_long = None
        if self._deadline is not None and datetime.now(UTC) >= self._deadline:
            for_how_long = "until the deadline"
        elif time.monotonic() - self._answered_at >= self._limit_s:
            for_how_long = f"for {self._limit_s:g} s"
        if for_how_long is not None:
            raise EndpointUnavailable(
                f"{self._base_url}: asked for batches, it gave no answer {for_how_long}, at last: {reason}; "
                "the same command resumes"
            )

    def insist(self, ask: Callable[[], Returned], until: datetime | None = None) -> Returned:
        """Retry until there is an answer. Raises `NoAnswer` if there is none until the given time."""
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
class BatchContext:
    """Everything needed to work on the batches of one run."""

    job: BatchJob
    record: BatchRecord
    budget: BatchBudget
    endpoint: BatchEndpoint
    patience: Patience

    @property
    def last_sending(self) -> datetime | None:
        """Latest time at which a new batch could finish before the deadline; None without a deadline."""
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
        """Record the end of an intent. cost_usd: None if its worst cost has to count."""
        if cost_usd is not None:
            self.budget.settle(intent.ticket, cost_usd)
        own_files = (intent.file_id,) if intent.file_id else ()
        self.record.note(
            intent,
            ending=ending,
            reason=reason,
            cost_usd=cost_usd,
            reply_count=reply_count,
            remote_files=(*own_files, *remote_files),
        )
