"""The table `checkpoints`: one decision for each model, checkpoint, rubric version and content of outputs; and the
checkpoints without one, whose outputs are in a folder, or named by a table or query.
"""

import glob
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb

from gradebook.rubrics.model.errors import Fault, InputError, OutputsError
from gradebook.tasks.datasets.discovery import dataset_files, digest_files
from gradebook.tasks.datasets.discovery import read_rows as read_file_rows
from gradebook.tasks.datasets.discovery import read_rows as read_output_rows
from gradebook.tasks.datasets.file_formats import encoding_of
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import commit, connect_up_to_date
from gradebook.tasks.lake.errors import NoLakeThere
from gradebook.tasks.lake.rows import Row, read_rows
from gradebook.tasks.lake.sql import query
from gradebook.tasks.lake.user_queries import run_query
from gradebook.tasks.rubric_store.versions import find_rubric

APPROVED, NEEDS_REVISION, UNDECIDED = "approved", "needs_revision", "undecided"

_DECIDED = """
select * from checkpoints
where model = ? and checkpoint = ? and rubric_id = ? and rubric_version = ? and dataset_digest = ?
"""
_CLEAR = _DECIDED.replace("select *", "delete")
_ALL = "select * from checkpoints where ? is null or model = ? order by decided_at desc, model, checkpoint, rubric_id"
_KEYS = "select model, checkpoint, dataset_digest from checkpoints where rubric_id = ? and rubric_version = ?"


@dataclass(frozen=True, slots=True)
class CheckpointKey:
    """Key of a decision. dataset_digest: of the content of the outputs' files."""

    model: str
    checkpoint: str
    rubric_id: str
    rubric_version: str
    dataset_digest: str

    @property
    def values(self) -> tuple[str, ...]:
        """All fields, in order."""
        return self.model, self.checkpoint, self.rubric_id, self.rubric_version, self.dataset_digest


def decide(lake: Lake, row: Row) -> Row:
    """Insert the decision unless one exists; returns the stored decision. row: all columns, by name.

    A checkpoint that is undecided is decided about again: its row is replaced.
    """
    stored_rows: list[Row] = []

    def body(connection: duckdb.DuckDBPyConnection, _version: int) -> None:
        earlier = read_rows(connection, _DECIDED, *key_of(row).values)
        if earlier and earlier[0]["status"] == UNDECIDED:
            connection.execute(_CLEAR, list(key_of(row).values))
            earlier = ()
        if not earlier:
            names, marks = ", ".join(row), ", ".join("?" for _ in row)
            connection.execute(f"insert into checkpoints ({names}) values ({marks})", list(row.values()))
        stored_rows[:] = earlier or [row]

    commit(lake, f"checkpoint {row['model']} @ {row['checkpoint']} {row['status']} by {row['run_id']}", body)
    return stored_rows[0]


def key_of(row: Row) -> CheckpointKey:
    """Key of a row of the table."""
    return CheckpointKey(*(row[name] for name in CheckpointKey.__dataclass_fields__))


def find_decided(lake: Lake, key: CheckpointKey) -> Row | None:
    """Stored decision of a key; None if there is none."""
    return _first_row(lake, _DECIDED, *key.values)


def approved_checkpoints(lake: Lake, key: CheckpointKey, before: datetime | None = None) -> tuple[Row, ...]:
    """Approved checkpoints of the model, except this one, under the same rubric version, highest mean first.

    before: only those decided before this time.
    """
    parameters = {name: getattr(key, name) for name in ("model", "checkpoint", "rubric_id", "rubric_version")}
    with suppress(NoLakeThere), connect_up_to_date(lake) as connection:
        return read_rows(connection, query("operations/approved_checkpoints"), before=before, **parameters)
    return ()


def list_checkpoints(lake: Lake, model: str | None = None) -> tuple[Row, ...]:
    """List all decisions, or one model's, newest first. Raises `LakeError` if there is no lake."""
    with connect_up_to_date(lake) as connection:
        return read_rows(connection, _ALL, model, model)


def decided_keys(lake: Lake, rubric_id: str, rubric_version: str) -> frozenset[tuple[str, str, str]]:
    """Model, checkpoint and digest of the outputs of each decision by a rubric version."""
    with suppress(NoLakeThere), connect_up_to_date(lake) as connection:
        rows = read_rows(connection, _KEYS, rubric_id, rubric_version)
        return frozenset((row["model"], row["checkpoint"], row["dataset_digest"]) for row in rows)
    return frozenset()


