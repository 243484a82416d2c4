"""The command `gradebook`: the table of its commands, and the handling of errors and exit codes."""

import os
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from gradebook.flows.display.ends import end_interrupted
from gradebook.rubrics.model.errors import GradebookError, InputError, UnfinishedError
from gradebook.tasks.system.command_start import begin_command
from gradebook.tasks.system.secret_values import without_secret_values

USAGE_ERROR: type[Exception] = typer.BadParameter.__mro__[1]  # not public: base of the others
INTERRUPTED = 130  # typer's exit code for Ctrl-C; typer prints no message
INTERRUPTED_QUERY = "Query interrupted"  # DuckDB's error


@dataclass(frozen=True, slots=True)
class Entry:
    """Command of the table.

    target: MODULE:NAME in gradebook.flows.commands, a function or the Typer app of a group of commands.
    summary: the first line of its help, repeated here so that `gradebook --help` imports no command.
    """

    name: str
    target: str
    summary: str


SECTIONS: dict[str, tuple[Entry, ...]] = {
    "Evaluate": (
        Entry(
            "demo", "demo:demo", "Evaluate the shipped example of support replies, or of agents' runs; no key needed."
        ),
        Entry("evaluate", "evaluate:evaluate", "Score outputs with a rubric and publish the evaluation tables."),
        Entry("collect", "collect:collect", "Collect the outputs to evaluate from a model's endpoint."),
        Entry("cases", "cases:app", "Compare the cases of a suite with real usage."),
        Entry("review", "review:review", "Review one artifact against rubrics: approved or needs_revision."),
        Entry("rescore", "rescore:rescore", "Publish a run's verdicts again with another rubric's weights."),
    ),
    "Look at results": (
        Entry("sql", "sql:sql", "Query the evaluation tables in DuckDB's SQL, read only."),
        Entry("tables", "sql:tables", "List the tables, marts and views of a lake, or show the columns of one."),
        Entry("runs", "runs:runs", "List the runs of a lake, newest first."),
        Entry("report", "report:report", "Write a run's report: a page, a comment or a picture."),
        Entry("view", "view:view", "Serve a lake's pages: runs, verdicts, comparisons, and what is in progress."),
        Entry("site", "report:site", "Write a lake's home page: runs, trends, reports and rubrics."),
        Entry("compare", "compare:compare", "Compare two runs, or two models of one run, case by case."),
        Entry("reference", "reference:app", "Pin the run that `--baseline reference` means."),
        Entry("noise", "noise:noise", "Measure judge noise, and how often it alone would fire a gate."),
        Entry("power", "power:power", "Compute a comparison's sample size, detectable effect or power."),
        Entry(
            "export",
            "export:app",
            "Export a run's outputs with their rewards for training, people's ratings, and scores beside traces.",
        ),
        Entry("why", "why:why", "Trace a verdict back to the output, prompt, reply, rubric, ratings and price."),
        Entry(
            "serve-rewards",
            "serve_rewards:serve_rewards",
            "Serve rewards over HTTP: one judge, ledger and budget for all callers.",
        ),
        Entry("mcp", "mcp:mcp", "Serve a lake to agents over MCP on stdin and stdout, read only."),
        Entry("cost", "cost:cost", "Show the cost of judging, or of a changed rubric or judge."),
        Entry("status", "status:status", "Show a lake's running, interrupted, published and failed runs."),
    ),
    "Rubrics": (
        Entry("rubric", "rubric:app", "Write, lint, show, compare, import and export rubrics."),
        Entry("checks", "check:app", "List, show and try deterministic checks."),
    ),
    "People": (
        Entry("rate", "rate:rate", "Serve pages on which people rate outputs of a run or of a file."),
        Entry("raters", "agreement:raters", "Compare a run's raters: agreement with the others, and who is stricter."),
        Entry("ratings", "ratings:app", "Import, list and show people's ratings."),
        Entry("agreement", "agreement:agreement", "Show agreement among raters, and between raters and judges."),
        Entry("trust", "trust:trust", "Say whether a run's judge may be trusted, and why."),
        Entry("calibrate", "agreement:calibrate", "Correct the judge's means using people's ratings."),
        Entry("judges", "judges:app", "List, compare and calibrate judges."),
        Entry("outcomes", "outcomes:app", "Set outcomes in use, such as clicks or refunds, beside the scores."),
        Entry("link", "link:link", "Measure how two versions of a rubric score the same outputs."),
        Entry("anchors", "anchors:app", "Watch a judge on fixed outputs, asked again each night."),
    ),
    "Lake": (
        Entry("versions", "lake:versions", "List the versions of the tables, newest first."),
        Entry("ledger", "ledger:app", "Verify and show the ledger of paid judge replies."),
        Entry("rebuild", "rebuild:rebuild", "Rebuild a published run's score tables from its verdicts."),
        Entry("compact", "lake:compact", "Merge a lake's small files and delete unreferenced ones."),
        Entry("doctor", "doctor:doctor", "Examine a lake and the machine, and suggest fixes."),
    ),
    "Operations": (
        Entry("nightly", "nightly:nightly", "Evaluate a file's suites in turn, and compact their lake."),
        Entry("checkpoint", "checkpoint:checkpoint", "Evaluate a training checkpoint, and approve it or not."),
        Entry("notify", "notify:app", "Ask a Prefect server for an evaluation."),
        Entry("sweep", "checkpoint:sweep", "Find checkpoints without a decision; --evaluate decides about them."),
        Entry("checkpoints", "checkpoint:checkpoints", "List the decisions about checkpoints, newest first."),
    ),
}
ENTRIES = {entry.name: entry for entries in SECTIONS.values() for entry in entries}


