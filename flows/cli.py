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
from typer.main import get_command

from gradebook.flows.display.ends import end_interrupted
from gradebook.rubrics.model.errors import GradebookError, InputError, UnfinishedError
from gradebook.tasks.system.command_start import begin_command
from gradebook.tasks.system.secret_values import without_secret_values

USAGE_ERROR: type[Exception] = typer.BadParameter.__mro__[1]  # base of usage errors, which Typer does not export
INTERRUPTED = 130  # typer's exit code for Ctrl-C; typer prints no message
INTERRUPTED_QUERY = "Query interrupted"  # text of DuckDB's error after Ctrl-C


@dataclass(frozen=True, slots=True)
class Entry:
    """Command of the table.

    name: the words after `gradebook`: `evaluate`, `rubric lint`, `judge anchors make`.
    target: MODULE:FUNCTION in gradebook.flows.commands.
    summary: the first line of its help, repeated here so that `gradebook --help` imports no command.
    """

    name: str
    target: str
    summary: str


# Name of a group of commands -> first line of its help.
GROUPS = {
    "rubric": "Write, lint, compare and import rubrics; list and try checks.",
    "rubric checks": "List, show and try deterministic checks.",
    "judge": "List, compare, calibrate, improve and watch judges.",
    "judge anchors": "Watch a judge on fixed outputs, asked again each night.",
    "people": "Rate outputs, import ratings, and compare raters with judges.",
    "people ratings": "Import, list and show people's ratings.",
    "people outcomes": "Set outcomes in use, such as clicks or refunds, beside the scores.",
    "suite": "Evaluate suites each night and checkpoints as they come.",
    "suite cases": "Compare the cases of a suite with real usage.",
    "suite reference": "Pin the run that `--baseline reference` means.",
    "train": "Write or serve the rewards of outputs for training.",
    "lake": "Look after a lake: tables, versions, ledger, rebuilding, pages.",
    "lake ledger": "Verify and show the ledger of paid judge replies.",
}

