"""The command `gradebook doctor`: problems of a lake or the machine, and their fixes."""

from typing import Annotated

import typer

from gradebook.flows.commands.options import DEFAULT_LAKE, DONE, NOT_MET, DataOption, JsonOption, LakeOption, print_json
from gradebook.flows.display.terminal import say
from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.operations.doctor.examine import Examination, examine_lake, mend_lake
from gradebook.tasks.operations.doctor.judge import examine_judge


def doctor(
    deep: Annotated[bool, typer.Option("--deep", help="also read every file and recompute every id and key")] = False,
    mend: Annotated[
        bool,
        typer.Option("--mend", help="apply safe fixes first: settle journals, clean up, mark ended runs as failed"),
    ] = False,
    judge: Annotated[
        str | None,
        typer.Option(
            "--judge",
            help="examine a judge's endpoint instead, by 3 requests, or 20 on this machine: a model or a judge file",
        ),
    ] = None,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Examine a lake and the machine, and suggest fixes.

    The lake's catalog, files, runs, ledger and digests are checked. Nothing is written without --mend, which moves the
    replies of killed processes into the ledger, marks their runs as failed, and deletes working files of published
    runs and files of no version. Published tables never change.

    \b
    gradebook doctor
    gradebook doctor --deep --json
    gradebook doctor --mend
    gradebook doctor --judge judge.yaml

    Exit: 0 no problems, 1 problems found, 2 no such lake or judge.
    """
    if judge is not None:
        if deep or mend:
            raise InputError("--judge", "--deep" if deep else "--mend", "neither: they examine a lake")
        examination = Examination(tuple(examine_judge(judge)), ())
    else:
        found = find_lake(lake, data)
        examination = examine_lake(found, is_deep=deep, mended=mend_lake(found) if mend else ())
    if as_json:
        print_json(examination.as_json())
    else:
        _show(examination)
    raise typer.Exit(NOT_MET if examination.problem_count else DONE)


def _show(examination: Examination) -> None:
    for sentence in examination.mended:
        say(f"fixed    {sentence}")
    for finding in examination.findings:
        say(f"{finding.severity:<8} {finding.check}: {finding.found}")
        if finding.mend is not None:
            say(f"         fix: {finding.mend}")
    count = examination.problem_count
    say("nothing is wrong" if not count else f"{count} problem{'s' if count > 1 else ''}")
