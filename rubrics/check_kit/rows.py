"""Checks that look at an output at a time: what they find in a row, and the rows put together."""

from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

import pyarrow as pa

from gradebook.rubrics.check_kit.check import CheckVerdicts
from gradebook.rubrics.check_kit.evidence import cut_text


class RowFinding(NamedTuple):
    """What a check found in one output. is_passed: None where it can't tell, and `reason` says why."""

    is_passed: bool | None
    evidence: str | None = None
    reason: str | None = None


PASSED = RowFinding(True)


def gather_rows(findings: Iterable[RowFinding]) -> CheckVerdicts:
    """Put the findings of a shard's rows together, in order; evidence and reasons are cut to their length."""
    rows = list(findings)
    if len(rows) == 1:
        return _gather_one(*rows)
    return CheckVerdicts(
        pa.array([row.is_passed for row in rows], pa.bool_()),
        _gather_texts([row.evidence for row in rows]),
        _gather_texts([row.reason for row in rows]),
    )


def _gather_one(row: RowFinding) -> CheckVerdicts:
    """A row's own criteria bring calls with a single row: building its arrays anew would be half of their time."""
    alone = _verdict_alone(row.is_passed)
    if row.evidence is row.reason is None:
        return alone
    return CheckVerdicts(
        alone.is_passed,
        alone.evidence if row.evidence is None else _gather_texts([row.evidence]),
        alone.reasons if row.reason is None else _gather_texts([row.reason]),
    )


@cache
def _verdict_alone(is_passed: bool | None) -> CheckVerdicts:
    return CheckVerdicts(pa.array([is_passed], pa.bool_()), pa.nulls(1, pa.string()), pa.nulls(1, pa.string()))


def _gather_texts(texts: list[str | None]) -> pa.StringArray:
    if texts.count(None) == len(texts):
        return pa.nulls(len(texts), pa.string())  # several times as fast
    return pa.array([_cut(text) for text in texts], pa.string())


def _cut(text: str | None) -> str | None:
    return None if text is None else cut_text(text)