class _LazyGroup(TyperGroup):
    """Group of the table's commands: lists names and summaries, and imports a command only when it is chosen."""

    def __init__(self, **settings: Any) -> None:
        commands = {entry.name: TyperCommand(entry.name, help=entry.summary) for entry in ENTRIES.values()}
        super().__init__(**settings | {"commands": commands})

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, _, rest = super().resolve_command(ctx, args)
        return name, None if name is None else load_command(name), rest

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        width = max(map(len, ENTRIES))
        for title, entries in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(entry.name.ljust(width), entry.summary) for entry in entries])


def load_command(name: str) -> Any:
    """Import a command of the table; returns the click command that parses its arguments and runs it."""
    module, _, attribute = ENTRIES[name].target.partition(":")
    target = getattr(import_module(f"gradebook.flows.commands.{module}"), attribute)
    from gradebook.flows.commands.options import GroupedCommand, StrictCommand, with_latest, with_wide

    if isinstance(target, typer.Typer):
        for registered in target.registered_commands:
            registered.cls = StrictCommand
            if registered.callback:
                registered.short_help = (registered.callback.__doc__ or "").partition("\n")[
                    0
                ]  # whole: click cuts a docstring
                registered.callback = with_wide(with_latest(registered.callback))
        command: Any = get_group(target)
    else:
        single = typer.Typer(add_completion=False, rich_markup_mode=None)
        single.command(cls=GroupedCommand)(with_wide(with_latest(target)))
        command = get_command(single)
    command.name = name
    return command


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        from importlib.metadata import version

        typer.echo(f"gradebook {version('gradebook')}")
        raise typer.Exit


app = typer.Typer(
    name="gradebook", cls=_LazyGroup, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None
)