COMMANDS: tuple[Entry, ...] = (
    Entry("demo", "demo:demo", "Evaluate the shipped example; no key needed."),
    Entry("evaluate", "evaluate:evaluate", "Score outputs with a rubric and publish the evaluation tables."),
    Entry("collect", "collect:collect", "Collect the outputs to evaluate from a model's endpoint."),
    Entry("review", "review:review", "Review one artifact against rubrics: approved or needs_revision."),
    Entry("view", "view:view", "Serve a lake's pages: runs, verdicts, comparisons, progress."),
    Entry("report", "report:report", "Write a run's report: a page, a comment or a picture."),
    Entry("compare", "compare:compare", "Compare two runs, or two models of one run, case by case."),
    Entry("runs", "runs:runs", "List the runs of a lake, newest first."),
    Entry("why", "why:why", "Trace a verdict to its output, prompt, reply, ratings and price."),
    Entry("sql", "sql:sql", "Query the evaluation tables in DuckDB's SQL, read only."),
    Entry("cost", "cost:cost", "Show the cost of judging, or of a changed rubric or judge."),
    Entry("status", "status:status", "Show a lake's running, interrupted, published and failed runs."),
    Entry("doctor", "doctor:doctor", "Examine a lake and the machine, and suggest fixes."),
    Entry(
        "rubric new",
        "rubric:new",
        "Write a commented rubric file from a few questions, or as a copy of a shipped rubric, and lint it.",
    ),
    Entry("rubric draft", "draft:draft", "Draft a rubric file from outputs that failed and outputs that did not."),
    Entry("rubric lint", "rubric:lint", "Find problems of rubrics before judging costs money, and suggest fixes."),
    Entry("rubric list", "rubric:list_rubrics", "List the shipped rubrics and all rubric versions in the lake."),
    Entry("rubric register", "rubric:register", "Store a rubric version in the lake without a run, or set its state."),
    Entry("rubric show", "rubric:show", "Print a rubric as YAML, with inherited parts written out."),
    Entry(
        "rubric diff", "rubric:diff", "Show the changes between two rubrics, and the smallest version step for them."
    ),
    Entry(
        "rubric schema",
        "rubric:schema",
        "Print the JSON Schema of rubric files, for completion and checks in an editor.",
    ),
    Entry("rubric import", "rubric:import_rubric", "Import a rubric, cases or ratings of another system."),
    Entry(
        "rubric export",
        "rubric:export_rubric",
        "Export a rubric, or rows with per-case criteria, to another system's format.",
    ),
    Entry("rubric delete", "rubric:delete", "Delete the pointer from a rubric's id to its latest version."),
    Entry("rubric reweigh", "rescore:rescore", "Publish a run's verdicts again with another rubric's weights."),
    Entry("rubric link", "link:link", "Measure how two versions of a rubric score the same outputs."),
    Entry("rubric checks list", "check:list_checks", "List the checks by family, with a one-line summary each."),
    Entry("rubric checks show", "check:show", "Show a check's rule, settings and examples."),
    Entry("rubric checks try", "check:try_out", "Run a check on one text and show its verdict."),
    Entry(
        "judge list",
        "judges:list_known",
        "List the providers whose models are judges by name, and which of their keys are there.",
    ),
    Entry("judge compare", "judges:compare", "Compare judges by how they order models and outputs, with their prices."),
    Entry(
        "judge calibrate",
        "judges:calibrate",
        "Choose when a cascade asks its second judge, from stored verdicts of both.",
    ),
    Entry(
        "judge recalibrate",
        "judges:recalibrate",
        "Fit a judge's probabilities to people's ratings, criterion by criterion.",
    ),
    Entry(
        "judge improve",
        "judges:improve",
        "Search better guidance and examples for a judge in people's ratings of a run.",
    ),
    Entry("judge trust", "trust:trust", "Say whether a run's judge may be trusted, and why."),
    Entry("judge noise", "noise:noise", "Measure judge noise, and how often it alone would fire a gate."),
    Entry("judge anchors make", "anchors:make", "Freeze outputs of a run with their scores as a set of anchors."),
    Entry("judge anchors ask", "anchors:ask", "Ask a judge about anchors again, and report whether it changed."),
    Entry("judge anchors list", "anchors:list_sets", "List the sets of anchors, newest first."),
    Entry("people rate", "rate:rate", "Serve pages on which people rate outputs of a run or of a file."),
    Entry(
        "people raters", "agreement:raters", "Compare a run's raters: agreement with the others, and who is stricter."
    ),
    Entry("people agreement", "agreement:agreement", "Show agreement among raters, and between raters and judges."),
    Entry("people calibrate", "agreement:calibrate", "Correct the judge's means using people's ratings."),
    Entry(
        "people ratings import",
        "ratings:import_file",
        "Import people's ratings into the lake. Importing a file twice adds nothing.",
    ),
    Entry("people ratings take", "ratings:take", "Let ratings under another text of a criterion count in a run too."),
    Entry("people ratings list", "ratings:list_ratings", "Show the number of ratings per rater and criterion."),
    Entry("people ratings show", "ratings:show", "Show the ratings of an output, or of a case's outputs."),
    Entry(
        "people export",
        "export:ratings",
        "Write people's ratings, each rater's latest, as `gradebook people ratings import` reads them.",
    ),
    Entry(
        "people outcomes import",
        "outcomes:import_file",
        "Import outcomes by output, case or day; a new value replaces the old one.",
    ),
    Entry(
        "people outcomes list",
        "outcomes:list_names",
        "List the outcomes of the lake.",
    ),
    Entry(
        "people outcomes show",
        "outcomes:show",
        "Show how the scores of a run follow outcomes, and where weights would have to go.",
    ),
    Entry("suite nightly", "nightly:nightly", "Evaluate a file's suites in turn, and compact their lake."),
    Entry("suite checkpoint", "checkpoint:checkpoint", "Evaluate a training checkpoint, and approve it or not."),
    Entry("suite checkpoints", "checkpoint:checkpoints", "List the decisions about checkpoints, newest first."),
    Entry("suite sweep", "checkpoint:sweep", "Find checkpoints without a decision; --evaluate decides about them."),
    Entry(
        "suite notify",
        "notify:notify",
        "Ask the Prefect server of PREFECT_API_URL to evaluate a checkpoint, and return at once.",
    ),
    Entry("suite power", "power:power", "Compute a comparison's sample size, detectable effect or power."),
    Entry("suite cases coverage", "cases:coverage", "Show how the cases of a suite differ from real usage."),
    Entry(
        "suite cases items",
        "cases:items",
        "Show which cases and criteria tell better models from worse ones, over past runs.",
    ),
    Entry(
        "suite reference set",
        "reference:pin",
        "Pin a run as the reference of its rubric, or of a suite, in place of an earlier one.",
    ),
    Entry("suite reference list", "reference:list_pinned", "List the pinned runs."),
    Entry("suite reference clear", "reference:clear", "Unpin the reference of a rubric, or of a suite."),
    Entry(
        "train rewards",
        "export:rewards",
        "Write a run's outputs with their rewards; a missing reward is null, never 0.",
    ),
    Entry(
        "train best",
        "export:best",
        "Write the best outputs of each case by reward; outputs without a reward are left out.",
    ),
    Entry(
        "train serve",
        "serve_rewards:serve_rewards",
        "Serve rewards over HTTP: one judge, ledger and budget for all callers.",
    ),
    Entry("lake tables", "sql:tables", "List the tables, marts and views of a lake, or show the columns of one."),
    Entry("lake versions", "lake:versions", "List the versions of the tables, newest first."),
    Entry("lake compact", "lake:compact", "Merge a lake's small files and delete unreferenced ones."),
    Entry("lake rebuild", "rebuild:rebuild", "Rebuild a published run's score tables from its verdicts."),
    Entry(
        "lake ledger verify",
        "ledger:verify",
        "Recompute request keys, parse replies again, and find the judgment of each verdict.",
    ),
    Entry("lake ledger show", "ledger:show", "Show the judgments of a request key or an output, with the raw replies."),
    Entry("lake site", "report:site", "Write a lake's home page: runs, trends, reports and rubrics."),
    Entry(
        "lake otlp",
        "export:otlp",
        "Write the scores of a run of traces beside their trace and span ids, for the system that holds the traces.",
    ),
    Entry("lake mcp", "mcp:mcp", "Serve a lake to agents over MCP on stdin and stdout, read only."),
)
ENTRIES = {entry.name: entry for entry in COMMANDS}

