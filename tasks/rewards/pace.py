"""Pace at which questions are answered, for callers that must know whether an answer can come in time."""

import threading
import time
from collections.abc import Callable

NEWEST = 0.2  # weight of the last batch in the pace


class Pace:
    """Pace at which questions are answered, from the batches so far.

    slots: questions in flight at once, at most. A batch that waits behind others takes longer in proportion to the
    questions that are open; one that does not takes as long as any.
    """

    def __init__(self, slots: int) -> None:
        self._slots, self._lock = max(slots, 1), threading.Lock()
        self._open_count = 0
        self._question_s = 0.0  # seconds for each open question

    def renewed(self) -> "Pace":
        """Pace of a fork's child, which waits for nothing yet."""
        found = Pace(self._slots)
        found._question_s = self._question_s
        return found

    def begin(self, count: int) -> Callable[[bool], None]:
        """Note a batch of questions; returns what notes its end, and whether all were answered."""
        begun = time.monotonic()
        with self._lock:
            self._open_count += count
            ahead = max(self._open_count, self._slots)

        def end(is_answered: bool) -> None:
            with self._lock:
                self._open_count -= count
                if is_answered:
                    found = (time.monotonic() - begun) / ahead
                    self._question_s += (found - self._question_s) * (NEWEST if self._question_s else 1.0)

        return end

    def expected_s(self, count: int) -> float:
        """Seconds until further questions are answered; 0 if none is open, or nothing is known yet."""
        with self._lock:
            return self._question_s * max(self._open_count + count, self._slots) if self._open_count else 0.0
