"""What the commands share: options, and how JSON is printed."""

import inspect
from collections.abc import Callable, Mapping
from datetime import datetime
from inspect import Parameter
from typing import Annotated, Any

import typer

from gradebook.tasks.runs.request import OPTIONS, Option, Use, options_of

DONE, NOT_MET, BAD_INPUT, NOT_FINISHED = 0, 1, 2, 3  # the exit codes
DEFAULT_LAKE: str = OPTIONS["lake"].default


def option_of(name: str) -> Any:
    """Typer's description of an option of `EvaluationRequest`."""
    option = OPTIONS[name]
    if option.is_argument:
        return typer.Argument(help=option.help)
    form = {Mapping: ", as COLUMN=NAME; may be repeated", tuple: "; may be repeated"}.get(option.value_type, "")
    return typer.Option(option.flag, envvar=option.envvar, help=f"{option.help}{form}")


def takes_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of an evaluation, in place of its `**options`."""
    signature = inspect.signature(command)
    own = [each for each in signature.parameters.values() if each.kind is not Parameter.VAR_KEYWORD]
    parameters = [*map(_parameter, options_of(Use.COMMAND)), *own]
    command.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[parameter.replace(kind=Parameter.KEYWORD_ONLY) for parameter in parameters]
    )
    return command


def _parameter(option: Option) -> Parameter:
    forms: dict[Any, Any] = {Mapping: list[str], tuple: list[str], datetime: str}
    form: Any = forms.get(option.value_type, option.value_type)
    default = Parameter.empty if option.is_required else option.plain_default
    form = form | None if default is None else form
    annotation = Annotated[form, option_of(option.name)]
    return Parameter(option.name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


LakeOption = Annotated[str, option_of("lake")]
DataOption = Annotated[str | None, option_of("data")]
AllowFunctionsOption = Annotated[list[str] | None, option_of("allow_functions")]
MapOption = Annotated[list[str] | None, option_of("column_map")]
FailIfOption = Annotated[
    str | None, typer.Option("--fail-if", help="exit with 1 if this holds: 'mean_diff < -0.01 and p < 0.05'")
]
AtOption = Annotated[
    str | None,
    typer.Option("--at", help="as it was then: a version, a published run's id, a time (UTC) or the end of a day"),
]


def _choose_log(form: str | None) -> None:
    from gradebook.tasks.system.logs import choose_form

    choose_form(form)


LogOption = Annotated[
    str | None, typer.Option("--log", callback=_choose_log, help="write a log to stderr: json or text")
]
ForceOption = Annotated[bool, typer.Option("--force", help="replace existing files")]
JsonOption = Annotated[bool, typer.Option("--json", help="print one JSON object on stdout and nothing else there")]


def json_text(row: dict[str, Any]) -> str:
    """One JSON object, indented, with a line break at its end."""
    import orjson

    return orjson.dumps(row, default=str, option=orjson.OPT_INDENT_2).decode() + "\n"


def print_json(row: dict[str, Any]) -> None:
    """Print one JSON object on stdout, indented."""
    typer.echo(json_text(row), nl=False)
