"""The command `gradebook doctor`: problems of a lake or the machine, and their fixes."""

from pathlib import Path
from typing import Annotated

import typer

from gradebook.flows.commands.options import DEFAULT_LAKE, DONE, NOT_MET, DataOption, JsonOption, LakeOption, print_json
from gradebook.flows.display.terminal import plain, say, stderr
from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.operations.doctor.examine import Examination, examine_lake, fix_lake
from gradebook.tasks.operations.doctor.findings import OK
from gradebook.tasks.operations.doctor.judge import examine_judge, examine_structure, structure_price, write_judge_file


def doctor(  # noqa: PLR0913 - each is an option
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
    write: Annotated[
        Path | None,
        typer.Option("--write", help="with --judge: write a judge file with the settings that its endpoint takes"),
    ] = None,
    structure: Annotated[
        bool,
        typer.Option(
            "--structure",
            help="with --judge: ask 20 questions in each form of reply, the strictest first, until one can be read",
        ),
    ] = False,
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
    gradebook doctor --judge gpt-5-mini --write judge.yaml
    gradebook doctor --judge judge.yaml --structure

    Exit: 0 no problems, 1 problems found, 2 no such lake or judge.
    """
    if judge is not None:
        if deep or mend:
            raise InputError("--judge", "--deep" if deep else "--mend", "neither: they examine a lake")
        if structure:
            stderr.print(plain(structure_price(judge)), markup=False)  # before anything is asked
        findings = () if write is None else (write_judge_file(judge, write),)
        is_written = any(finding.severity == OK for finding in findings)
        examined = str(write) if is_written else judge  # what the file has is examined, where there is one
        structure_findings = examine_structure(examined) if structure else ()
        examination = Examination((*findings, *examine_judge(examined), *structure_findings), ())
    elif write is not None or structure:
        option = "--structure" if write is None else "--write"
        raise InputError(option, "no judge", "--judge with a model or a judge file")
    else:
        found_lake = find_lake(lake, data)
        examination = examine_lake(found_lake, is_deep=deep, mended=fix_lake(found_lake) if mend else ())
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
