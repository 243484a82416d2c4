"""Per-case criteria: validated, and converted to a table."""

from collections.abc import Collection, Iterator
from functools import lru_cache
from typing import Any

import pyarrow as pa

from gradebook.rubrics.check_kit.regexes import MOST_PLACES, repeated_places
from gradebook.rubrics.files.validate import CASE_CRITERIA, MOST_FAULTS_OF_ROW, validate_case_criteria
from gradebook.rubrics.files.versions import question_digest
from gradebook.rubrics.model.errors import show_faults
from gradebook.rubrics.model.json_values import Row
from gradebook.rubrics.model.methods import ROW_METHODS, CheckMethod, Method, SchemaMethod
from gradebook.rubrics.model.rubric import CaseCriterion
from gradebook.rubrics.prompts.prompt import criterion_digest
from gradebook.rubrics.text.yaml_lines import DEEPEST

MOST_SHOWN = 3  # faults of a row's criteria in a message
MOST_PLACES_OF_ROW = 10_000  # repeated places in all patterns of a row's criteria; see `repeated_places`
MOST_WORK = 200_000_000  # repeated places times characters of the row's texts: 4 s
MOST_COUNTED = 2_000  # characters of a setting; a longer setting counts by its length, as it is hardly a pattern
LEVEL_TYPE = pa.struct(
    [
        pa.field("id", pa.string()),
        pa.field("score", pa.float64()),
        pa.field("label", pa.string()),
        pa.field("description", pa.string()),
    ]
)
CASE_CRITERIA_SCHEMA = pa.schema(
    [
        pa.field("output_id", pa.string(), nullable=False),
        pa.field("criterion_id", pa.string(), nullable=False),
        pa.field("category", pa.string()),
        pa.field("weight", pa.float64(), nullable=False),  # 0 for a gate
        pa.field("is_gate", pa.bool_(), nullable=False),
        pa.field("threshold", pa.float64()),
        pa.field("gate_threshold", pa.float64(), nullable=False),
        pa.field("method", pa.string(), nullable=False),
        pa.field("description", pa.string(), nullable=False),
        pa.field("digest", pa.string(), nullable=False),
        pa.field("question_digest", pa.string()),  # null in a run of an earlier gradebook
        pa.field("levels", pa.list_(LEVEL_TYPE), nullable=False),  # worst first
        pa.field("body", pa.string(), nullable=False),  # the criterion as JSON
        pa.field("row_index", pa.int64(), nullable=False),  # row of the output within its shard
    ]
)


def case_criteria_fault(values: list[Any], taken: Collection[str] = (), *, is_unscored_allowed: bool = False) -> str:
    """Faults of a row's criteria, as text; empty if there are none.

    taken: ids of the rubric's own criteria. is_unscored_allowed: accept methods that are not implemented, and
    functions, which rows may not run; such criteria stay unscored.
    """
    deep = [index for index, criterion in enumerate(values) if _is_too_deep(criterion)]
    if deep:  # checked first, as JSON parsers have a depth limit
        message = f"found more than {DEEPEST} levels of nesting, expected fewer"
        return show_faults([f"criteria[{index}]: {message}" for index in deep], MOST_SHOWN, "; ", MOST_FAULTS_OF_ROW)
    criteria, faults = validate_case_criteria(values)
    messages = [message for _, message, _ in faults]
    seen = set(taken)
    place_counts: dict[int, int] = {}
    for index, criterion in enumerate(criteria):
        if criterion.id in seen:
            whose = "the rubric" if criterion.id in taken else "the row"
            messages.append(
                f"criteria[{index}].id: found {criterion.id!r}, which {whose} has already, expected another"
            )
        seen.add(criterion.id)
        place_counts[index] = _count_places(criterion)
        if criterion.method.type not in ROW_METHODS and not is_unscored_allowed:
            expected = f"expected {', '.join(ROW_METHODS)} (or --allow-unscored)"
            messages.append(
                f"criteria[{index}].method: found {criterion.method.type}, which no row may choose, {expected}"
            )
    for index, count in place_counts.items():
        if count > MOST_PLACES:
            message = f"found patterns whose repeats match {count:,} places, expected at most {MOST_PLACES:,}"
            messages.append(f"criteria[{index}].method: {message}")
    if (count := sum(place_counts.values())) > MOST_PLACES_OF_ROW and not messages:
        messages.append(
            f"criteria: found patterns whose repeats match {count:,} places, expected at most {MOST_PLACES_OF_ROW:,}"
        )
    return show_faults(messages, MOST_SHOWN, "; ", MOST_FAULTS_OF_ROW)


