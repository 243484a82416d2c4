"""Shared options of the commands, exit codes, and printing of JSON."""

import inspect
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import date, datetime
from functools import wraps
from inspect import Parameter
from typing import Annotated, Any, TypeVar

import typer
from typer.core import TyperCommand

from gradebook.flows.commands.completion import COMPLETIONS, complete_run, complete_word
from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.runs.request import OPTIONS, Option, Panel, Use, options_of

DONE, NOT_MET, BAD_INPUT, NOT_FINISHED = 0, 1, 2, 3  # the exit codes
ALSO_TABLES = ("demo", "sql")  # commands that print tables and have no --json
PANELS = {  # headings of the help of `gradebook evaluate`, and the options below them
    panel.value: tuple(option.name for option in options_of(Use.COMMAND) if option.panel is panel) for panel in Panel
}
Function = TypeVar("Function", bound=Callable[..., None])
DEFAULT_LAKE: str = OPTIONS["lake"].default


def option_of(name: str, *, has_panel: bool = False) -> Any:
    """Typer's description of an option of `EvaluationRequest`. has_panel: below its heading in the help."""
    option = OPTIONS[name]
    if option.is_argument:
        return typer.Argument(help=option.help)
    form = {Mapping: ", as COLUMN=NAME; may be repeated", tuple: "; may be repeated"}.get(option.value_type, "")
    return typer.Option(
        option.flag,
        envvar=option.envvar,
        help=f"{option.help}{form}",
        autocompletion=COMPLETIONS.get(name) or (complete_word(option.choices) if option.choices else None),
        rich_help_panel=option.panel.value if has_panel else None,
    )


class StrictCommand(TyperCommand):
    """Command that refuses an option with two values, of which it would take the last."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _, _, given = self.make_parser(ctx).parse_args([*args])
        counts: Counter[Any] = Counter(given)
        for option, count in counts.items():
            if count > 1 and option.param_type_name == "option" and not (option.multiple or option.is_flag):
                raise InputError(option.opts[0], f"{count} values", "one")
        rest: list[str] = super().parse_args(ctx, args)
        return rest


class GroupedCommand(StrictCommand):
    """Command whose help lists the options under the headings that they name, the others under Options."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": []}
        for each in self.get_params(ctx):
            plain_title = "Arguments" if each.param_type_name == "argument" else "Options"
            title = getattr(each, "rich_help_panel", None) or plain_title
            record = each.get_help_record(ctx)
            if record is not None:
                sections.setdefault(title, []).append(record)
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


def takes_options(use: Use) -> Callable[[Function], Function]:
    """Replace a command's `**options` with the options of a use, in the order of their headings."""

    def decorate(command: Function) -> Function:
        signature = inspect.signature(command)
        own = [each for each in signature.parameters.values() if each.kind is not Parameter.VAR_KEYWORD]
        options = sorted(options_of(use), key=lambda option: [*Panel].index(option.panel))
        parameters = [*map(_parameter, options), *own]
        command.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=[parameter.replace(kind=Parameter.KEYWORD_ONLY) for parameter in parameters]
        )
        return command

    return decorate


def _parameter(option: Option) -> Parameter:
    forms: dict[Any, Any] = {Mapping: list[str], tuple: list[str], datetime: str}
    form: Any = forms.get(option.value_type, option.value_type)
    default = Parameter.empty if option.is_required else option.plain_default
    form = form | None if default is None else form
    annotation = Annotated[form, option_of(option.name, has_panel=True)]
    return Parameter(option.name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def with_wide(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give --wide to a command that prints tables: one that has --json, or is listed in `ALSO_TABLES`."""
    signature = inspect.signature(command)
    prints_tables = "as_json" in signature.parameters or command.__name__ in ALSO_TABLES
    if not prints_tables or "wide" in signature.parameters:
        return command

    @wraps(command)
    def widened(wide: bool = False, **options: Any) -> Any:
        if wide:
            from gradebook.flows.display.terminal import show_wide

            show_wide()
        return command(**options)

    parameters = [each.replace(kind=Parameter.KEYWORD_ONLY) for each in signature.parameters.values()]
    wide = Parameter("wide", Parameter.KEYWORD_ONLY, default=False, annotation=WideOption)
    widened.__signature__ = signature.replace(parameters=[*parameters, wide])  # type: ignore[attr-defined]
    return widened


LakeOption = Annotated[str, option_of("lake")]
DataOption = Annotated[str | None, option_of("data")]
AllowFunctionsOption = Annotated[list[str] | None, option_of("allow_functions")]
MapOption = Annotated[list[str] | None, option_of("column_map")]
RequireOption = Annotated[str | None, option_of("require")]
FailIfOption = Annotated[str | None, option_of("fail_if")]
AtOption = Annotated[
    str | None,
    typer.Option(
        "--at",
        help="read the lake as of a version, a published run's id, a time (UTC) or the end of a day",
        autocompletion=complete_run,
    ),
]


def _choose_log(form: str | None) -> None:
    from gradebook.tasks.system.logs import choose_form

    choose_form(form)


LogOption = Annotated[
    str | None, typer.Option("--log", callback=_choose_log, help="write a log to stderr: json or text")
]
PrefectOption = Annotated[
    bool | None,
    typer.Option(
        "--prefect/--no-prefect",
        help="run as a Prefect flow; default: where PREFECT_API_URL or the active profile names a server",
        rich_help_panel=Panel.RUN.value,
    ),
]
ForceOption = Annotated[bool, typer.Option("--force", help="replace existing files")]
WideOption = Annotated[
    bool, typer.Option("--wide", help="show all columns and whole cells of tables, whatever the terminal's width")
]
JsonOption = Annotated[bool, typer.Option("--json", help="print one JSON object on stdout and nothing else there")]


def json_text(row: dict[str, Any]) -> str:
    """One JSON object, indented, with a line break at its end."""
    import orjson

    return orjson.dumps(row, default=str, option=orjson.OPT_INDENT_2).decode() + "\n"


def read_date(text: str) -> date:
    """Date of the option `--date`. Raises `InputError`."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise InputError("--date", repr(text), "a date such as 2026-11-22") from None


def print_json(row: dict[str, Any]) -> None:
    """Print one JSON object on stdout, indented."""
    from gradebook.flows.display.terminal import for_stdout

    typer.echo(for_stdout(json_text(row)), nl=False)
