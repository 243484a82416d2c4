"""Checks that read one output at a time: the finding for a row, and the rows combined."""

from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

import pyarrow as pa

from gradebook.rubrics.check_kit.check import CheckVerdicts
from gradebook.rubrics.check_kit.evidence import cut_text


class RowFinding(NamedTuple):
    """Finding of a check in one output. is_passed: None if it cannot decide; `reason` gives the cause."""

    is_passed: bool | None
    evidence: str | None = None
    reason: str | None = None


PASSED = RowFinding(True)


def gather_rows(findings: Iterable[RowFinding]) -> CheckVerdicts:
    """Combine the findings of a shard's rows, in order. Evidence and reasons are cut to their maximum length."""
    rows = list(findings)
    if len(rows) == 1:
        return _gather_one(*rows)
    return CheckVerdicts(
        pa.array([row.is_passed for row in rows], pa.bool_()),
        _gather_texts([row.evidence for row in rows]),
        _gather_texts([row.reason for row in rows]),
    )


def _gather_one(row: RowFinding) -> CheckVerdicts:
    """Verdicts of a single row, as per-case criteria need: building the arrays anew would be half of their time."""
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