def name_checkpoint(
    files: Sequence[Path], column_map: Mapping[str, str], checkpoint: str | None = None, step: int | None = None
) -> str:
    """Name of a checkpoint: the given name, otherwise the one in its outputs, otherwise its step.

    Raises `OutputsError` if there is none of the three.
    """
    if checkpoint:
        return checkpoint
    source = column_map.get("checkpoint", "checkpoint")
    with closing(read_output_rows(files, column_map)) as rows:  # type: ignore[type-var]  # a generator
        stored_name = next((row.content.get(source) for row in rows if isinstance(row.content, dict)), None)
    if stored_name not in (None, ""):
        return str(stored_name)
    if step is not None:
        return str(step)
    name = str(files[0]) if files else "outputs"
    message = "found no column `checkpoint`, no --checkpoint and no --step, expected one of them"
    raise OutputsError((Fault(name, None, message),))


def _first_row(lake: Lake, select: str, *parameters: object) -> Row | None:
    rows: Iterable[Row] = ()
    with suppress(NoLakeThere), connect_up_to_date(lake) as connection:
        rows = read_rows(connection, select, *parameters)
    return next(iter(rows), None)


# Tried in this order on the end of a path; prefixed with {model}/ if no model is named.
PATTERNS = ("step-{step}.*", "checkpoint-{step}/outputs.*", "checkpoint-{step}.*", "step-{step}/outputs.*")
_FIELD_PATTERNS = {"model": r"(?P<model>[^/]+)", "checkpoint": r"(?P<checkpoint>[^/]+)", "step": r"(?P<step>\d{1,18})"}
_TOKEN = re.compile(r"\{(\w*)\}|\*")


@dataclass(frozen=True, slots=True)
class SavedCheckpoint:
    """Saved outputs of a checkpoint. checkpoint, step: None if unknown. fault: why the outputs can't be read, if so."""

    model: str
    checkpoint: str | None
    step: int | None
    outputs: str
    fault: str | None = None

    @property
    def name(self) -> str:
        """Display name."""
        return f"{self.model} @ {self.checkpoint if self.checkpoint is not None else self.step}"


def find_saved(location: str, model: str | None, pattern: str | None = None) -> tuple[SavedCheckpoint, ...]:
    """Find checkpoints' outputs in a folder or glob, by model and step, or in a file with a table, in its order.

    Raises `InputError` for an invalid pattern, and if two files belong to one checkpoint.
    """
    if os.path.isfile(location):  # noqa: PTH113 - Path raises for a name that is too long
        return _read_checkpoint_table(Path(location), model)
    patterns = [pattern] if pattern else [*PATTERNS] if model else [f"{{model}}/{usual}" for usual in PATTERNS]
    expressions = [_expression(text, model) for text in patterns]
    saved_by_key: dict[tuple[str, str | None, int | None], SavedCheckpoint] = {}
    for path in _paths(location, has_folders=pattern is not None):
        saved = _saved_at(path, expressions, model)
        if saved is None:
            continue
        earlier = saved_by_key.setdefault((saved.model, saved.checkpoint, saved.step), saved)
        if earlier is not saved:
            raise InputError(
                "sweep",
                f"{earlier.outputs} and {saved.outputs}, both of {saved.name}",
                "one file for each checkpoint",
                "a --pattern that names a folder reads its files together",
            )
    return tuple(
        sorted(saved_by_key.values(), key=lambda saved: (saved.model, saved.step or 0, saved.checkpoint or ""))
    )


def _read_checkpoint_table(table: Path, model: str | None) -> tuple[SavedCheckpoint, ...]:
    """Read the checkpoints of a table in a file; columns as in `query_saved`. model: if there is no such column."""
    checkpoints = []
    for row in read_file_rows((table,), {}, ()):
        if isinstance(row.content, str):
            raise InputError(f"{table}:{row.line}", row.content)
        cells = {name: None if cell == "" else cell for name, cell in row.content.items()}  # CSV: an empty cell
        saved = _saved_row({"model": model, "outputs": None} | cells, f"{table}:{row.line}")
        checkpoints.append(replace(saved, outputs=os.path.join(table.parent, saved.outputs)))  # noqa: PTH118 - may be a glob
    return tuple(saved for saved in checkpoints if model in (None, saved.model))


