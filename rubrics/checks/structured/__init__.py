"""Checks of texts for programs: JSON, XML, YAML, SQL, Python."""

from gradebook.rubrics.checks.structured import (
    json_equals,
    json_objects,
    json_valid,
    markup_syntax,
    python_syntax,
    sql_syntax,
)

MODULES = (
    json_valid,
    json_objects,
    json_equals,
    markup_syntax,
    sql_syntax,
    python_syntax,
)

__all__ = ["MODULES"]
