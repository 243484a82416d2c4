"""The commands `gradebook lake ledger ...`: verify and show paid judge replies."""

from typing import Annotated, Any

import typer

from gradebook.flows.commands.options import (
    DEFAULT_LAKE,
    DONE,
    NOT_MET,
    DataOption,
    JsonOption,
    LakeOption,
    complete_run,
    print_json,
)
from gradebook.flows.display.progress_bars import shown_progress
from gradebook.flows.display.terminal import plain, say
from gradebook.rubrics.text.wording import counted
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.ledger.ledger import find_judgments
from gradebook.tasks.ledger.verify import Verification, verify_ledger
from gradebook.tasks.system.progress import reporter

MOST_SHOWN = 20


def verify(
    run: Annotated[
        str | None,
        typer.Option("--run", help="only judgments that this run paid for or uses", autocompletion=complete_run),
    ] = None,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Recompute request keys, parse replies again, and find the judgment of each verdict.

    \b
    gradebook lake ledger verify
    gradebook lake ledger verify --run 20261101-020000-a1b2c3 --json

    Exit: 0 everything agrees, 1 a difference was found, 2 bad input.
    """
    with shown_progress():
        verification = verify_ledger(
            find_lake(lake, data),
            run,
            lambda count: reporter().begin("verify", count),
            lambda count: reporter().advance("verify", count),
        )
        reporter().end("verify")
    if as_json:
        print_json(verification.as_json())
    else:
        _show(verification)
    raise typer.Exit(NOT_MET if verification.finding_count else DONE)


def show(
    name: Annotated[str, typer.Argument(help="a request key or an output's id")],
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the judgments of a request key or an output, with the raw replies.

    \b
    gradebook lake ledger show 0f8fad5bd9cb469fa16570867728950e
    """
    judgments = find_judgments(find_lake(lake, data), name)
    if as_json:
        print_json({"judgments": judgments})
        return
    for judgment in judgments:
        typer.echo("\n".join(f"{column}: {_shown(value)}" for column, value in judgment.items() if value is not None))
        typer.echo()


def _show(verification: Verification) -> None:
    say(
        f"{counted(verification.judgment_count, 'judgment')}: {counted(verification.recomputed_count, 'key')} "
        f"recomputed, {counted(verification.reread_count, 'reply', 'replies')} parsed again; "
        f"{counted(verification.verdict_count, 'verdict')} looked up"
    )
    for why, count in sorted(verification.not_recomputed.items()):
        say(f"not checked: {count} {why}")
    for finding in verification.findings[:MOST_SHOWN]:
        subject = f"judgment {finding.judgment_id or 'none'} of run {finding.run_id}: {finding.subject}"
        say(f"{subject}: found {_shown(finding.found)}, expected {_shown(finding.expected)}")
    if verification.finding_count > MOST_SHOWN:
        say(f"... {verification.finding_count - MOST_SHOWN:,} more; --json lists the first thousand")
    count = verification.finding_count
    say("no differences" if not count else counted(count, "difference"))


def _shown(value: Any) -> str:
    """Value on one line, with control characters escaped."""
    return plain("none" if value is None else str(value))