# Heading of `gradebook --help` -> names of commands and groups below it.
SECTIONS: dict[str, tuple[str, ...]] = {
    "Evaluate": ("demo", "evaluate", "collect", "review"),
    "Look at results": ("view", "report", "compare", "runs", "why", "sql", "cost", "status", "doctor"),
    "Groups, each with commands of its own": ("rubric", "judge", "people", "suite", "train", "lake"),
}

# Names of commands and groups in version 0.1, which still work -> present names.
RENAMED = {
    "rescore": "rubric reweigh",
    "link": "rubric link",
    "checks": "rubric checks",
    "judges": "judge",
    "trust": "judge trust",
    "noise": "judge noise",
    "anchors": "judge anchors",
    "rate": "people rate",
    "raters": "people raters",
    "agreement": "people agreement",
    "calibrate": "people calibrate",
    "ratings": "people ratings",
    "export ratings": "people export",
    "outcomes": "people outcomes",
    "nightly": "suite nightly",
    "checkpoint": "suite checkpoint",
    "checkpoints": "suite checkpoints",
    "sweep": "suite sweep",
    "notify checkpoint": "suite notify",
    "power": "suite power",
    "cases": "suite cases",
    "reference": "suite reference",
    "export rewards": "train rewards",
    "export best": "train best",
    "serve-rewards": "train serve",
    "tables": "lake tables",
    "versions": "lake versions",
    "compact": "lake compact",
    "rebuild": "lake rebuild",
    "ledger": "lake ledger",
    "site": "lake site",
    "export otlp": "lake otlp",
    "mcp": "lake mcp",
}


