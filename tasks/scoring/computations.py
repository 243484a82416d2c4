"""Criteria that code decides from a shard's rows alone: checks and schemas, in this process or in one of their own."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from gradebook.rubrics.methods import CheckMethod, SchemaMethod
from gradebook.rubrics.model import Criterion
from gradebook.tasks.files import write_parquet
from gradebook.tasks.scoring.checks import score_check, stored_columns
from gradebook.tasks.scoring.schema import score_schema


@dataclass(frozen=True, slots=True)
class Computation:
    """One such criterion over one shard, with all that it takes, so that it may be sent to another process."""

    run_id: str
    criterion: Criterion
    shard: str  # a file
    target: Path  # where the verdicts go
    folders: tuple[Path, ...]  # of the dataset's files, for outputs that name a sound file
    schemas: Mapping[str, dict[str, Any]]  # the rubric's, by name


def is_computed(criterion: Criterion) -> bool:
    """Whether code decides the criterion from a shard's rows alone."""
    return isinstance(criterion.method, (CheckMethod, SchemaMethod))


def read_columns(shard: str, columns: Sequence[str], *, use_threads: bool = True) -> pa.Table:
    """These columns of a stored shard. use_threads: Arrow's, beside the caller's own."""
    return pq.read_table(shard, columns=list(columns), use_threads=use_threads)


def compute_verdicts(computation: Computation, read: Callable[[str, Sequence[str]], pa.Table] = read_columns) -> int:
    """Write the verdict file, whole or not at all; returns how many verdicts it holds. Raises as `score_rows`."""
    rows = read(computation.shard, needed_columns(computation.criterion))
    return write_counted(computation.target, score_rows(computation, rows))


def write_counted(path: Path, verdicts: pa.Table) -> int:
    """Write verdicts, whole or not at all; returns how many there are."""
    write_parquet(path, verdicts)
    verdict_count: int = verdicts.num_rows
    return verdict_count


def score_rows(computation: Computation, rows: pa.Table) -> pa.Table:
    """The verdicts on some rows of the shard, as `VERDICT_SCHEMA`. rows: `needed_columns`.

    Raises as `score_check` and `score_schema`.
    """
    run_id, criterion = computation.run_id, computation.criterion
    if isinstance(criterion.method, SchemaMethod):
        return score_schema(run_id, criterion, rows, computation.schemas)
    return score_check(run_id, criterion, rows, folders=computation.folders)


def needed_columns(criterion: Criterion) -> tuple[str, ...]:
    """The columns of a stored shard that the criterion looks at: several shards are in memory at once."""
    method = criterion.method
    return ("output_id", *(stored_columns(method.check) if isinstance(method, CheckMethod) else ("output",)))
