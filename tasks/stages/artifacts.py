"""Artifacts of `gradebook review`: their states in the lake, and the rubrics of their types."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Self

import duckdb
from pydantic import Field, ValidationError

from gradebook.rubrics.model.errors import Fault, InputError, RubricError
from gradebook.rubrics.model.levels import Frozen
from gradebook.rubrics.text.named_files import is_path, read_whole
from gradebook.rubrics.text.plain_words import describe, keys_of, unknown_word
from gradebook.rubrics.text.yaml_lines import read_yaml
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import commit
from gradebook.tasks.lake.rows import Row

PROVENANCE = ("case_id", "model", "checkpoint", "metadata")  # columns of a JSON artifact that say where it came from
DIGEST_BYTES = 16
MOST_BYTES = 10_000_000  # of a review file
_ROW = "from artifacts where artifact = ? and digest = ?"


class ArtifactState(StrEnum):
    """State of an artifact: one content under one name."""

    pending = "pending"
    in_review = "in_review"
    approved = "approved"
    needs_revision = "needs_revision"


@dataclass(frozen=True, slots=True)
class Artifact:
    """Artifact to review. provenance: JSON of where it came from."""

    name: str
    digest: str
    target_type: str | None
    provenance: str

    @classmethod
    def of(cls, name: str, content: bytes, row: Row, target_type: str | None) -> Self:
        """Artifact of a file's content and of the row it makes."""
        found = {key: row[key] for key in PROVENANCE if row.get(key) is not None}
        return cls(
            name,
            hashlib.blake2b(content, digest_size=DIGEST_BYTES).hexdigest(),
            target_type,
            json.dumps(found, ensure_ascii=True),
        )


class ReviewMap(Frozen):
    """Content of a review file: the rubrics of each type of artifact."""

    rubrics: dict[str, Annotated[tuple[str, ...], Field(min_length=1)]]


def rubrics_for(target_type: str, path: Path) -> tuple[str, ...]:
    """Rubrics that a review file names for a type of artifact; files are relative to it. Raises `InputError`."""
    try:
        text = read_yaml(read_whole(path, MOST_BYTES), str(path))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        expected = "expected a file that maps types of artifacts to rubrics, or --rubrics"
        raise InputError(f"{path}", f"can't be read ({reason}), {expected}") from None
    if text.values is None:
        raise RubricError(text.faults)
    try:
        rubrics = ReviewMap.model_validate(text.values).rubrics
    except ValidationError as error:
        found = [describe(fault, fault["loc"], keys_of(ReviewMap)) for fault in error.errors(include_url=False)]
        raise RubricError(tuple(Fault(text.path, text.line_of(place), message) for place, message in found)) from None
    if target_type not in rubrics:
        raise InputError("--target-type", repr(target_type), f"{unknown_word(target_type, rubrics)} of {path}")
    return tuple(str(path.parent / name) if is_path(name) else name for name in rubrics[target_type])


def set_state(
    lake: Lake, artifact: Artifact, state: ArtifactState, judge: str | None = None, run_ids: Sequence[str] = ()
) -> None:
    """Set the state of an artifact; its row keeps the time when this content was first entered."""
    now = datetime.now(UTC)

    def body(connection: duckdb.DuckDBPyConnection, _version: int) -> None:
        key = [artifact.name, artifact.digest]
        found = connection.execute(f"select target_type, created_at {_ROW}", key).fetchone()
        earlier_type, created_at = found or (None, now)
        if found:
            connection.execute(f"delete {_ROW}", key)
        target_type = artifact.target_type or earlier_type
        values = [target_type, state, judge, list(run_ids), artifact.provenance, created_at, now]
        connection.execute("insert into artifacts values (?, ?, ?, ?, ?, ?, ?, ?, ?)", [*key, *values])

    commit(lake, f"artifact {artifact.name} is {state}", body)