def query_saved(lake: Lake, query: str) -> tuple[SavedCheckpoint, ...]:
    """Checkpoints named by a query with the columns model, outputs, and checkpoint or step or both."""
    rows = run_query(lake, query)
    names = set(rows.column_names)
    if not {"model", "outputs"} <= names or not names & {"checkpoint", "step"}:
        columns = ", ".join(rows.column_names) or "none"
        raise InputError("--query", f"the columns {columns}", "model, outputs, and checkpoint or step")
    return tuple(_saved_row(row, "--query") for row in rows.to_pylist())


def without_decision(
    lake: Lake, rubric: str, checkpoints: Iterable[SavedCheckpoint], column_map: Mapping[str, str]
) -> tuple[SavedCheckpoint, ...]:
    """Select the checkpoints without a decision by this rubric version, including those with unreadable outputs."""
    known_rubric = find_rubric(rubric, lake)
    decided = decided_keys(lake, known_rubric.id, known_rubric.version)
    return tuple(_undecided(checkpoints, decided, column_map))


def _undecided(
    checkpoints: Iterable[SavedCheckpoint], decided: frozenset[tuple[str, str, str]], column_map: Mapping[str, str]
) -> Iterator[SavedCheckpoint]:
    for saved in checkpoints:
        try:
            files = dataset_files(saved.outputs)
            name = name_checkpoint(files, column_map, saved.checkpoint, saved.step)
            digest = digest_files(files)
        except OutputsError as error:
            yield replace(saved, fault=str(error))
            continue
        if (saved.model, name, digest) not in decided:
            yield saved


def _paths(location: str, *, has_folders: bool) -> list[Path]:
    """Sorted candidates for outputs: no hidden files, and folders only with a pattern."""
    root = Path(location)
    if root.is_dir():
        paths = [path for path in root.rglob("*") if not _is_hidden(path.relative_to(root))]
    elif glob.has_magic(location):
        paths = [Path(path) for path in glob.glob(location, recursive=True)]  # noqa: PTH207 - may be absolute
    else:
        raise InputError("sweep", f"no {location!r}", "a folder, a glob, or a file with a table of checkpoints")
    return sorted(path for path in paths if has_folders or path.is_file())


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _expression(pattern: str, model: str | None) -> re.Pattern[str]:
    """Convert a pattern to a regular expression for the end of a path."""
    names = [name for name in _TOKEN.findall(pattern) if name]
    if unknown := sorted({*names} - _FIELD_PATTERNS.keys()):
        raise InputError("--pattern", f"{{{unknown[0]}}}", "{model}, {checkpoint} and {step}")
    if len({*names}) < len(names) or not {"checkpoint", "step"} & {*names}:
        raise InputError("--pattern", f"{pattern!r}", "{checkpoint} or {step} in it, each once")
    if model is None and "model" not in names:
        raise InputError("--pattern", f"{pattern!r} and no --model", "{model} in it, or --model")
    texts, position = [], 0
    for token in _TOKEN.finditer(pattern):
        texts += [re.escape(pattern[position : token.start()]), _FIELD_PATTERNS.get(token[1] or "", "[^/]*")]
        position = token.end()
    return re.compile(f"(?:^|.*/){''.join(texts)}{re.escape(pattern[position:].rstrip('/'))}")


def _saved_at(path: Path, expressions: Iterable[re.Pattern[str]], model: str | None) -> SavedCheckpoint | None:
    """Checkpoint whose outputs are at a path, from the first pattern that matches; None without a match."""
    first_match = next((match for expression in expressions if (match := expression.fullmatch(path.as_posix()))), None)
    if first_match is None or (path.is_file() and encoding_of(path) is None):
        return None
    fields = first_match.groupdict()
    if model is not None and fields.get("model") not in (None, model):
        return None
    step = fields.get("step")
    return SavedCheckpoint(
        model or str(fields["model"]), fields.get("checkpoint"), None if step is None else int(step), str(path)
    )


def _saved_row(row: Mapping[str, Any], source: str) -> SavedCheckpoint:
    checkpoint, step = row.get("checkpoint"), row.get("step")
    if row["model"] is None or row["outputs"] is None or (checkpoint is None and step is None):
        raise InputError(source, f"the row {dict(row)!s:.200}", "a model, outputs, and a checkpoint or a step")
    if isinstance(step, str) and step.isascii() and step.isdigit():  # CSV values are all text
        step = int(step)
    if step is not None and (isinstance(step, bool) or not isinstance(step, int)):
        raise InputError(source, f"the step {step!r}", "a whole number")
    return SavedCheckpoint(
        str(row["model"]), None if checkpoint is None else str(checkpoint), step, str(row["outputs"])
    )
