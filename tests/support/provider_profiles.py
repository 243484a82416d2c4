"""Profiles of providers: what each refuses, returns and counts, and how it errs, from a YAML file of `providers`.

A body whose source is a thread is as quoted there; one whose source is a page is written from its description. What is
not known of a provider is not in its file.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from gradebook.tasks.judging.prices import Price
from tests.support.loopback_anthropic import LoopbackAnthropic
from tests.support.loopback_judge import LoopbackJudge, ScriptedError

FOLDER = Path(__file__).with_name("providers")
SERVERS = {"openai": LoopbackJudge, "anthropic": LoopbackAnthropic}


@dataclass(frozen=True)
class Place:
    """Where a provider is. host: of its address; model: its name there; variable: of the key."""

    host: str
    model: str
    variable: str | None = None
    key_header: str | None = None
    form: str = "openai"


@dataclass(frozen=True)
class Counts:
    """How tokens are counted. usage: of a reply, in sums of `prompt`, `cached`, `completion`, `thought`, `cost`.

    thought_tokens: of each reply, billed as output. cost: USD that the provider says a reply cost.
    """

    source: str
    usage: dict[str, Any] = field(default_factory=dict)
    thought_tokens: int = 0
    cost: float | None = None


@dataclass(frozen=True)
class Profile:
    """A provider. refuses: errors by parameter; errs: errors by what goes wrong; returns: settings of the server."""

    name: str
    place: Place
    counts: Counts
    refuses: Mapping[str, ScriptedError]
    errs: Mapping[str, ScriptedError]
    returns: Mapping[str, Any]

    def server(self, key: str | None = None) -> LoopbackJudge:
        """Server that does as the provider does, without its rate limits."""
        judge = SERVERS[self.place.form](key=key)
        judge.model, judge.key_header = self.place.model, self.place.key_header
        judge.refusals, judge.errors = {**self.refuses}, {**self.errs}
        judge.counted, judge.thought_tokens, judge.stated_usd = (
            self.counts.usage,
            self.counts.thought_tokens,
            self.counts.cost,
        )
        for name, value in self.returns.items():
            setattr(judge, name, value)
        return judge

    def bill_usd(self, judge: LoopbackJudge, price: Price) -> float:
        """Cost of all replies of a server, by its own counts."""
        if self.counts.cost is not None:
            return judge.answered_count * self.counts.cost
        if isinstance(judge, LoopbackAnthropic):
            prices = {
                "input_tokens": price.input_usd,
                "cache_creation_input_tokens": price.written_usd,
                "cache_read_input_tokens": price.cached_usd,
                "output_tokens": price.output_usd,
            }
            return sum(usage[name] * prices[name] for usage in judge.usages for name in prices)
        cached = judge.cached_tokens if "cached" in str(self.counts.usage.values()) else 0
        output = judge.completion_tokens + judge.answered_count * self.counts.thought_tokens
        return (judge.prompt_tokens - cached) * price.input_usd + cached * price.cached_usd + output * price.output_usd


def read_profile(path: Path) -> Profile:
    """Profile in a file. Raises `TypeError` for a key that it does not have."""
    written = yaml.safe_load(path.read_text(encoding="utf-8"))
    errors = {
        part: {name: ScriptedError(**error) for name, error in written.pop(part, {}).items()}
        for part in ("refuses", "errs")
    }
    place, counts = Place(**written.pop("place")), Counts(**written.pop("counts"))
    return Profile(path.stem, place, counts, **errors, **{"returns": {}, **written})


PROFILES = {path.stem: read_profile(path) for path in sorted(FOLDER.glob("*.yml"))}
