"""The command `gradebook why`: the origin of a verdict."""

from collections.abc import Sequence
from itertools import groupby
from typing import Annotated

import typer

from gradebook.flows.commands.options import (
    DEFAULT_LAKE,
    DataOption,
    JsonOption,
    LakeOption,
    complete_criterion,
    complete_run,
    print_json,
)
from gradebook.flows.commands.read_lake import read_lake
from gradebook.flows.display.terminal import for_stdout, plain, show_rows, stdout
from gradebook.rubrics.model.conditions import unmet_words
from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.text.wording import price_words, score_words
from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.lake.rows import Row, model_name
from gradebook.tasks.published.origin_fields import level_spread, origin_fields, output_score, user_question
from gradebook.tasks.published.provenance import Origin, ask_reasons, read_origins
from gradebook.tasks.published.runs import is_run, latest_run
from gradebook.tasks.system.shell import shell_line

LONGEST = 2_000  # characters of a text on the terminal


def why(  # noqa: PLR0913 - each is an option
    run: Annotated[
        str | None,
        typer.Argument(help="a published run's id; left out: the latest published run", autocompletion=complete_run),
    ] = None,
    case: Annotated[str | None, typer.Argument(help="a case's id, or an output's; needed")] = None,
    criterion: Annotated[
        str | None, typer.Argument(help="a criterion; default: a line for each", autocompletion=complete_criterion)
    ] = None,
    ask: Annotated[
        str | None,
        typer.Option("--ask", help="with a criterion: another judge to ask for its reasons; it changes no verdict"),
    ] = None,
    budget_usd: Annotated[
        float | None, typer.Option("--budget-usd", help="with --ask: maximum spend in US dollars")
    ] = None,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Trace a verdict to its output, prompt, reply, ratings and price.

    \b
    gradebook why case-17
    gradebook why case-17 tone
    gradebook why 20261101-020000-a1b2c3 case-17 tone
    gradebook why case-17 tone --ask gpt-5-mini

    Exit: 0 done, 2 bad input, 3 unfinished.
    """
    if run is None:
        raise _no_case()
    found_lake = read_lake(lake, data)
    run, case, criterion = _resolve_arguments(
        found_lake, tuple(word for word in (run, case, criterion) if word is not None)
    )
    origins = read_origins(found_lake, run, case, criterion)
    if ask is not None and criterion is None:
        raise InputError("--ask", "no criterion", "the criterion whose verdict it explains, after the case")
    if ask is not None:
        origins = ask_reasons(found_lake, origins, ask, budget_usd)
    if as_json:
        print_json({"verdicts": [origin.as_json() for origin in origins]})
    elif criterion is None:
        for _, of_output in groupby(origins, lambda origin: origin.row["output_id"]):
            _show_output([origin.row for origin in of_output])
        command = shell_line(("gradebook", "why", run, case, "CRITERION", *find_lake(lake, data).words()))
        stdout.print(f"all about one of them:\n  {plain(command)}", markup=False, soft_wrap=True)
    else:
        once = _Once()
        for origin in origins:
            _show(origin, once)


def _resolve_arguments(lake: Lake, arguments: tuple[str, ...]) -> tuple[str, str, str | None]:
    """(run, case, criterion) of one to three arguments; the latest run if the first of one or two is no run's id."""
    if len(arguments) < 3 and not is_run(lake, arguments[0]):
        arguments = (latest_run(lake), *arguments)
    run, case, criterion = (*arguments, None, None)[:3]
    if case is None:
        raise _no_case()
    return str(run), case, criterion


def _no_case() -> InputError:
    return InputError("CASE", "none", "a case's id, or an output's", "`gradebook why --help` lists what it takes")


def _show_output(rows: Sequence[Row]) -> None:
    """Print an output and a table of its verdicts."""
    first = rows[0]
    _print_field("output", f"{first['output_id']} of {model_name(first)}, score {output_score(first)}")
    _print_field("asked", user_question(first["prompt"]))
    _print_field("text", first["output"])
    show_rows(("criterion", "level", "score", "why", "people", "method", "judge", "billed"), map(_cells, rows))
    stdout.print()


def _cells(row: Row) -> tuple[str, ...]:
    unmet = unmet_words(row["reason"])
    return (
        row["criterion_id"],
        row["level_id"] or ("" if row["score"] is not None else "unscored" if unmet is None else "does not apply"),
        score_words(row["score"]),
        unmet or row["reason"] or row["rationale"] or row["evidence"] or level_spread(row),
        score_words(row["people_score"]),
        row["method"],
        row["asked_judge"] or "",
        "" if row["judgment_id"] is None else price_words(row["cost_usd"]),
    )


class _Once:
    """Printer that prints each text once, even if several outputs repeat it."""

    def __init__(self) -> None:
        self._shown: set[tuple[str, str | None]] = set()

    def __call__(self, name: str, text: str | None) -> None:
        if (name, text) not in self._shown:
            self._shown.add((name, text))
            _print_field(name, text)


def _show(origin: Origin, once: _Once) -> None:
    for field in origin_fields(origin):
        if field.is_shared:
            once(field.name, field.text)
        else:
            _print_field(field.name, field.text)


def _print_field(name: str, text: str | None) -> None:
    if text:
        cut = text if len(text) <= LONGEST else f"{text[:LONGEST]}… ({len(text):,} characters; --json has all)"
        stdout.print(for_stdout(f"{name}: {cut}".replace("\n", "\n  ")), markup=False)
