"""Runs in progress, with their pace: what a page shows of them while they are alive."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Lock

from gradebook.rubrics.text.wording import price_words
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.published.status import UnpublishedRun, unpublished_runs

PACE_S = 60.0  # time over which requests are counted
LEAST_PACE_S = 2.0
FRESH_S = 0.9  # a reading of this age is shown again


@dataclass(frozen=True, slots=True)
class ProgressLine:
    """Run in progress. a_minute: requests answered in a minute; left_s: seconds until all are; None while unknown."""

    run: UnpublishedRun
    a_minute: float | None
    left_s: float | None

    @property
    def state(self) -> str:
        """Id, and whether a process is at work: a page drawn with other states is out of date."""
        return f"{self.run.run_id}{'+' if self.run.is_at_work else '-'}"

    @property
    def cost(self) -> str:
        """Cost so far, as text."""
        return price_words(self.run.cost_usd)

    @property
    def left(self) -> str:
        """Time until all requests are answered, as text: "40 s", "3 min", "2 h 5 min"; empty while unknown."""
        return "" if self.left_s is None else duration_words(self.left_s)


def duration_words(seconds: float) -> str:
    """Duration as text: "40 s", "3 min", "2 h 5 min"."""
    if seconds < 60:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


class ProgressReader:
    """Unpublished runs of a lake's folder; all pages share one reading a second."""

    def __init__(self, lake: Lake, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._lake, self._now, self._lock = lake, now, Lock()
        self._read_at: datetime | None = None
        self._lines: tuple[ProgressLine, ...] = ()
        self._counts: dict[str, deque[tuple[datetime, int]]] = {}

    def read(self) -> tuple[ProgressLine, ...]:
        """Unpublished runs, those at work first, then the newest first."""
        with self._lock:
            now = self._now()
            if self._read_at is None or (now - self._read_at).total_seconds() > FRESH_S:
                self._read_at = now
                runs = sorted(unpublished_runs(self._lake, now), key=lambda run: not run.is_at_work)
                self._lines = tuple(self._line(run, now) for run in runs)
                self._counts = {run.run_id: self._counts[run.run_id] for run in runs if run.run_id in self._counts}
            return self._lines

    def _line(self, run: UnpublishedRun, now: datetime) -> ProgressLine:
        if not run.is_at_work or run.judged_count is None:
            self._counts.pop(run.run_id, None)
            return ProgressLine(run, None, None)
        counts = self._counts.setdefault(run.run_id, deque())
        counts.append((now, run.judged_count))
        while (now - counts[0][0]).total_seconds() > PACE_S:
            counts.popleft()
        first_at, first_count = counts[0]
        seconds = (now - first_at).total_seconds()
        if seconds < LEAST_PACE_S:
            return ProgressLine(run, None, None)
        a_second = (run.judged_count - first_count) / seconds
        open_count = max(0, (run.planned_count or 0) - run.judged_count)
        return ProgressLine(run, 60 * a_second, open_count / a_second if a_second > 0 and run.planned_count else None)
