"""Verdicts of one criterion on rows in memory."""

from pathlib import Path

import pyarrow as pa

from gradebook.rubrics.model.rubric import Criterion
from gradebook.tasks.methods.method import RowMethod, ScoringSetup
from gradebook.tasks.methods.table import method_of
from gradebook.tasks.workspace.folder import RunFolder
from gradebook.tasks.workspace.timings import Timing


def score_rows(criterion: Criterion, rows: pa.Table, folders: tuple[Path, ...] = ()) -> pa.Table:
    """Verdicts of the run `run`."""
    method = method_of(criterion)
    assert isinstance(method, RowMethod)
    return method.score_rows(ScoringSetup(RunFolder(Path("run")), {}, folders), criterion, rows, Timing("score"))
