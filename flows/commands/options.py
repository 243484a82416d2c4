"""Shared options of the commands, exit codes, printing of JSON, and shell completion of values.

Rubrics, ids of runs, criteria and tables are completed. An error completes nothing, silently.
"""

import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import date, datetime
from functools import wraps
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from typer.core import TyperCommand

from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.runs.request import BASELINE_WORDS, OPTIONS, Option, Panel, Use, options_of
from gradebook.tasks.workspace.folder import LATEST, usual_lake

Completion = Callable[[typer.Context, str], list[str]]
_CRITERIA = "select distinct criterion_id from criteria order by all"


def _completing(names: Callable[[typer.Context], Iterable[str]]) -> Completion:
    """Completion by the printable names that start with the typed text; an error completes nothing."""

    @wraps(names)
    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        matches: list[str] = []
        with suppress(Exception):  # any error: the shell would print it within the typed line
            matches += (name for name in names(ctx) if name.startswith(incomplete) and name.isprintable())
        return matches

    complete.__annotations__ = {"ctx": typer.Context, "incomplete": str}
    del complete.__wrapped__  # typer reads the signature
    return complete


def _lake_of(ctx: typer.Context) -> Lake:
    uri = ctx.params.get("lake") or usual_lake()
    return find_lake(uri, ctx.params.get("data"))


def complete_word(choices: Iterable[str]) -> Completion:
    """Completion by the allowed values of an option."""
    return _completing(lambda _ctx: choices)


@_completing
def complete_rubric(ctx: typer.Context) -> Iterator[str]:
    """Names of the shipped rubrics, rubric files of the working folder, and versions in the lake."""
    from gradebook.rubrics.files.load import is_rubric_text, shipped_rubrics

    yield from shipped_rubrics()
    for path in (*Path().glob("*.yaml"), *Path().glob("*.yml")):
        if path.is_file() and is_rubric_text(path.read_bytes()):
            yield path.name
    from gradebook.tasks.rubric_store.versions import list_versions

    for row in list_versions(_lake_of(ctx)):
        yield f"{row['rubric_id']}@{row['rubric_version']}"


@_completing
def complete_run(ctx: typer.Context) -> Iterator[str]:
    """The word `latest`, and ids of runs, newest first."""
    if run_ids := _run_ids(_lake_of(ctx)):
        yield LATEST
        yield from run_ids


def _run_ids(lake: Lake) -> list[str]:
    """Ids of runs, newest first, from the runs' folders, which is fast, or else from the lake's tables."""
    folders = [path for path in (lake.root / "runs").glob("*") if path.is_dir()]
    if folders:
        return [path.name for path in sorted(folders, key=lambda path: path.stat().st_mtime, reverse=True)]
    from gradebook.tasks.published.runs import list_runs

    return [str(row["run_id"]) for row in list_runs(lake)]


@_completing
def complete_baseline(ctx: typer.Context) -> Iterator[str]:
    """Words that stand for a run, such as `latest`, and ids of runs."""
    yield from BASELINE_WORDS
    yield from _run_ids(_lake_of(ctx))


@_completing
def complete_criterion(ctx: typer.Context) -> Iterable[str]:
    """Criteria of the rubrics in the lake."""
    from gradebook.tasks.lake.connections import connect
    from gradebook.tasks.lake.rows import read_rows

    with connect(_lake_of(ctx), read_only=True) as connection:
        return [str(row["criterion_id"]) for row in read_rows(connection, _CRITERIA)]


@_completing
def complete_table(_ctx: typer.Context) -> Iterable[str]:
    """Names of tables, marts and views."""
    from gradebook.tasks.lake.schema import list_tables

    return [table.name for table in list_tables()]


COMPLETIONS: dict[str, Completion] = {"rubric": complete_rubric, "baseline": complete_baseline}  # by option name


DONE, NOT_MET, BAD_INPUT, NOT_FINISHED = 0, 1, 2, 3  # the exit codes
ALSO_TABLES = ("demo", "sql")  # commands that print tables and have no --json
PANELS = {  # heading in the help of `gradebook evaluate` -> options below it
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
    """Command that refuses an option given twice; click alone would take the last value."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _, _, given_params = self.make_parser(ctx).parse_args([*args])
        counts: Counter[Any] = Counter(given_params)
        for option, count in counts.items():
            if count > 1 and option.param_type_name == "option" and not (option.multiple or option.is_flag):
                raise InputError(option.opts[0], f"{count} values", "one")
        rest: list[str] = super().parse_args(ctx, args)
        return rest


class GroupedCommand(StrictCommand):
    """Command whose help lists each option under its heading, options without a heading under Options."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": []}
        for param in self.get_params(ctx):
            default_title = "Arguments" if param.param_type_name == "argument" else "Options"
            title = getattr(param, "rich_help_panel", None) or default_title
            record = param.get_help_record(ctx)
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
        parameters_of_command = [
            parameter for parameter in signature.parameters.values() if parameter.kind is not Parameter.VAR_KEYWORD
        ]
        options = sorted(options_of(use), key=lambda option: [*Panel].index(option.panel))
        parameters = [*map(_parameter, options), *parameters_of_command]
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

    parameters = [parameter.replace(kind=Parameter.KEYWORD_ONLY) for parameter in signature.parameters.values()]
    wide = Parameter("wide", Parameter.KEYWORD_ONLY, default=False, annotation=WideOption)
    widened.__signature__ = signature.replace(parameters=[*parameters, wide])  # type: ignore[attr-defined]
    return widened


def with_latest(command: Callable[..., Any]) -> Callable[..., Any]:
    """Resolve the word `latest` to the latest published run in every parameter that completes ids of runs."""
    signature = inspect.signature(command)
    names = [parameter.name for parameter in signature.parameters.values() if _is_run(parameter)]
    if not names:
        return command

    @wraps(command)
    def resolved(**options: Any) -> Any:
        chosen = [name for name in names if LATEST in _listed(options.get(name))]
        if chosen:
            latest = _latest_run(options)
            for name in chosen:
                run_ids = [latest if run_id == LATEST else run_id for run_id in _listed(options[name])]
                options[name] = run_ids if isinstance(options[name], list) else run_ids[0]
        return command(**options)

    parameters = [parameter.replace(kind=Parameter.KEYWORD_ONLY) for parameter in signature.parameters.values()]
    resolved.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return resolved


def _is_run(parameter: Parameter) -> bool:
    described = getattr(parameter.annotation, "__metadata__", ())
    return any(getattr(setting, "autocompletion", None) is complete_run for setting in described)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _latest_run(options: Mapping[str, Any]) -> str:
    """Latest published run of the lake that a command's options name."""
    from gradebook.tasks.lake.versions import find_lake_at
    from gradebook.tasks.published.runs import latest_run

    at = options.get("at")
    return latest_run(find_lake_at(options["lake"], options.get("data"), None if at == LATEST else at))


LakeOption = Annotated[str, option_of("lake")]
DataOption = Annotated[str | None, option_of("data")]
ComparedOption = Annotated[
    str | None,
    typer.Option(
        "--baseline",
        help="a published run, whose answers preferences and similarities compare with",
        autocompletion=complete_run,
    ),
]
AllowFunctionsOption = Annotated[list[str] | None, option_of("allow_functions")]
MapOption = Annotated[list[str] | None, option_of("column_map")]
ModelsOption = Annotated[str, option_of("models")]
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
    """JSON text of an object, indented, with a line break at its end."""
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
