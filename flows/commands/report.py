"""The commands `gradebook report`, for a published run, and `gradebook lake site`, for the home page of a lake."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

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
from gradebook.flows.display.progress_bars import shown_activity, shown_progress
from gradebook.flows.display.terminal import plain, stderr
from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.text.wording import counted
from gradebook.tasks.published.runs import latest_run, refuse_unknown_run
from gradebook.tasks.published.summary import summarise
from gradebook.tasks.reporting.page import run_report
from gradebook.tasks.reporting.site import write_site
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
    found_lake = read_lake(lake, data, at)
    if against is not None:
        refuse_unknown_run(found_lake, against, "--against")  # checked first, as a summary takes longer
    with shown_activity("drawing the report"):
        summary = summarise(found_lake, run or latest_run(found_lake))
        name = RunFolder.below(found_lake.root, summary.run_id).run_id
        content = run_report(found_lake, summary, form.value, against)
    _write(content, out or Path(f"{name}.{form.value}"))


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


def site(
    out: Annotated[Path, typer.Argument(help="folder to write to; created if missing")],
    is_anew: Annotated[bool, typer.Option("--anew", help="write existing reports again too")] = False,
    at: AtOption = None,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a lake's home page: runs, trends, reports and rubrics.

    The files are static: open OUT/index.html, or copy the folder to any web server. Run the same command again to add
    new runs.

    \b
    gradebook lake site public
    gradebook lake site public --anew --json
    """
    with shown_progress():
        summary = write_site(read_lake(lake, data, at), out, is_anew=is_anew)
    if as_json:
        counts = {"report_count": summary.report_count, "kept_count": summary.kept_count}
        print_json(
            {"home": str(summary.home), **counts, "rubric_count": summary.rubric_count, "faults": summary.faults}
        )
        return
    for run_id, fault in summary.faults.items():
        stderr.print(f"[yellow]no report of {run_id}:[/] {escape(plain(fault))}", soft_wrap=True)
    reports = f"{counted(summary.report_count, 'report')} written, {summary.kept_count:,} unchanged"
    stderr.print(f"{reports}, {counted(summary.rubric_count, 'rubric')}", highlight=False)
    typer.echo(summary.home)
