"""The command `gradebook report`: what a published run found, as a page, a comment or a picture."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from gradebook.flows.commands.options import DEFAULT_LAKE, AtOption, DataOption, LakeOption
from gradebook.rubrics.model.errors import InputError

STDOUT = Path("-")


class ReportFormat(StrEnum):
    """How `gradebook report` writes a run."""

    html = "html"
    md = "md"
    png = "png"


def report(
    run: Annotated[str | None, typer.Argument(help="a run's id; default: the run published last")] = None,
    against: Annotated[
        str | None, typer.Option("--against", help="compare with this run; default: the run's baseline")
    ] = None,
    form: Annotated[
        ReportFormat, typer.Option("--format", help="a page, Markdown for a comment, or a picture for a chat")
    ] = ReportFormat.html,
    out: Annotated[
        Path | None, typer.Option("--out", help="the file to write, - for stdout; default: RUN.html, .md or .png")
    ] = None,
    at: AtOption = None,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
) -> None:
    """Write what a run found: a page that opens from disk, a comment for a pull request, or a picture.

    Without --against it stands beside its baseline; where it has none, its two best models beside each other.

    \b
    gradebook report
    gradebook report nightly-2 --against nightly-1 --out report.html
    gradebook report nightly-2 --format md --out - | gh pr comment 12 -F -
    gradebook report nightly-2 --format png --out night.png
    """
    from gradebook.tasks.lake.versions import find_lake_at
    from gradebook.tasks.published.summary import latest_run, summarise
    from gradebook.tasks.reporting.export.picture import run_report

    found = find_lake_at(lake, data, at)
    summary = summarise(found, run or latest_run(found))
    _write(run_report(found, summary, form.value, against), out or Path(f"{summary.run_id}.{form.value}"))


def _write(content: bytes, out: Path) -> None:
    """Write a file whole or not at all, or on stdout. Raises `InputError`."""
    from gradebook.tasks.system.files import write_bytes

    if out == STDOUT:
        typer.echo(content, nl=False)
        return
    try:
        write_bytes(out, content)
    except (OSError, ValueError) as error:  # an empty name is a ValueError
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"--out: can't write {out}: {reason}") from error
    typer.echo(out)
