"""The command `gradebook report`: a published run as a page, a comment or a picture."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from gradebook.flows.commands.completion import complete_run
from gradebook.flows.commands.options import DEFAULT_LAKE, AtOption, DataOption, LakeOption
from gradebook.flows.commands.read_lake import read_lake
from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.published.run_list import latest_run, refuse_unknown_run
from gradebook.tasks.published.summary import summarise
from gradebook.tasks.reporting.export.picture import run_report
from gradebook.tasks.system.files import write_bytes
from gradebook.tasks.workspace.folder import RunFolder

STDOUT = Path("-")


class ReportFormat(StrEnum):
    """Formats of `gradebook report`."""

    html = "html"
    md = "md"
    png = "png"


def report(
    run: Annotated[
        str | None, typer.Argument(help="a run's id; default: the latest published run", autocompletion=complete_run)
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            "--against", help="id of the run to compare with; default: the run's baseline", autocompletion=complete_run
        ),
    ] = None,
    form: Annotated[
        ReportFormat, typer.Option("--format", help="a page, Markdown for a comment, or a picture for a chat")
    ] = ReportFormat.html,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="file to write or replace, - for stdout; default: RUN.html, RUN.md or RUN.png"
        ),
    ] = None,
    at: AtOption = None,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
) -> None:
    """Write a run's report: a page, a comment or a picture.

    The page opens from disk. Without --against the run is compared with its baseline; without a baseline, its two best
    models are compared with each other.

    \b
    gradebook report
    gradebook report nightly-2 --against nightly-1 --out report.html
    gradebook report nightly-2 --format md --out - | gh pr comment 12 -F -
    gradebook report nightly-2 --format png --out night.png
    """
    if form is ReportFormat.png and out == STDOUT and sys.stdout.isatty():
        raise InputError("--out", "- with a picture, which a terminal can't show", "a file or a pipe")
    if out is not None and out.is_dir():
        raise InputError("--out", f"can't write {out}: Is a directory")
    found = read_lake(lake, data, at)
    if against is not None:
        refuse_unknown_run(found, against, "--against")  # first, as a summary takes longer
    summary = summarise(found, run or latest_run(found))
    name = RunFolder.below(found.root, summary.run_id).run_id
    _write(run_report(found, summary, form.value, against), out or Path(f"{name}.{form.value}"))


def _write(content: bytes, out: Path) -> None:
    """Write a file completely or not at all, or write to stdout. Raises `InputError`."""
    if out == STDOUT:
        typer.echo(content, nl=False)
        return
    try:
        write_bytes(out, content)
    except (OSError, ValueError) as error:  # an empty name is a ValueError
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError("--out", f"can't write {out}: {reason}") from error
    typer.echo(out)
