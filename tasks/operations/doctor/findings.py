"""Findings of an examination: severity, description and fix."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

OK, NOTE, PROBLEM = "ok", "note", "problem"
MOST_LISTED = 20


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """Outcome of one check. check: its subject; mend: the fix, None if there is nothing to do."""

    check: str
    severity: str  # ok | note | problem
    found: str
    mend: str | None = None

    def __post_init__(self) -> None:
        if self.severity not in {OK, NOTE, PROBLEM}:
            raise ValueError(f"severity: found {self.severity!r}, expected ok, note or problem")


def at_most(findings: Iterable[DoctorFinding]) -> Iterator[DoctorFinding]:
    """First `MOST_LISTED` findings of a check, then one finding that counts the others."""
    remaining = iter(findings)
    yield from islice(remaining, MOST_LISTED)
    more = list(remaining)
    if more:
        yield replace(more[0], found=f"... and {len(more):,} more of these")


def findings_or_ok(findings: Iterable[DoctorFinding], check: str, summary: str) -> Iterator[DoctorFinding]:
    """Findings of a check, or one finding of severity ok if there are none. summary: text of the latter."""
    first_findings = list(at_most(findings))
    yield from first_findings or [DoctorFinding(check, OK, summary)]
