"""Shards and the quarantine on disk: written atomically, each output once."""

import glob
import shutil
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gradebook.rubrics.model.json_values import canonical_json
from gradebook.rubrics.model.outputs import QUARANTINE_SCHEMA, SHARD_SCHEMA, Output, output_id, shard_column
from gradebook.tasks.datasets.file_formats import RawRow
from gradebook.tasks.lake.rows import make_table, read_rows
from gradebook.tasks.lake.sql import open_database, query
from gradebook.tasks.system.files import PARQUET_SETTINGS, replaced_file, temporary_path

_MOST_ROW_CHARACTERS = 2_000
_QUARANTINE_BATCH_ROWS = 5_000
# Long texts hardly repeat within a shard: dictionaries and minima of them cost time and space for nothing.
_SHORT_COLUMNS = ["output_id", "case_id", "model", "checkpoint", "sample_index", "cluster"]
_REPEATED_COLUMNS = [
    "model",
    "checkpoint",
    "sample_index",
    "cluster",
    *(f"steps.list.element.{name}" for name in ("agent", "kind", "name")),
]
_STEP_BYTES = 100  # of a step's numbers and names
_BATCH_ROWS = 1_000  # few enough that their texts are still in the processor's cache when Arrow copies them

_COPIES = query("datasets/copied_cases")
_REPEATS_OF_SHARD_QUERY = "select replace(id::text, '-', '') as output_id from repeats where shard = ?"


def write_shard(table: pa.Table, path: Path) -> None:
    """Write one shard atomically."""
    with replaced_file(path) as partial:
        pq.write_table(
            table,
            partial,
            compression_level=1,
            use_dictionary=_REPEATED_COLUMNS,
            write_statistics=_SHORT_COLUMNS,
            **PARQUET_SETTINGS,
        )


def _write_batches(batches: list[pa.RecordBatch], path: Path) -> None:
    write_shard(pa.Table.from_batches(batches).combine_chunks(), path)


class ShardWriter:
    """Writer that starts a new shard whenever one is full; holds at most two shards in memory."""

    def __init__(self, folder: Path, shard_rows: int, shard_bytes: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._shard_rows, self._shard_bytes = folder, shard_rows, shard_bytes
        self._output_ids: set[str] = set()  # of the shard
        self._text_size = 0
        self._batches: list[pa.RecordBatch] = []
        self._rows: dict[str, Output] = {}  # by output_id, in order: the next batch
        self.paths: list[Path] = []
        # Compressing needs no Python: the next shard is read meanwhile.
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="write shard")
        self._writing: Future[None] | None = None

    def add(self, output: Output) -> None:
        """Add one output, unless the current shard has it already."""
        identity = output_id(output)
        if identity in self._output_ids:
            return
        self._output_ids.add(identity)
        self._rows[identity] = output
        self._text_size += _text_size(output)
        if len(self._output_ids) >= self._shard_rows or self._text_size >= self._shard_bytes:
            self.flush()
        elif len(self._rows) >= _BATCH_ROWS:
            self._close_batch()

    def flush(self) -> None:
        """Write the collected outputs, if any, as the next shard."""
        self._close_batch()
        if not self._batches:
            return
        path = self._folder / f"shard-{len(self.paths):05d}.parquet"
        self._finish_writing()
        self._writing = self._writer.submit(_write_batches, self._batches, path)
        self.paths.append(path)
        self._output_ids, self._text_size, self._batches = set(), 0, []

    def close(self) -> None:
        """Write the last shard, and wait until all are on disk."""
        self.flush()
        self._finish_writing()
        self._writer.shutdown()

    def abandon(self) -> None:
        """Wait for pending writes: a folder can't be removed while a file is created in it."""
        self._writer.shutdown(cancel_futures=True)

    def _close_batch(self) -> None:
        if self._rows:
            columns = [self._rows, *zip(*self._rows.values(), strict=True)]
            arrays = [shard_column(name, column) for name, column in zip(SHARD_SCHEMA.names, columns, strict=True)]
            self._batches.append(pa.record_batch(arrays, schema=SHARD_SCHEMA))
            self._rows = {}

    def _finish_writing(self) -> None:
        if self._writing is not None:
            self._writing.result()


def _text_size(output: Output) -> int:
    """Number of characters in the long texts."""
    texts = (output.output, output.prompt, output.reference, output.metadata, output.criteria, *(output.context or ()))
    size = sum([len(text) for text in texts if text])
    for step in output.steps or ():
        size += _STEP_BYTES + len(step.input or "") + len(step.output or "") + len(step.error or "")
    return size


def count_stored(paths: Iterable[Path]) -> tuple[int, tuple[str, ...]]:
    """The number of outputs in shards, and their models, sorted."""
    output_count, models = 0, set[str]()
    for path in paths:
        column = pq.read_table(path, columns=["model"])["model"]
        output_count += len(column)
        models.update(column.unique().to_pylist())
    return output_count, tuple(sorted(models))


