"""Descriptions of a model's fields, for docs and editors: from `Field`, or else from the docstring under the field.

pydantic could read these docstrings itself, but at each import of a model, which would more than double its time.
"""

import ast
import inspect
import textwrap
from functools import cache
from itertools import pairwise
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema


def field_descriptions(model: type[BaseModel]) -> dict[str, str]:
    """Description of each field by its name in Python, empty if there is none or the model has no source."""
    texts = {name: text for base in reversed(model.__mro__) for name, text in _texts_under_fields(base).items()}
    return {name: field.description or texts.get(name, "") for name, field in model.model_fields.items()}


class DescribedSchema(GenerateJsonSchema):
    """JSON Schema of a model in which every field has its description."""

    def model_schema(self, schema: Any) -> dict[str, Any]:
        model: type[BaseModel] = schema["cls"]
        json_schema = super().model_schema(schema)
        for name, description in field_descriptions(model).items():
            if description:
                json_schema["properties"][model.model_fields[name].alias or name].setdefault("description", description)
        return json_schema


@cache
def _texts_under_fields(model: type) -> dict[str, str]:
    if not issubclass(model, BaseModel) or model is BaseModel:
        return {}
    try:
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(model))).body
    except (OSError, TypeError):  # no source: typed into a shell
        return {}
    return {
        field.target.id: inspect.cleandoc(below.value.value)
        for field, below in pairwise(tree.body if isinstance(tree, ast.ClassDef) else ())
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(below, ast.Expr)
        and isinstance(below.value, ast.Constant)
        and isinstance(below.value.value, str)
    }
