"""Parameters of flows, with type, bounds and meaning for a deployment's form."""

import inspect
from collections.abc import Callable, Iterable
from inspect import Parameter
from typing import Annotated, Any, TypeVar

from pydantic import Field

from gradebook.tasks.runs.option_fields import field_type
from gradebook.tasks.runs.request import Option, Use, options_of

Dollars = Annotated[float, Field(ge=0)]
Function = TypeVar("Function", bound=Callable[..., Any])


def takes_options(use: Use) -> Callable[[Function], Function]:
    """Replace a flow function's `**options` with the options of a use as parameters.

    Prefect makes the form of a deployment from the function's signature and the `Args` of its docstring. The options
    are added to both, required parameters first.
    """

    def decorate(function: Function) -> Function:
        signature, options = inspect.signature(function), options_of(use)
        own = [each for each in signature.parameters.values() if each.kind is not Parameter.VAR_KEYWORD]
        parameters = [*(each.replace(kind=Parameter.KEYWORD_ONLY) for each in own), *map(_parameter, options)]
        parameters.sort(key=lambda parameter: parameter.default is not Parameter.empty)
        function.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        function.__doc__ = _documented(inspect.getdoc(function) or "", options)
        return function

    return decorate


def _parameter(option: Option) -> Parameter:
    found = field_type(option, is_strict=False)
    default = Parameter.empty if option.is_required else option.plain_default
    annotation = found | None if default is None else found
    return Parameter(option.name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _documented(text: str, options: Iterable[Option]) -> str:
    """Add a line for each option to the `Args` of a docstring."""
    head = text if "\nArgs:\n" in text else f"{text}\n\nArgs:"
    hints = (f"    {option.name}: {'; '.join(filter(None, (option.help, option.form_hint)))}" for option in options)
    return "\n".join([head, *hints])
