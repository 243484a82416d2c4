"""Runs in progress, with their pace: what a page shows of them while they are alive."""

import glob
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock

import orjson

from gradebook.rubrics.text.wording import price_words
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.published.status import UnpublishedRun, unpublished_runs

PACE_S = 60.0  # time over which requests are counted
LEAST_PACE_S = 2.0
FRESH_S = 0.9  # a reading of this age is shown again
MOST_KINDS = 5
MOST_MESSAGE = 200  # characters of the last failure


@dataclass(frozen=True, slots=True)
class ProgressLine:
    """Run in progress. a_minute: requests answered in a minute; left_s: seconds until all are; None while unknown.

    failures: replies without a level.
    """

    run: UnpublishedRun
    a_minute: float | None
    left_s: float | None
    failures: "ReplyFailures"

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


@dataclass(frozen=True, slots=True)
class ReplyFailures:
    """Replies of a run without a level. kinds: with their counts, the most frequent first; last: text of the last."""

    kinds: tuple[tuple[str, int], ...] = ()
    last: str = ""


class FailureReader:
    """Reads the replies without a level from a run's journals, from each line once."""

    def __init__(self, folder: Path, run_id: str) -> None:
        self._folder, self._run_id = folder, run_id
        self._read_bytes: dict[Path, int] = {}
        self._counts: Counter[str] = Counter()
        self._last = ""

    def read(self) -> ReplyFailures:
        """Failures up to now."""
        for path in sorted(self._folder.glob(f"{glob.escape(self._run_id)}.*.jsonl")):
            with suppress(OSError):  # settled meanwhile
                self._read(path)
        return ReplyFailures(tuple(self._counts.most_common(MOST_KINDS)), self._last)

    def _read(self, path: Path) -> None:
        with path.open("rb") as journal:
            journal.seek(self._read_bytes.get(path, 0))
            for line in journal:
                if not line.endswith(b"\n"):  # being written
                    break
                self._read_bytes[path] = self._read_bytes.get(path, 0) + len(line)
                if b'"status":"scored"' not in line:  # quotes within a text are escaped
                    self._count(line)

    def _count(self, line: bytes) -> None:
        with suppress(orjson.JSONDecodeError, LookupError, TypeError):
            judgment = orjson.loads(line)
            self._counts[str(judgment["status"])] += 1
            words = " ".join(str(judgment["rationale"] or judgment["reply"] or "").split())
            self._last = words if len(words) <= MOST_MESSAGE else f"{words[:MOST_MESSAGE]}…"


class ProgressReader:
    """Unpublished runs of a lake's folder; all pages share one reading a second."""

    def __init__(self, lake: Lake, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._lake, self._now, self._lock = lake, now, Lock()
        self._read_at: datetime | None = None
        self._lines: tuple[ProgressLine, ...] = ()
        self._counts: dict[str, deque[tuple[datetime, int]]] = {}
        self._failures: dict[str, FailureReader] = {}

    def read(self) -> tuple[ProgressLine, ...]:
        """Unpublished runs, those at work first, then the newest first."""
        with self._lock:
            now = self._now()
            if self._read_at is None or (now - self._read_at).total_seconds() > FRESH_S:
                self._read_at = now
                runs = sorted(unpublished_runs(self._lake, now), key=lambda run: not run.is_at_work)
                self._lines = tuple(self._line(run, now) for run in runs)
                run_ids = {run.run_id for run in runs}
                self._counts = {run_id: counts for run_id, counts in self._counts.items() if run_id in run_ids}
                self._failures = {run_id: reader for run_id, reader in self._failures.items() if run_id in run_ids}
            return self._lines

    def _line(self, run: UnpublishedRun, now: datetime) -> ProgressLine:
        reader = self._failures.setdefault(run.run_id, FailureReader(self._lake.journal_folder, run.run_id))
        failures = reader.read()
        if not run.is_at_work or run.judged_count is None:
            self._counts.pop(run.run_id, None)
            return ProgressLine(run, None, None, failures)
        counts = self._counts.setdefault(run.run_id, deque())
        counts.append((now, run.judged_count))
        while (now - counts[0][0]).total_seconds() > PACE_S:
            counts.popleft()
        first_at, first_count = counts[0]
        seconds = (now - first_at).total_seconds()
        if seconds < LEAST_PACE_S:
            return ProgressLine(run, None, None, failures)
        a_second = (run.judged_count - first_count) / seconds
        open_count = max(0, (run.planned_count or 0) - run.judged_count)
        left_s = open_count / a_second if a_second > 0 and run.planned_count else None
        return ProgressLine(run, 60 * a_second, left_s, failures)
