"""Rules about methods."""

from collections.abc import Iterator
from typing import Any

from gradebook.rubrics.lint.findings import Remark, register_rule
from gradebook.rubrics.model.functions import STAND_INS, is_within
from gradebook.rubrics.model.methods import FunctionMethod, PreferenceMethod, SchemaMethod, SimilarityMethod
from gradebook.rubrics.model.rubric import Rubric

_ANNOTATIONS = (
    "$schema $id $anchor $comment $defs $vocabulary definitions title description default examples deprecated readOnly "
    "writeOnly format contentMediaType contentEncoding contentSchema"
)
ANNOTATIONS = frozenset(_ANNOTATIONS.split())
_EMPTY: tuple[tuple[str, Any], ...] = (
    ("properties", {}),
    ("patternProperties", {}),
    ("required", []),
    ("additionalProperties", True),
    ("additionalProperties", {}),
    ("items", True),
    ("items", {}),
)


@register_rule("similarity-gate", "warning", "Give it a weight, and let claims, a check or a judge be the gate.")
def find_similarity_gates(rubric: Rubric) -> Iterator[Remark]:
    """A gate rests on similarity, which a reversed meaning passes and a right answer in other words fails."""
    for index, criterion in enumerate(rubric.criteria):
        if criterion.gate and isinstance(criterion.method, SimilarityMethod):
            message = "found a gate by similarity, which no threshold makes reliable, expected a weight"
            yield Remark(("criteria", index, "method"), message)


@register_rule("preference-gate", "warning", "Give it a weight, and let what an answer must have be the gate.")
def find_preference_gates(rubric: Rubric) -> Iterator[Remark]:
    """A gate rests on a preference, which says which of two answers is better, not whether either is good enough."""
    for index, criterion in enumerate(rubric.criteria):
        if criterion.gate and isinstance(criterion.method, PreferenceMethod):
            message = "found a gate by preference, which a bad answer passes beside a worse one, expected a weight"
            yield Remark(("criteria", index, "method"), message)


@register_rule("unknown-function", "warning", "Name a check, a schema, a judge or a function of your own.")
def find_stand_ins(rubric: Rubric) -> Iterator[Remark]:
    """A placeholder stands for a rule that could not be imported."""
    for index, name in _functions(rubric):
        if is_within(name.partition(":")[0], STAND_INS):
            message = f"found the function {name}, a placeholder from an import, expected an existing one"
            yield Remark(("criteria", index, "method"), message)


@register_rule("own-function", "note", "Name its package with --allow-functions.")
def find_functions(rubric: Rubric) -> Iterator[Remark]:
    """A function of your own gives the verdict: it runs only if its package is allowed."""
    for index, name in _functions(rubric):
        if not is_within(name.partition(":")[0], STAND_INS):
            expected = "expected its package in --allow-functions"
            yield Remark(("criteria", index, "method"), f"found the function {name}, {expected}")


def _functions(rubric: Rubric) -> Iterator[tuple[int, str]]:
    for index, criterion in enumerate(rubric.criteria):
        if isinstance(criterion.method, FunctionMethod):
            yield index, criterion.method.function


@register_rule("schema-accepts-everything", "warning", "State requirements in the schema, or use the check json_valid.")
def find_empty_schemas(rubric: Rubric) -> Iterator[Remark]:
    """A schema accepts every output that is JSON."""
    for index, criterion in enumerate(rubric.criteria):
        if isinstance(criterion.method, SchemaMethod) and _accepts_everything(criterion.method.json_schema):
            message = "found a schema that accepts any JSON, expected one that an output could fail"
            yield Remark(("criteria", index, "method", "schema"), message)


def _accepts_everything(schema: dict[str, Any]) -> bool:
    return all(keyword in ANNOTATIONS or (keyword, value) in _EMPTY for keyword, value in schema.items())
