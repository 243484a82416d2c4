"""The command `gradebook`. What a command needs is imported when it runs: `--help` and `sql` start at once."""

import sys
import tempfile
import traceback

import typer

from gradebook.flows.commands import agreement as agreement_commands
from gradebook.flows.commands import check as check_commands
from gradebook.flows.commands import checkpoint as checkpoint_commands
from gradebook.flows.commands import collect as collect_commands
from gradebook.flows.commands import compare as compare_commands
from gradebook.flows.commands import cost as cost_commands
from gradebook.flows.commands import demo as demo_commands
from gradebook.flows.commands import doctor as doctor_commands
from gradebook.flows.commands import evaluate as evaluate_commands
from gradebook.flows.commands import ledger as ledger_commands
from gradebook.flows.commands import nightly as nightly_commands
from gradebook.flows.commands import noise as noise_commands
from gradebook.flows.commands import power as power_commands
from gradebook.flows.commands import ratings as ratings_commands
from gradebook.flows.commands import rebuild as rebuild_commands
from gradebook.flows.commands import report as report_commands
from gradebook.flows.commands import review as review_commands
from gradebook.flows.commands import rubric as rubric_commands
from gradebook.flows.commands import runs as runs_commands
from gradebook.flows.commands import site as site_commands
from gradebook.flows.commands import sql as sql_commands
from gradebook.flows.commands import status as status_commands
from gradebook.flows.commands import version as version_commands
from gradebook.flows.commands.options import (
    DONE,
    NOT_FINISHED,
)
from gradebook.rubrics.model.errors import GradebookError

INTERRUPTED = 130  # what typer makes of Ctrl-C, without a word

app = typer.Typer(
    name="gradebook",
    help="""Evaluate the outputs of generative models with a rubric; query the results in SQL.

    \b
    gradebook demo
    gradebook evaluate outputs.jsonl --rubric general_answer --judge gpt-4o-mini --budget-usd 5
    gradebook sql "select model, mean, ci_low, ci_high from run_scores"
    """,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

app.add_typer(check_commands.app, name="checks")
app.add_typer(ledger_commands.app, name="ledger")
app.add_typer(ratings_commands.app, name="ratings")
app.add_typer(rubric_commands.app, name="rubric")
app.command()(demo_commands.demo)
app.command()(evaluate_commands.evaluate)
app.command()(runs_commands.runs)
app.command()(sql_commands.sql)
app.command()(report_commands.report)
app.command()(review_commands.review)
app.command()(collect_commands.collect)
app.command()(compare_commands.compare)
app.command()(noise_commands.noise)
app.command()(power_commands.power)
app.command()(rebuild_commands.rebuild)
app.command()(rebuild_commands.rescore)
app.command()(cost_commands.cost)
app.command()(agreement_commands.agreement)
app.command()(agreement_commands.calibrate)
app.command()(site_commands.site)
app.command()(status_commands.status)
app.command()(version_commands.versions)
app.command()(doctor_commands.doctor)
app.add_typer(checkpoint_commands.app, name="notify")
app.command()(checkpoint_commands.sweep)
app.command()(checkpoint_commands.checkpoints)
app.command()(nightly_commands.nightly)
app.command()(nightly_commands.compact)


def main() -> None:
    """Run the command; every foreseen failure ends as a sentence on stderr and an exit code."""
    try:
        app(prog_name="gradebook")
    except GradebookError as error:
        _tell(str(error))
        sys.exit(error.exit_code)
    except SystemExit as end:
        if end.code != INTERRUPTED:
            raise
        _tell("interrupted; the same command goes on where it stopped")
        sys.exit(NOT_FINISHED)
    except BrokenPipeError:
        sys.exit(DONE)
    except Exception as error:  # noqa: BLE001 - the last edge: the traceback is kept, a sentence is shown
        _tell(f"unexpected {type(error).__name__}: {error} (traceback in {_keep_traceback()})")
        sys.exit(NOT_FINISHED)


def _tell(sentence: str) -> None:
    """Say on stderr what went wrong; control characters of a file or a name can't steer the terminal."""
    shown = (letter if letter.isprintable() or letter == "\n" else repr(letter)[1:-1] for letter in sentence)
    typer.echo(f"gradebook: {''.join(shown)}", err=True)


def _keep_traceback() -> str:
    with tempfile.NamedTemporaryFile("w", prefix="gradebook-", suffix=".log", delete=False) as file:
        file.write(traceback.format_exc())
    return file.name


if __name__ == "__main__":
    main()
