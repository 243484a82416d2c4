"""Repair of an unfinished run's folder: files left unreadable by a kill, a full disk or a power cut are dropped.

The run writes dropped files again. Records of money are never dropped.
"""

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from gradebook.tasks.system.files import write_bytes
from gradebook.tasks.workspace.folder import RunFolder

_INGESTED = ("shards", "case_criteria")  # written by the ingest, which ends with ingest.json


def drop_unreadable(folder: RunFolder) -> None:
    """Remove the unreadable files of a run; the run continues as if they had not been written yet."""
    broken = list(unreadable_files(folder))
    if any(folder.block_folder in path.parents for path in broken):
        # The next command may form other blocks: a shard's files would then belong to other outputs.
        folder.remove_working_files()
        for path in (folder.path / "ingest.json", folder.stopping_file):
            path.unlink(missing_ok=True)
    for path in broken:
        path.unlink(missing_ok=True)
        if path.parent.name in _INGESTED or path == folder.quarantine_file:
            (folder.path / "ingest.json").unlink(missing_ok=True)
    for path in (folder.timings_file, folder.quality_file):
        if path.exists():
            _drop_broken_lines(path)


def unreadable_files(folder: RunFolder) -> Iterator[Path]:
    """Unreadable files of a run that can be written again, such as empty ones; none through a link."""
    of_json = (folder.path.glob("*.json"), folder.block_folder.glob("*.json"))
    rewritten = (*of_json, folder.path.glob("*.parquet"), folder.path.glob("*/**/*.parquet"))
    for path in sorted(path for paths in rewritten for path in paths):
        if path in (folder.identity_file, folder.published_file):  # without these files it would be another run
            continue
        if path.resolve() != folder.path.resolve() / path.relative_to(folder.path):
            continue
        if not (_is_json(path.read_bytes()) if path.suffix == ".json" else _is_parquet(path)):
            yield path


def _drop_broken_lines(path: Path) -> None:
    content = path.read_bytes()
    whole_lines = b"".join(
        line for line in content.splitlines(keepends=True) if line.endswith(b"\n") and _is_json(line)
    )
    if whole_lines != content:
        write_bytes(path, whole_lines)


def _is_json(content: bytes) -> bool:
    with suppress(ValueError, RecursionError):
        json.loads(content)
        return True
    return False


def _is_parquet(path: Path) -> bool:
    """Whether each page of a Parquet file reads, and has its checksum; earlier versions wrote none."""
    with suppress(pa.ArrowException, OSError), pq.ParquetFile(path, page_checksum_verification=True) as file:
        row_count = sum(batch.num_rows for batch in file.iter_batches())
        return bool(row_count == file.metadata.num_rows)  # a page's own header has no checksum
    return False
