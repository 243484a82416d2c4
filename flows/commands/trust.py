"""The command `gradebook judge trust`: whether a run's judge may be trusted, on one page of sentences."""

from typing import Annotated

import typer

from gradebook.flows.commands.options import (
    DEFAULT_LAKE,
    AtOption,
    DataOption,
    JsonOption,
    LakeOption,
    complete_run,
    print_json,
)
from gradebook.flows.commands.read_lake import read_lake
from gradebook.flows.display.terminal import plain, say, stdout
from gradebook.tasks.published.runs import named_run
from gradebook.tasks.reporting.judge_trust import TrustAnswer, read_judge_trust
from gradebook.tasks.system.shell import shell_line


def trust(
    run: Annotated[
        str | None, typer.Argument(help="a run's id; default: the latest published run", autocompletion=complete_run)
    ] = None,
    at: AtOption = None,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say whether a run's judge may be trusted, and why.

    A sentence each on agreement with people, means corrected by ratings, noise, drift, replies and raters, with the
    command that has the figures, or that makes them where they are missing. Nothing is asked or written.

    \b
    gradebook judge trust
    gradebook judge trust nightly-2 --json

    Exit: 0 done, 2 bad input.
    """
    found_lake = read_lake(lake, data, at)
    trust_answer = read_judge_trust(found_lake, named_run(found_lake, run))
    if as_json:
        print_json(trust_answer.as_json())
    else:
        _show(trust_answer)


def _show(trust_answer: TrustAnswer) -> None:
    say(f"run {plain(trust_answer.run_id)}, {plain(trust_answer.rubric)}, judge {plain(trust_answer.judge or 'none')}")
    say(f"May the judge be trusted? {plain(trust_answer.answer)}")
    for ground in trust_answer.grounds:
        finding = ground.finding
        stdout.print()
        say(f"{finding.symbol} {finding.topic}: {plain(finding.words)}")
        if ground.command is not None:
            stdout.print(f"  {plain(shell_line(ground.command))}", markup=False, soft_wrap=True)
