"""Description of a check in plain values, for the commands and the documentation."""

import json
from collections.abc import Mapping
from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from gradebook.rubrics.check_kit.check import COSTS, Check, Example
from gradebook.rubrics.text.field_descriptions import field_descriptions

REQUIRED = "required"


def describe_check(check: Check) -> dict[str, Any]:
    """Describe a check in JSON values.

    settings: mappings with `name`, `default` (JSON text, "required", or empty if there is none) and `meaning`.
    """
    fields, meanings = check.settings_model.model_fields, field_descriptions(check.settings_model)
    return {
        "name": check.name,
        "summary": check.summary,
        "details": check.details,
        "cost": f"{check.cost}: {COSTS[check.cost]}",
        "columns": list(check.columns),
        "settings": [_describe_setting(name, field, meanings[name]) for name, field in fields.items()],
        "examples": [_describe_example(example) for example in check.examples],
    }


def _describe_setting(name: str, field: FieldInfo, description: str) -> dict[str, str]:
    meaning = " ".join(description.split())
    choices = _choices(field.annotation)
    if any(choice not in meaning and choice not in str(field.default) for choice in choices):
        meaning += f"; one of {', '.join(f'`{choice}`' for choice in choices)}"
    return {"name": field.alias or name, "default": _default_words(field), "meaning": meaning}


def _choices(annotation: Any) -> list[str]:
    """Values of every `Literal` in an annotation, nested ones included."""
    if get_origin(annotation) is Literal:
        return [str(value) for value in get_args(annotation)]
    return [choice for part in get_args(annotation) for choice in _choices(part)]


def _default_words(field: FieldInfo) -> str:
    if field.is_required():
        return REQUIRED
    default = field.get_default(call_default_factory=True)
    return "" if default is None else json.dumps(default, ensure_ascii=False, default=list)


def _describe_example(example: Example) -> dict[str, Any]:
    others: Mapping[str, Any] = example.others
    return {
        "settings": dict(example.settings),
        "output": example.output,
        **{column: value for column, value in others.items() if not isinstance(value, bytes)},
        "is_passed": example.is_passed,
    }