def case_work_fault(criteria: str, character_count: int) -> str | None:
    """Reason why the patterns of a row's criteria take too long on its texts, or None.

    criteria: without other faults.
    """
    place_count = _count_places_of_row(criteria)
    if place_count * character_count <= MOST_WORK:
        return None
    message = f"found patterns whose repeats match {place_count:,} places, over texts of {character_count:,} characters"
    return f"criteria: {message}, expected at most {MOST_WORK // place_count:,} characters"


@lru_cache(maxsize=10_000)  # several models answer a case
def _count_places_of_row(criteria: str) -> int:
    return sum(map(_count_places, read_case_criteria_text(criteria)))


def _count_places(criterion: CaseCriterion) -> int:
    """Sum of `repeated_places` over a criterion's patterns; a long text counts by its length."""
    patterns = _patterns(criterion.method)
    return sum(len(pattern) if len(pattern) > MOST_COUNTED else repeated_places(pattern) for pattern in patterns)


def _patterns(method: Method) -> Iterator[str]:
    """Texts that may be patterns: the patterns of a schema, and all texts in a check's settings."""
    if isinstance(method, CheckMethod):
        yield from _texts(method.settings)
    if isinstance(method, SchemaMethod):
        stack: list[Any] = [method.json_schema]
        while stack:
            value = stack.pop()
            if isinstance(value, dict):
                properties = value.get("patternProperties")
                yield from properties if isinstance(properties, dict) else ()
                if isinstance(pattern := value.get("pattern"), str):
                    yield pattern
            stack.extend(_children_of(value))


def _texts(value: Any) -> Iterator[str]:
    stack = [value]
    while stack:
        node = stack.pop()
        if isinstance(node, str):
            yield node
        stack.extend(_children_of(node))


def _is_too_deep(value: Any) -> bool:
    """Whether lists and mappings are nested more than `DEEPEST` times; no recursion, as the value may be hostile."""
    layer = [value]
    for _ in range(DEEPEST + 1):
        if not layer:
            break
        layer = [inner for node in layer for inner in _children_of(node)]
    return bool(layer)


def _children_of(value: Any) -> Collection[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def read_case_criterion(body: str) -> CaseCriterion:
    """Criterion in a table's `body`."""
    return CaseCriterion.model_validate_json(body)


@lru_cache(maxsize=10_000)  # several models answer a case
def read_case_criteria_text(text: str) -> tuple[CaseCriterion, ...]:
    """Criteria of a row, from text that has passed `case_criteria_fault`."""
    return CASE_CRITERIA.validate_json(text)


def case_criteria_table(output_ids: list[str], criteria: list[str | None]) -> pa.Table:
    """One row per output and per-case criterion, as `CASE_CRITERIA_SCHEMA`.

    output_ids, criteria: (output,), columns of a shard; the texts have passed `case_criteria_fault`.
    """
    rows = [
        row | {"output_id": output_id, "row_index": index}
        for index, (output_id, text) in enumerate(zip(output_ids, criteria, strict=True))
        if text is not None
        for row in _rows_of(text)
    ]
    return pa.Table.from_pylist(rows, schema=CASE_CRITERIA_SCHEMA)


@lru_cache(maxsize=10_000)
def _rows_of(text: str) -> tuple[Row, ...]:
    return tuple(_row(criterion) for criterion in read_case_criteria_text(text))


def _row(criterion: CaseCriterion) -> Row:
    weight = 1.0 if criterion.weight is None else criterion.weight
    return {
        "criterion_id": criterion.id,
        "category": criterion.category,
        "weight": 0.0 if criterion.gate else weight,
        "is_gate": criterion.gate,
        "threshold": criterion.threshold,
        "gate_threshold": criterion.gate_threshold,
        "method": criterion.method.type,
        "description": criterion.description,
        "digest": criterion_digest(criterion),
        "question_digest": question_digest(criterion),
        "levels": [
            {"id": level.id, "score": level.score, "label": level.label, "description": level.description or None}
            for level in criterion.ranked_levels
        ],
        "body": criterion.model_dump_json(by_alias=True, exclude_defaults=True),
    }
