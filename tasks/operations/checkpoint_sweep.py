"""Sweep for checkpoints without a decision: outputs in a folder, or named by a table or query."""

import glob
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gradebook.rubrics.model.errors import InputError, OutputsError
from gradebook.tasks.datasets.discovery import dataset_files, digest_files, read_rows
from gradebook.tasks.datasets.file_formats import encoding_of
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.user_queries import run_query
from gradebook.tasks.operations.checkpoint_decisions import decided_keys, name_checkpoint
from gradebook.tasks.rubric_store.versions import find_rubric

# Tried in this order on the end of a path; prefixed with {model}/ if no model is named.
PATTERNS = ("step-{step}.*", "checkpoint-{step}/outputs.*", "checkpoint-{step}.*", "step-{step}/outputs.*")
_PLACES = {"model": r"(?P<model>[^/]+)", "checkpoint": r"(?P<checkpoint>[^/]+)", "step": r"(?P<step>\d{1,18})"}
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


def find_saved(place: str, model: str | None, pattern: str | None = None) -> tuple[SavedCheckpoint, ...]:
    """Find checkpoints' outputs in a folder or glob, by model and step, or in a file with a table, in its order.

    Raises `InputError` for an invalid pattern, and if two files belong to one checkpoint.
    """
    if os.path.isfile(place):  # noqa: PTH113 - Path raises for a name that is too long
        return _listed(Path(place), model)
    patterns = [pattern] if pattern else [*PATTERNS] if model else [f"{{model}}/{known}" for known in PATTERNS]
    expressions = [_expression(text, model) for text in patterns]
    found: dict[tuple[str, str | None, int | None], SavedCheckpoint] = {}
    for path in _paths(place, has_folders=pattern is not None):
        saved = _saved_at(path, expressions, model)
        if saved is None:
            continue
        other = found.setdefault((saved.model, saved.checkpoint, saved.step), saved)
        if other is not saved:
            raise InputError(
                "sweep",
                f"{other.outputs} and {saved.outputs}, both of {saved.name}",
                "one file for each checkpoint",
                "a --pattern that names a folder reads its files together",
            )
    return tuple(sorted(found.values(), key=lambda saved: (saved.model, saved.step or 0, saved.checkpoint or "")))


def _listed(table: Path, model: str | None) -> tuple[SavedCheckpoint, ...]:
    """Read the checkpoints of a table in a file; columns as in `query_saved`. model: if there is no such column."""
    found = []
    for row in read_rows((table,), {}, ()):
        if isinstance(row.content, str):
            raise InputError(f"{table}:{row.line}", row.content)
        cells = {name: None if cell == "" else cell for name, cell in row.content.items()}  # CSV: an empty cell
        saved = _saved_row({"model": model, "outputs": None} | cells, f"{table}:{row.line}")
        found.append(replace(saved, outputs=os.path.join(table.parent, saved.outputs)))  # noqa: PTH118 - may be a glob
    return tuple(saved for saved in found if model in (None, saved.model))


def query_saved(lake: Lake, query: str) -> tuple[SavedCheckpoint, ...]:
    """Checkpoints named by a query with the columns model, outputs, and checkpoint or step or both."""
    rows = run_query(lake, query)
    names = set(rows.column_names)
    if not {"model", "outputs"} <= names or not names & {"checkpoint", "step"}:
        found = ", ".join(rows.column_names) or "none"
        raise InputError("--query", f"the columns {found}", "model, outputs, and checkpoint or step")
    return tuple(_saved_row(row, "--query") for row in rows.to_pylist())


def undecided(
    lake: Lake, rubric: str, found: Iterable[SavedCheckpoint], column_map: Mapping[str, str]
) -> tuple[SavedCheckpoint, ...]:
    """Select the checkpoints without a decision by this rubric version, including those with unreadable outputs."""
    wanted = find_rubric(rubric, lake)
    decided = decided_keys(lake, wanted.id, wanted.version)
    return tuple(_undecided(found, decided, column_map))


def _undecided(
    found: Iterable[SavedCheckpoint], decided: frozenset[tuple[str, str, str]], column_map: Mapping[str, str]
) -> Iterator[SavedCheckpoint]:
    for saved in found:
        try:
            files = dataset_files(saved.outputs)
            name = name_checkpoint(files, column_map, saved.checkpoint, saved.step)
            digest = digest_files(files)
        except OutputsError as error:
            yield replace(saved, fault=str(error))
            continue
        if (saved.model, name, digest) not in decided:
            yield saved


def _paths(place: str, *, has_folders: bool) -> list[Path]:
    """Sorted candidates for outputs: no hidden files, and folders only with a pattern."""
    root = Path(place)
    if root.is_dir():
        found = [path for path in root.rglob("*") if not _is_hidden(path.relative_to(root))]
    elif glob.has_magic(place):
        found = [Path(path) for path in glob.glob(place, recursive=True)]  # noqa: PTH207 - may be absolute
    else:
        raise InputError("sweep", f"no {place!r}", "a folder, a glob, or a file with a table of checkpoints")
    return sorted(path for path in found if has_folders or path.is_file())


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _expression(pattern: str, model: str | None) -> re.Pattern[str]:
    """Convert a pattern to a regular expression for the end of a path."""
    names = [name for name in _TOKEN.findall(pattern) if name]
    if unknown := sorted({*names} - _PLACES.keys()):
        raise InputError("--pattern", f"{{{unknown[0]}}}", "{model}, {checkpoint} and {step}")
    if len({*names}) < len(names) or not {"checkpoint", "step"} & {*names}:
        raise InputError("--pattern", f"{pattern!r}", "{checkpoint} or {step} in it, each once")
    if model is None and "model" not in names:
        raise InputError("--pattern", f"{pattern!r} and no --model", "{model} in it, or --model")
    texts, place = [], 0
    for token in _TOKEN.finditer(pattern):
        texts += [re.escape(pattern[place : token.start()]), _PLACES.get(token[1] or "", "[^/]*")]
        place = token.end()
    return re.compile(f"(?:^|.*/){''.join(texts)}{re.escape(pattern[place:].rstrip('/'))}")


def _saved_at(path: Path, expressions: Iterable[re.Pattern[str]], model: str | None) -> SavedCheckpoint | None:
    """Checkpoint whose outputs are at a path, from the first pattern that matches; None if none does."""
    found = next((match for each in expressions if (match := each.fullmatch(path.as_posix()))), None)
    if found is None or (path.is_file() and encoding_of(path) is None):
        return None
    named = found.groupdict()
    if model is not None and named.get("model") not in (None, model):
        return None
    step = named.get("step")
    return SavedCheckpoint(
        model or str(named["model"]), named.get("checkpoint"), None if step is None else int(step), str(path)
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