@app.callback()
def gradebook(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Evaluate the outputs of generative models with a rubric; query the results in SQL.

    \b
    gradebook demo
    gradebook evaluate outputs.jsonl --rubric general_answer \\
        --judge gpt-4o-mini --budget-usd 5
    gradebook sql "select model, mean, ci_low, ci_high from latest_run_scores"
    """


def main(began_at_s: float | None = None) -> None:
    """Run the command; expected failures end with a sentence on stderr and an exit code.

    began_at_s: start of this process by `time.perf_counter`; default: now.
    """
    begin_command(time.perf_counter() if began_at_s is None else began_at_s)
    has_folder = _has_folder()
    try:
        _refuse_broken_text(sys.argv[1:], os.environ)
        code = app(prog_name="gradebook", standalone_mode=False)
    except GradebookError as error:
        _print_error(str(error))
        sys.exit(error.exit_code)
    except USAGE_ERROR as error:
        _refuse_usage(error)
    except SystemExit as end:
        # Typer makes exit code 1 of a closed pipe: `| head` is no failure.
        sys.exit(0 if isinstance(end.__context__, BrokenPipeError) else end.code)
    except BrokenPipeError:
        sys.exit(0)
    except KeyboardInterrupt:
        end_interrupted()
    except BaseException as error:  # noqa: BLE001 - last resort, and panics of Rust: the traceback goes to a file
        if _is_interrupt(error):
            end_interrupted()
        _end_unexpected(error, has_folder=has_folder)
    if code == INTERRUPTED:
        end_interrupted()
    sys.exit(code)


def _end_unexpected(error: BaseException, *, has_folder: bool) -> NoReturn:
    """Exit after an error that no command expects; its traceback goes to a file.

    has_folder: whether the command began in a folder that was there.
    """
    from gradebook.tasks.system.files import is_full  # with Arrow and DuckDB

    if isinstance(error, Exception) and is_full(error):  # no room for a traceback either
        _print_error(f"the disk is full: {error}; free some space, then run the same command again")
        sys.exit(UnfinishedError.exit_code)
    if isinstance(error, FileNotFoundError) and not has_folder:
        _print_error(str(InputError("the working folder", "none: it was deleted", "a folder that exists")))
        sys.exit(InputError.exit_code)
    sentence = without_secret_values(f"unexpected {type(error).__name__}: {error}", os.environ)
    _print_error(f"{sentence} (traceback in {_write_traceback()})")
    sys.exit(UnfinishedError.exit_code)


def _has_folder() -> bool:
    """Whether the working folder exists."""
    try:
        os.getcwd()  # noqa: PTH109 - pathlib is not imported for it
    except FileNotFoundError:
        return False
    return True


def _is_interrupt(error: BaseException) -> bool:
    """Whether Ctrl-C has ended a query, or the import of a compiled module."""
    is_query = isinstance(error, RuntimeError) and str(error) == INTERRUPTED_QUERY
    return is_query or isinstance(error.__cause__, KeyboardInterrupt)


def _refuse_broken_text(arguments: Sequence[str], environ: Mapping[str, str]) -> None:
    """Raise `InputError` for an argument, a setting of gradebook's or a working folder that is not UTF-8.

    Python reads such bytes as halves of characters, which no file of gradebook's, no table and no terminal can take.
    """
    texts = [(f"argument {number}", text) for number, text in enumerate(arguments, start=1)]
    texts += [(name, text) for name, text in environ.items() if name.startswith("GRADEBOOK_")]
    with suppress(OSError):  # the folder was deleted
        texts.append(("the working folder", os.getcwd()))  # noqa: PTH109 - pathlib is not imported for it
    for name, text in texts:
        try:
            text.encode()
        except UnicodeEncodeError:
            hint = "rename a file or folder of such a name"
            raise InputError(name, f"{text!r:.200}", "text in UTF-8", hint) from None


def _refuse_usage(error: Any) -> NoReturn:
    """Exit with 2 after a usage error in a sentence; a group of commands without one shows its help."""
    from gradebook.flows.display.usage_errors import usage_error

    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
    else:
        _print_error(str(usage_error(error)))
    sys.exit(InputError.exit_code)


def _print_error(sentence: str) -> None:
    """Print a sentence on stderr; control characters, for example of a file name, are escaped."""
    escaped = "".join(letter if letter.isprintable() or letter == "\n" else repr(letter)[1:-1] for letter in sentence)
    text = f"gradebook: {escaped}"
    if sys.stderr.isatty():  # a terminal breaks lines within words
        from rich.text import Text

        from gradebook.flows.display.terminal import wrapped

        text = wrapped(Text(text), shutil.get_terminal_size().columns).plain
    typer.echo(text, err=True)


def _write_traceback() -> str:
    with tempfile.NamedTemporaryFile("w", prefix="gradebook-", suffix=".log", delete=False) as file:
        file.write(without_secret_values(traceback.format_exc(), os.environ))
    return file.name


if __name__ == "__main__":
    main()
