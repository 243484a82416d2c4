"""What an examination of a lake finds: how bad it is, what it is, and what to type against it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

OK, NOTE, PROBLEM = "ok", "note", "problem"
MOST_LISTED = 20


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. check: what was looked at; mend: None where there is nothing to do."""

    check: str
    severity: str  # ok | note | problem
    found: str
    mend: str | None = None

    def __post_init__(self) -> None:
        if self.severity not in {OK, NOTE, PROBLEM}:
            raise ValueError(f"severity: found {self.severity!r}, expected ok, note or problem")


def at_most(findings: Iterable[Finding]) -> Iterator[Finding]:
    """The first findings of a check; the others as one that counts them."""
    rest = iter(findings)
    yield from islice(rest, MOST_LISTED)
    more = list(rest)
    if more:
        yield replace(more[0], found=f"... and {len(more):,} more of these")


def or_fine(findings: Iterable[Finding], check: str, found: str) -> Iterator[Finding]:
    """The findings; where there is none, one that all is well."""
    first_findings = list(at_most(findings))
    yield from first_findings or [Finding(check, OK, found)]
