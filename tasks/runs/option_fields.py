"""Options as pydantic fields: types of flow parameters and keys of suites files."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from gradebook.tasks.runs.request import Option

_TYPES: Mapping[Any, Any] = {Mapping: dict[str, str], tuple: tuple[str, ...], datetime: str}


def field_type(option: Option, *, is_strict: bool) -> Any:
    """The type of an option in JSON or YAML, with its bounds; without None.

    is_strict: accept no text as a number, no number as a truth value, and no empty text.
    """
    if option.choices:
        return Literal[*option.choices]
    value_type = _TYPES.get(option.value_type, option.value_type)
    settings: dict[str, Any] = {"ge": option.least, "le": option.most}
    if is_strict:
        settings |= (
            {"min_length": 1} if value_type is str else {"strict": True} if value_type in (int, float, bool) else {}
        )
    settings = {name: setting for name, setting in settings.items() if setting is not None}
    return Annotated[value_type, Field(**settings)] if settings else value_type


def suite_field(option: Option) -> tuple[Any, Any]:
    """The key of a suites file: its type, and its default and meaning."""
    value_type = field_type(option, is_strict=True)
    return value_type | None if option.default is None else value_type, Field(
        default=option.default, description=option.help
    )
