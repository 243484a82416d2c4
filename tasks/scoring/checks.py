"""Scoring a criterion whose method is a check."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from gradebook.rubrics.checks import find_check, read_settings
from gradebook.rubrics.checks.columns import text_column
from gradebook.rubrics.checks.grading import Finding, grade_findings
from gradebook.rubrics.checks.modes import run_check
from gradebook.rubrics.checks.samples import MADE_COLUMNS
from gradebook.rubrics.methods import CheckMethod
from gradebook.rubrics.model import Criterion
from gradebook.tasks.scoring.audio import audio_slices


def score_check(run_id: str, criterion: Criterion, shard: pa.Table, folders: tuple[Path, ...] = ()) -> pa.Table:
    """Score a shard by the criterion's check, as `check_outputs`: a table of `VERDICT_SCHEMA`, a row an output."""
    return grade_findings(run_id, list(check_outputs(criterion, shard, folders)))


def check_outputs(criterion: Criterion, shard: pa.Table, folders: tuple[Path, ...] = ()) -> Iterator[Finding]:
    """Run the criterion's check over a shard.

    folders: those of the dataset's files, for outputs that name a sound file. Raises `TypeError` for a criterion of
    another method, `KeyError` for an unknown check, and pydantic's `ValidationError` for its settings; lint refuses a
    rubric with any of the three.
    """
    method = criterion.method
    if not isinstance(method, CheckMethod):
        raise TypeError(f"{criterion.id}: found the method {method.type}, expected check")
    check = find_check(method.check)
    settings = read_settings(check, method.settings)
    # Sound files are large: a few are held at a time, and each slice is let go before the next but one is made.
    for part in audio_slices(shard, folders) if "audio" in check.columns else [shard]:
        yield Finding(criterion, text_column(part, "output_id"), run_check(check, part, settings, method.mode))


def stored_columns(name: str) -> tuple[str, ...]:
    """The columns of a stored shard that the check of that name reads; audio is made of the output."""
    return tuple(dict.fromkeys("output" if column in MADE_COLUMNS else column for column in find_check(name).columns))
