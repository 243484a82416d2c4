"""What real endpoints do besides answering: limit requests a minute, cache prefixes of prompts, fail at a rate."""

import hashlib
import time
from dataclasses import dataclass, field

STEP_TOKENS = 128
FIRST_CACHED_TOKENS = 1_024
BYTES_PER_TOKEN = 4


@dataclass
class RequestLimit:
    """So many requests a minute, with one second's worth of burst; tells its limit with each refusal."""

    per_minute: float
    refused_count: int = 0
    _level: float = 1.0
    _at: float = field(default_factory=time.monotonic)

    def is_taken(self) -> bool:
        """Whether there is room for one request more; takes it."""
        now, per_second = time.monotonic(), self.per_minute / 60
        self._level = min(max(1.0, per_second), self._level + (now - self._at) * per_second)
        self._at = now
        if self._level < 1:
            self.refused_count += 1
            return False
        self._level -= 1
        return True

    @property
    def headers(self) -> dict[str, str]:
        """What a refusal says."""
        return {
            "x-ratelimit-limit-requests": str(int(self.per_minute)),
            "x-ratelimit-remaining-requests": str(int(self._level)),
            "x-ratelimit-reset-requests": f"{60 / self.per_minute:.3f}s",
        }


class PrefixCache:
    """The beginnings of prompts that were answered, in steps of 128 tokens from 1,024 on."""

    def __init__(self) -> None:
        self._seen: set[bytes] = set()

    def cached_tokens(self, prompt: str) -> int:
        """How many tokens of a prompt's beginning were answered before."""
        cached = 0
        for tokens, mark in self._marks(prompt):
            if mark not in self._seen:
                break
            cached = tokens
        return cached

    def keep(self, prompt: str) -> None:
        """Remember a prompt that was answered."""
        self._seen.update(mark for _, mark in self._marks(prompt))

    def _marks(self, prompt: str) -> list[tuple[int, bytes]]:
        text, marks = prompt.encode(), []
        hashed, done = hashlib.blake2b(digest_size=8), 0
        for tokens in range(FIRST_CACHED_TOKENS, len(text) // BYTES_PER_TOKEN + 1, STEP_TOKENS):
            hashed.update(text[done : tokens * BYTES_PER_TOKEN])
            done = tokens * BYTES_PER_TOKEN
            marks.append((tokens, hashed.digest()))
        return marks


def drawn_fault(rates: dict[str, float], prompt: str, asked_count: int) -> str:
    """The fault of a prompt's n-th request, the same in every run; empty: none."""
    drawn = hashlib.blake2b(f"{asked_count}/{prompt}".encode("utf-8", "surrogatepass"), digest_size=4).digest()
    share = int.from_bytes(drawn, "big") / 2**32
    for fault, rate in rates.items():
        if share < rate:
            return fault
        share -= rate
    return ""