def keep_cases(paths: Sequence[Path], case_ids: Sequence[str]) -> list[Path]:
    """Drop the outputs of all other cases; returns the shards that are left. Shards without any are not rewritten."""
    kept_ids = pa.array(case_ids, pa.string())
    for path in paths:
        shard = pq.read_table(path, schema=SHARD_SCHEMA)
        _rewrite(path, shard, pc.is_in(shard["case_id"], value_set=kept_ids))
    return [path for path in paths if path.exists()]


def drop_repeats(paths: Sequence[Path], spill_folder: Path) -> list[Path]:
    """Keep each output in its first shard alone; returns the shards that are left.

    spill_folder: for data beyond DuckDB's 512 MB; removed afterwards. Only shards with a repeat are rewritten.
    """
    if len(paths) < 2:
        return list(paths)
    with open_database(
        memory_limit="512MB", temp_directory=str(spill_folder), preserve_insertion_order=False
    ) as connection:
        make_table(connection, "datasets/repeats", shards=[glob.escape(str(path)) for path in paths])
        concerned = connection.execute("select distinct shard from repeats order by shard").fetchall()
        for (index,) in concerned:
            repeats = connection.execute(_REPEATS_OF_SHARD_QUERY, [index]).to_arrow_table()["output_id"]
            shard = pq.read_table(paths[index], schema=SHARD_SCHEMA)
            is_repeat = pc.is_in(shard["output_id"], value_set=repeats.combine_chunks())
            _rewrite(paths[index], shard, pc.invert(is_repeat))
    shutil.rmtree(spill_folder, ignore_errors=True)
    return [path for path in paths if path.exists()]


def cluster_copies(paths: Sequence[Path]) -> None:
    """Give cases that are copies of each other one cluster, `copies of CASE`, by `datasets/copied_cases`.

    Copies of copies are copies. Only shards with such a case are rewritten.
    """
    with open_database(memory_limit="512MB", preserve_insertion_order=False) as connection:
        shards = [glob.escape(str(path)) for path in paths]
        pairs = [(row["case_id"], row["first_case"]) for row in read_rows(connection, _COPIES, shards=shards)]
    first_cases = _join_copies(pairs)
    names = pa.array(first_cases, pa.string())
    clusters = pa.array([f"copies of {first}" for first in first_cases.values()], pa.string())
    for path in paths:
        shard = pq.read_table(path, schema=SHARD_SCHEMA)
        own = pc.take(clusters, pc.index_in(shard["case_id"], value_set=names))
        joined = pc.coalesce(shard["cluster"], own)
        if joined.null_count < shard["cluster"].null_count:
            write_shard(
                shard.set_column(shard.column_names.index("cluster"), SHARD_SCHEMA.field("cluster"), joined), path
            )


def _join_copies(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Lowest id of each case's copies, its own included. pairs: a case and a copy of it."""
    first_cases: dict[str, str] = {}

    def first_of(case_id: str) -> str:
        while (above := first_cases.setdefault(case_id, case_id)) != case_id:
            first_cases[case_id] = first_cases[above]
            case_id = above
        return case_id

    for pair in pairs:
        low, high = sorted(map(first_of, pair))
        first_cases[high] = low
    return {case_id: first_of(case_id) for case_id in list(first_cases)}


def _rewrite(path: Path, shard: pa.Table, is_kept: pa.ChunkedArray) -> None:
    """Write a shard again with the rows to keep, unless these are all; a shard without any is removed."""
    filtered = shard.filter(is_kept)
    if not filtered.num_rows:
        path.unlink()
    elif filtered.num_rows < shard.num_rows:
        write_shard(filtered, path)


class QuarantineWriter:
    """Writer of bad rows in batches of some thousands to one file, renamed into place at the end."""

    def __init__(self, path: Path, run_id: str) -> None:
        self._path, self._run_id = path, run_id
        self._writer = pq.ParquetWriter(temporary_path(path), QUARANTINE_SCHEMA, **PARQUET_SETTINGS)
        self._rows: list[tuple[str, str, int, str, str]] = []
        self.count = 0

    def add(self, raw: RawRow, reason: str) -> None:
        """Add one row, its text cut to 2,000 characters."""
        self._rows.append((self._run_id, raw.source, raw.line, reason, _row_text(raw)[:_MOST_ROW_CHARACTERS]))
        self.count += 1
        if len(self._rows) >= _QUARANTINE_BATCH_ROWS:
            self._write()

    def _write(self) -> None:
        columns = zip(*self._rows, strict=True) if self._rows else ([] for _ in QUARANTINE_SCHEMA)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, QUARANTINE_SCHEMA, strict=True)]
        self._writer.write_table(pa.table(arrays, schema=QUARANTINE_SCHEMA))
        self._rows = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._write()
        self._writer.close()
        if kind is None:
            temporary_path(self._path).replace(self._path)
        else:
            temporary_path(self._path).unlink()


def _row_text(raw: RawRow) -> str:
    """Text of the row as in the file; for Parquet, its JSON."""
    if isinstance(raw.text, bytes):
        return raw.text[: 4 * _MOST_ROW_CHARACTERS].decode(errors="ignore").rstrip("\r\n")
    return raw.text.rstrip("\r\n") if raw.text is not None else canonical_json(raw.content)
