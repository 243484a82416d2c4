"""The home page of a lake: its runs, their reports and its rubrics, as static files that link to each other."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect_up_to_date
from gradebook.tasks.published.summary import summarise
from gradebook.tasks.reporting.drawing.templates import render
from gradebook.tasks.reporting.page import write_report
from gradebook.tasks.reporting.site.rubrics import read_rubric_pages
from gradebook.tasks.reporting.site.runs import RunLine, read_home
from gradebook.tasks.system.files import replaced_file, write_text
from gradebook.tasks.system.progress import reporter
from gradebook.tasks.workspace.folder import RunFolder

STAGE = "site"


@dataclass(frozen=True, slots=True)
class Site:
    """What was written. home: the page to open; kept_count: reports of earlier times that were left as they are.

    faults: by run, why it has no report.
    """

    home: Path
    report_count: int
    kept_count: int
    rubric_count: int
    faults: Mapping[str, str]


def write_site(lake: Lake, folder: Path, *, is_anew: bool = False) -> Site:
    """Write the home page of a lake and all that it links to into a folder.

    A published run never changes, so a report that is there stays; is_anew: write all of them again. Raises
    `InputError` where the folder can't be written.
    """
    with connect_up_to_date(lake, is_pinned=True) as connection:
        home = read_home(connection, lake)
        rubrics = read_rubric_pages(connection)
    try:
        wanted = [*_missing_reports(folder, home.published, is_anew=is_anew)]
        faults = _write_reports(lake, wanted, is_anew=is_anew)
        for rubric in rubrics:
            write_text(folder / rubric.page, render("rubric.html.j2", rubric=rubric))
        write_text(folder / "index.html", render("site.html.j2", home=home, lake=lake, rubrics=rubrics, faults=faults))
    except OSError as error:
        raise InputError(f"site: can't write {error.filename or folder}: {error.strerror}") from error
    kept_count = len(home.published) - len(wanted)
    return Site(folder / "index.html", len(wanted) - len(faults), kept_count, len(rubrics), faults)


def _write_reports(lake: Lake, wanted: Sequence[tuple[RunLine, Path]], *, is_anew: bool) -> dict[str, str]:
    """Write the reports of these runs; returns by run why it has none: the others have theirs all the same."""
    faults: dict[str, str] = {}
    reporter().begin(STAGE, len(wanted))
    for run, path in wanted:
        try:
            _write_report(lake, run.run_id, path, is_anew=is_anew)
        except OSError:  # the folder's fault, and the same for all
            raise
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one run, the others are not at fault
            faults[run.run_id] = f"{type(error).__name__}: {error}".splitlines()[0]
        reporter().advance(STAGE, 1)
    reporter().end(STAGE)
    return faults


def _write_report(lake: Lake, run_id: str, path: Path, *, is_anew: bool) -> None:
    made = RunFolder(lake.root / "runs" / run_id).report_file
    if made.is_file() and not is_anew:
        with replaced_file(path) as temporary:
            shutil.copyfile(made, temporary)
    else:
        write_report(lake, summarise(lake, run_id), path)


def _missing_reports(folder: Path, runs: tuple[RunLine, ...], *, is_anew: bool) -> Iterator[tuple[RunLine, Path]]:
    for run in runs:
        path = folder / run.report
        if is_anew or not path.is_file():
            yield run, path
