"""Criteria decided by code: checks and JSON Schemas."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from gradebook.rubrics.check_kit.check import read_settings
from gradebook.rubrics.check_kit.columns import text_column
from gradebook.rubrics.check_kit.samples import MADE_COLUMNS
from gradebook.rubrics.checks.grading import CheckedCriterion, grade_checked, grade_outputs
from gradebook.rubrics.checks.modes import run_check
from gradebook.rubrics.checks.registry import find_check
from gradebook.rubrics.model.methods import CheckMethod, SchemaMethod
from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.model.verdicts import verdict_table
from gradebook.tasks.datasets.media import audio_slices
from gradebook.tasks.system.files import write_parquet

_SOUND = ("output", "metadata")


def score_check(run_id: str, criterion: Criterion, shard: pa.Table, folders: tuple[Path, ...] = ()) -> pa.Table:
    """Score a shard by the criterion's check, as `check_outputs`: `VERDICT_SCHEMA`, one row per output."""
    return grade_checked(run_id, list(check_outputs(criterion, shard, folders)))


def check_outputs(criterion: Criterion, shard: pa.Table, folders: tuple[Path, ...] = ()) -> Iterator[CheckedCriterion]:
    """Run the criterion's check over a shard.

    folders: folders of the dataset's files, for outputs that name a sound file. Raises `TypeError` for a criterion of
    another method, `KeyError` for an unknown check, and pydantic's `ValidationError` for its settings; lint refuses a
    rubric with any of the three.
    """
    method = criterion.method
    if not isinstance(method, CheckMethod):
        raise TypeError(f"{criterion.id}: found the method {method.type}, expected check")
    check = find_check(method.check)
    settings = read_settings(check, method.settings, method.folder)
    # Sound files are large, so only a few slices are in memory at a time.
    for part in audio_slices(shard, folders) if "audio" in check.columns else [shard]:
        yield CheckedCriterion(criterion, text_column(part, "output_id"), run_check(check, part, settings, method.mode))


def stored_columns(name: str) -> tuple[str, ...]:
    """Columns of a stored shard that the named check reads; audio comes from the metadata or the output."""
    columns = find_check(name).columns
    read = [stored for column in columns for stored in (_SOUND if column in MADE_COLUMNS else (column,))]
    return tuple(dict.fromkeys(read))


def score_schema(
    run_id: str, criterion: Criterion, shard: pa.Table, schemas: Mapping[str, dict[str, Any]] | None = None
) -> pa.Table:
    """Score a shard by the criterion's JSON Schema: `VERDICT_SCHEMA`, one row per output.

    schemas: the rubric's schemas by name, to which the criterion's schema may refer; per-case criteria have none.
    Raises `TypeError` for a criterion of another method, and `ValueError` for a schema that `check_schema` refuses.
    """
    method = criterion.method
    if not isinstance(method, SchemaMethod):
        raise TypeError(f"{criterion.id}: found the method {method.type}, expected schema")
    from gradebook.rubrics.schemas.validating import validate_outputs  # here: slow to import, and few rubrics need it

    found = validate_outputs(text_column(shard, "output"), method.json_schema, schemas or {})
    return grade_outputs(run_id, criterion, text_column(shard, "output_id"), found)


def leave_unscored(run_id: str, criterion: Criterion, shard: pa.Table, reason: str | None = None) -> pa.Table:
    """Verdicts of a criterion that cannot be scored: all unscored, with the reason. Returns `VERDICT_SCHEMA`."""
    count = shard.num_rows
    return verdict_table(
        run_id,
        criterion,
        text_column(shard, "output_id"),
        pa.nulls(count, pa.string()),
        pa.nulls(count, pa.float64()),
        reasons=pa.repeat(reason or f"unsupported_method: {criterion.method.type}", count),
    )


@dataclass(frozen=True, slots=True)
class Computation:
    """One code-decided criterion over one shard, with all inputs, so that it can be sent to a cluster's worker."""

    run_id: str
    criterion: Criterion
    shard: str  # path of its file
    target: Path  # path of the verdict file
    folders: tuple[Path, ...]  # folders of the dataset's files, for outputs that name a sound file
    schemas: Mapping[str, dict[str, Any]]  # the rubric's, by name


def is_computed(criterion: Criterion) -> bool:
    """Whether code decides the criterion from a shard's rows alone."""
    return isinstance(criterion.method, (CheckMethod, SchemaMethod))


def read_columns(shard: str, columns: Sequence[str]) -> pa.Table:
    """Columns of a stored shard, read in this thread only: Arrow's threads would be missing in its CPU time."""
    with pq.ParquetFile(shard) as file:
        return file.read(list(columns), use_threads=False)


class LastShards:
    """Cache of the columns of the shards read last, for threads: criteria over one shard mostly follow one another."""

    def __init__(self, most: int = 1) -> None:
        """most: the number of shards in memory at once."""
        self._most = most
        self._lock = threading.Lock()
        self._rows: dict[str, pa.Table] = {}  # by shard, the last used one last

    def read(self, shard: str, columns: Sequence[str]) -> pa.Table:
        """Columns of a shard, as `read_columns`; only columns not yet cached are read."""
        with self._lock:
            rows = self._rows.pop(shard, None)
            if rows is None:
                for oldest in list(self._rows)[: len(self._rows) - self._most + 1]:
                    del self._rows[oldest]  # freed before the new one is read
                rows = read_columns(shard, columns)
            elif missing := [name for name in columns if name not in rows.column_names]:
                more = read_columns(shard, missing)
                for field, column in zip(more.schema, more.columns, strict=True):
                    rows = rows.append_column(field, column)
            self._rows[shard] = rows
        return rows.select(list(columns))


def compute_verdicts(computation: Computation, shards: LastShards) -> int:
    """Write the verdict file atomically; returns the number of verdicts. Raises as `score_rows`."""
    rows = shards.read(computation.shard, needed_columns(computation.criterion))
    return write_counted(computation.target, score_rows(computation, rows))


def write_counted(path: Path, verdicts: pa.Table) -> int:
    """Write verdicts atomically; returns their number."""
    write_parquet(path, verdicts)
    verdict_count: int = verdicts.num_rows
    return verdict_count


def score_rows(computation: Computation, rows: pa.Table) -> pa.Table:
    """Verdicts on rows of the shard, as `VERDICT_SCHEMA`. rows: with `needed_columns`.

    Raises as `score_check` and `score_schema`.
    """
    run_id, criterion = computation.run_id, computation.criterion
    if isinstance(criterion.method, SchemaMethod):
        return score_schema(run_id, criterion, rows, computation.schemas)
    return score_check(run_id, criterion, rows, folders=computation.folders)


def needed_columns(criterion: Criterion) -> tuple[str, ...]:
    """Columns of a stored shard that the criterion reads; no others, as several shards are in memory at once."""
    method = criterion.method
    return ("output_id", *(stored_columns(method.check) if isinstance(method, CheckMethod) else ("output",)))