class _Group(TyperGroup):
    """Group of the table's commands: lists names and summaries, and imports a command only when it is chosen."""

    def __init__(self, above: str = "", **settings: Any) -> None:
        self.above = above  # words between `gradebook` and the names of this group
        commands = {name: _stub(f"{above} {name}".strip()) for name in _names_below(above)}
        super().__init__(**settings | {"commands": commands})

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        rest: list[str] = super().parse_args(ctx, args if self.above else _renamed(ctx, args))
        return rest

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        full_name = f"{self.above} {name}".strip()
        return name, load_command(full_name) if full_name in ENTRIES else command, rest

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        sections = {"Commands": (*self.commands,)} if self.above else SECTIONS
        width = max(map(len, self.commands))
        for title, names in sections.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), self.commands[name].help) for name in names])


def _names_below(above: str) -> list[str]:
    """Names of the commands and groups in a group, in the order of the table.

    above: name of the group; "": the program.
    """
    words = above.split()
    below = (name.split() for name in (*ENTRIES, *GROUPS))
    return list(
        dict.fromkeys(name[len(words)] for name in below if len(name) > len(words) and name[: len(words)] == words)
    )


def _stub(name: str) -> Any:
    if name in GROUPS:
        return _Group(
            name, name=name.rpartition(" ")[2], help=GROUPS[name], no_args_is_help=True, rich_markup_mode=None
        )
    return TyperCommand(name.rpartition(" ")[2], help=ENTRIES[name].summary)


def _renamed(ctx: Any, args: list[str]) -> list[str]:
    """Arguments with the present name of a command; prints a note on stderr if they have an earlier name."""
    for length in (2, 1):
        name = " ".join(args[:length])
        if name in RENAMED:
            if not ctx.resilient_parsing:
                typer.echo(f"gradebook: `{name}` is now `{RENAMED[name]}`", err=True)
            return [*RENAMED[name].split(), *args[length:]]
    divided = [new for old, new in RENAMED.items() if args and old.startswith(f"{args[0]} ")]
    if divided and not ctx.resilient_parsing:
        raise InputError("COMMAND", repr(args[0]), " or ".join(divided))
    return args


def load_command(name: str) -> Any:
    """Import a command of the table; returns the click command that parses its arguments and runs it."""
    module, _, attribute = ENTRIES[name].target.partition(":")
    target = getattr(import_module(f"gradebook.flows.commands.{module}"), attribute)
    from gradebook.flows.commands.options import GroupedCommand, with_latest, with_wide

    single = typer.Typer(add_completion=False, rich_markup_mode=None)
    single.command(cls=GroupedCommand)(with_wide(with_latest(target)))
    command = get_command(single)
    command.name = name.rpartition(" ")[2]
    return command


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        from importlib.metadata import version

        typer.echo(f"gradebook {version('gradebook')}")
        raise typer.Exit


app = typer.Typer(
    name="gradebook", cls=_Group, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None
)


@app.callback()
def gradebook(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Evaluate model outputs with a rubric; query the results in SQL.

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
        # Typer exits with 1 after a closed pipe; here `| head` is no failure.
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
    """Exit after an unexpected error, whose traceback is written to a file.

    has_folder: whether the working folder existed when the command began.
    """
    from gradebook.tasks.system.files import is_full  # with Arrow and DuckDB

    if isinstance(error, Exception) and is_full(error):  # a full disk has no room for a traceback either
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

    Python reads such bytes as lone surrogates, which no file, table or terminal can take.
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
    """Exit with 2 after printing a usage error; a group without a command shows its help."""
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
