"""Import of files of dimensions."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from gradebook.rubrics.importers.dimensions.methods import (
    DIMENSIONS,
    GATES,
    LEVELLED,
    LEVELS,
    method_of,
    named_check,
    question_of,
)
from gradebook.rubrics.importers.foreign_file import OpenMapping, open_json
from gradebook.rubrics.importers.ids import DistinctIds, complete_version, identifier
from gradebook.rubrics.importers.interfaces import Imported
from gradebook.rubrics.importers.metadata import FIRST_VERSION, Kept, filled, kept_as, plain_number
from gradebook.rubrics.model.rows import Row
from gradebook.rubrics.model.rubric import LARGEST_WEIGHT

MethodName = Literal["deterministic", "semantic_similarity", "llm_judge", "claim_pipeline", "groundedness", "human"]
UNDECIDED = ("deterministic", None)
Percent = Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)]


class _Question(OpenMapping):
    id: Annotated[str, Field(min_length=1)]
    name: str | None = None
    description: str | None = None
    rule: str | None = None
    prompt: str | None = None


class _Dimension(_Question):
    method: MethodName
    weight: Annotated[float, Field(ge=0, le=LARGEST_WEIGHT, allow_inf_nan=False)]
    threshold: Percent


class _Gate(_Question):
    method: MethodName | None = None
    threshold: Percent | None = None


def _id_alone(value: Any) -> Any:
    """Convert a gate's bare name to a mapping."""
    return {"id": value} if isinstance(value, str) else value


class _File(OpenMapping):
    id: Annotated[str, Field(min_length=1)]
    name: str | None = None
    description: str | None = None
    owner: str | None = None
    version: str | None = None
    dimensions: Annotated[list[_Dimension], Field(min_length=1)]
    safety_gates: Annotated[list[Annotated[_Gate, BeforeValidator(_id_alone)]], Field(default_factory=list)]


def read_dimensions(text: str, path: str) -> Imported:
    """Import the rubric of a file of dimensions. Raises `RubricError` with every fault and its place."""
    reading = open_json(text, path)
    file = reading.fit_whole(_File)
    reading.note_repeats((entry.id for entry in file.dimensions), (DIMENSIONS,))
    reading.note_repeats((entry.id for entry in file.safety_gates), (GATES,))
    kept, ids = Kept(), DistinctIds()
    entries: list[_Dimension | _Gate] = [*file.dimensions, *file.safety_gates]
    criteria = [_criterion(entry, ids.take(entry.id), kept) for entry in entries]
    return reading.finish({**_head(file, kept), "weight_sum": 1, "criteria": criteria}, kept)


def _head(file: _File, kept: Kept) -> Row:
    rubric_id, version = identifier(file.id, "rubric"), complete_version(file.version or FIRST_VERSION)
    renamed = {"id": None if rubric_id == file.id else file.id, "version": None if version else file.version}
    left = kept.note_all("", filled({**renamed, **file.left}))
    texts = {"name": file.name, "description": file.description, "owner": file.owner}
    return {"id": rubric_id, "version": version or FIRST_VERSION, **filled(texts), **kept_as("dimensions", left)}


def _criterion(entry: _Dimension | _Gate, criterion_id: str, kept: Kept) -> Row:
    where = GATES if isinstance(entry, _Gate) else DIMENSIONS
    asked = question_of({"rule": entry.rule, "prompt": entry.prompt}, entry.method, entry.name, entry.id)
    description = entry.description or asked
    left = _left_of(entry, criterion_id, description)
    check = named_check(entry.method, entry.id, (entry.rule, entry.prompt))
    kept.note(*(f"{where}.{key}{_remark_on(key, entry.method, check)}" for key in left))
    return {
        "id": criterion_id,
        **filled({"name": entry.name}),
        "description": description,
        **({"gate": True} if isinstance(entry, _Gate) else {"weight": plain_number(entry.weight)}),
        **({} if entry.threshold is None else {"threshold": entry.threshold / 100}),
        **({"levels": [dict(level) for level in LEVELS]} if entry.method in LEVELLED else {}),
        "method": method_of(entry.method, criterion_id, check),
        **kept_as("dimensions", left),
    }


def _left_of(entry: _Dimension | _Gate, criterion_id: str, description: str) -> Row:
    """Content of a dimension or gate without a place in a criterion."""
    renamed = {"id": None if entry.id == criterion_id else entry.id}
    sources = {"rule": entry.rule, "prompt": entry.prompt}
    unasked = {key: text for key, text in sources.items() if text != description}
    # groundedness is imported like claim_pipeline; for the other two, and without a method, the criterion's is a
    # placeholder
    is_stored = entry.method in ("groundedness", *UNDECIDED)
    return {**({"method": entry.method} if is_stored else {}), **filled({**renamed, **unasked, **entry.left})}


def _remark_on(key: str, method: MethodName | None, check: str | None) -> str:
    is_undecided = key == "method" and method in UNDECIDED
    if is_undecided and check is not None:
        return f" ({method or 'none'}: the check {check})"
    return f" ({method or 'none'}: nothing here decides it)" if is_undecided else ""
