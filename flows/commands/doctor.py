"""The command `gradebook doctor`: what is wrong with a lake or the machine, and what to type against it."""

from typing import TYPE_CHECKING, Annotated

import typer

from gradebook.flows.commands.options import DEFAULT_LAKE, DONE, NOT_MET, DataOption, JsonOption, LakeOption, print_json

if TYPE_CHECKING:
    from gradebook.tasks.operations.doctor.examine import Examination


def doctor(
    deep: Annotated[bool, typer.Option("--deep", help="read every file, work out every id and key again")] = False,
    mend: Annotated[
        bool, typer.Option("--mend", help="first do what harms nothing: settle, tidy up, mark runs that ended")
    ] = False,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Examine a lake: its catalog, files, runs, books and digests, and the machine that it is used on.

    Nothing is written without --mend. That moves replies which a killed process left into the ledger, marks its run as
    failed, and removes what published runs worked with and files that no version reads. Nothing published changes.

    \b
    gradebook doctor
    gradebook doctor --deep --json
    gradebook doctor --mend

    Exit: 0 nothing is wrong, 1 problems were found, 2 there is no lake.
    """
    from gradebook.tasks.lake.address import find_lake
    from gradebook.tasks.operations.doctor.examine import examine_lake, mend_lake

    found = find_lake(lake, data)
    mended = mend_lake(found) if mend else ()
    examination = examine_lake(found, is_deep=deep, mended=mended)
    if as_json:
        print_json(examination.as_json())
    else:
        _show(examination)
    raise typer.Exit(NOT_MET if examination.problem_count else DONE)


def _show(examination: "Examination") -> None:
    for sentence in examination.mended:
        typer.echo(f"mended   {_shown(sentence)}")
    for finding in examination.findings:
        typer.echo(f"{finding.severity:<8} {finding.check}: {_shown(finding.found)}")
        if finding.mend is not None:
            typer.echo(f"         mend: {_shown(finding.mend)}")
    count = examination.problem_count
    typer.echo("nothing is wrong" if not count else f"{count} problem{'s' if count > 1 else ''}")


def _shown(text: str) -> str:
    """A sentence on one line, that can't steer the terminal."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)
