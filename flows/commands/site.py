"""The command `gradebook site`: the home page of a lake."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from gradebook.flows.commands.options import DEFAULT_LAKE, AtOption, DataOption, JsonOption, LakeOption, print_json
from gradebook.flows.commands.read_lake import read_lake
from gradebook.flows.display.progress_bars import shown_progress
from gradebook.flows.display.terminal import notes, plain
from gradebook.rubrics.model.counts import counted
from gradebook.tasks.reporting.site.site import write_site


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
    gradebook site public
    gradebook site public --anew --json
    """
    with shown_progress():
        found = write_site(read_lake(lake, data, at), out, is_anew=is_anew)
    if as_json:
        counts = {"report_count": found.report_count, "kept_count": found.kept_count}
        print_json({"home": str(found.home), **counts, "rubric_count": found.rubric_count, "faults": found.faults})
        return
    for run_id, fault in found.faults.items():
        notes.print(f"[yellow]no report of {run_id}:[/] {escape(plain(fault))}", soft_wrap=True)
    reports = f"{counted(found.report_count, 'report')} written, {found.kept_count:,} unchanged"
    notes.print(f"{reports}, {counted(found.rubric_count, 'rubric')}", highlight=False)
    typer.echo(found.home)
