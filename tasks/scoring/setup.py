"""What scoring needs beside a criterion and a shard: opened before the first shard, closed after the last."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.asking import judging
from tasks.plan import RunPlan
from tasks.runs import Run
from tasks.scoring.functions import FunctionPool, opened_functions
from tasks.scoring.judge import Session
from tasks.workspace import RunFolder


@dataclass(frozen=True, slots=True)
class ScoringSetup:
    """Where a run works, what its schemas may refer to, where its outputs lie, and whom it may ask."""

    folder: RunFolder
    schemas: Mapping[str, dict[str, Any]]  # the rubric's, by name
    dataset_folders: tuple[Path, ...] = ()  # what an output names by a relative path lies in one of them
    functions: FunctionPool | None = None  # None: the rubric has none that may run
    session: Session | None = None  # None: the run has no judge


@contextmanager
def opened_setup(run: Run, plan: RunPlan) -> Iterator[ScoringSetup]:
    """The setup of a run, open while the block runs. Raises as `judging`."""
    folders = tuple(dict.fromkeys(file.parent for file in run.files))
    log_file = run.folder.path / "functions.log"
    with judging(run, plan) as session, opened_functions(run.rubric, run.functions, log_file) as functions:
        yield ScoringSetup(run.folder, run.rubric.schemas, folders, functions, session)
