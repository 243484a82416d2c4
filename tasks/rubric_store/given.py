"""Rubrics as a caller has them: files, names, mappings and objects."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gradebook.rubrics.files.digest import canonical_body, rubric_from_body
from gradebook.rubrics.files.dump import rubric_values
from gradebook.rubrics.files.load import read_rubric
from gradebook.rubrics.files.validate import validate
from gradebook.rubrics.model.errors import Fault, RubricError
from gradebook.rubrics.model.rubric import Rubric
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.rubric_store.versions import find_rubric

GivenRubric = str | Path | Mapping[str, Any] | Rubric


def load_rubric(rubric: GivenRubric, lake: str | None = None) -> Rubric:
    """Load a rubric from a file, by the name of a shipped one, or from a mapping with the keys of a file.

    A `Rubric` made in Python is validated as a file is: its checks, schemas and thresholds too. lake: URI of a lake, in
    which `ID@VERSION` is looked up.

    >>> rubric = load_rubric("json_record")
    >>> [each.id for each in rubric.criteria][:2]
    ['valid_json', 'required_keys']

    Raises `RubricError` with every fault.
    """
    if isinstance(rubric, str | Path):
        return read_rubric(rubric) if lake is None else find_rubric(str(rubric), find_lake(lake))
    if isinstance(rubric, Rubric):
        canonical_body(rubric)  # refuses what no file can hold
        _refuse_faults(rubric_values(rubric), rubric.id)
        return rubric
    if isinstance(rubric, Mapping):
        return _refuse_faults(dict(rubric), str(rubric.get("id", "rubric")))
    raise RubricError((Fault("rubric", None, f"found a {type(rubric).__name__}, expected a file, a name or a Rubric"),))


def _refuse_faults(values: dict[str, Any], name: str) -> Rubric:
    found, faults = validate(values)
    if faults or found is None:
        raise RubricError(tuple(Fault(name, None, message, rule) for _, message, rule in faults))
    return rubric_from_body(canonical_body(found))
