"""Home page of a lake: runs, reports and rubrics as static files that link to each other."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect_up_to_date
from gradebook.tasks.published.summary import summarise
from gradebook.tasks.reporting.drawing.templates import render
from gradebook.tasks.reporting.page import write_report
from gradebook.tasks.reporting.site.rubrics import read_rubric_pages, shipped_pages
from gradebook.tasks.reporting.site.runs import RunLine, read_home
from gradebook.tasks.system.files import write_text
from gradebook.tasks.system.progress import reporter

STAGE = "site"


@dataclass(frozen=True, slots=True)
class Site:
    """Site as written. home: the page to open; kept_count: existing reports that were left unchanged.

    faults: reason why a run has no report, by run.
    """

    home: Path
    report_count: int
    kept_count: int
    rubric_count: int
    faults: Mapping[str, str]


def write_site(lake: Lake, folder: Path, *, is_anew: bool = False) -> Site:
    """Write the home page of a lake and all pages that it links to.

    Existing reports are left unchanged, because a published run never changes; is_anew: write all of them again. Raises
    `InputError` if the folder can't be written.
    """
    with connect_up_to_date(lake, is_pinned=True) as connection:
        home = read_home(connection, lake)
        rubrics = read_rubric_pages(connection)
    shipped = shipped_pages([rubric.rubric_id for rubric in rubrics])
    try:
        wanted = [*_missing_reports(folder, home.published, is_anew=is_anew)]
        faults = _write_reports(lake, wanted)
        for rubric in (*rubrics, *shipped):
            write_text(_inside(folder, rubric.page), render("rubric.html.j2", rubric=rubric))
        values = {"home": home, "lake": lake, "rubrics": rubrics, "shipped": shipped, "faults": faults}
        write_text(folder / "index.html", render("site.html.j2", **values))
    except OSError as error:
        raise InputError(f"site: can't write {error.filename or folder}: {error.strerror}") from error
    kept_count = len(home.published) - len(wanted)
    return Site(folder / "index.html", len(wanted) - len(faults), kept_count, len(rubrics), faults)


def _write_reports(lake: Lake, wanted: Sequence[tuple[RunLine, Path]]) -> dict[str, str]:
    """Write the reports of these runs; returns the fault of each run whose report could not be written.

    A page in the lake's folder is not copied: anybody may have put it there.
    """
    faults: dict[str, str] = {}
    reporter().begin(STAGE, len(wanted))
    for run, path in wanted:
        try:
            write_report(lake, summarise(lake, run.run_id), path, rubric_page=f"../rubrics/{run.run['rubric_id']}.html")
        except OSError:  # a fault of the folder affects all reports
            raise
        except Exception as error:  # noqa: BLE001 - a fault of one run must not stop the others
            faults[run.run_id] = f"{type(error).__name__}: {error}".splitlines()[0]
        reporter().advance(STAGE, 1)
    reporter().end(STAGE)
    return faults


def _inside(folder: Path, name: str) -> Path:
    """Path of a page. Raises `InputError` if it lies outside the folder: names come from the catalog."""
    root, path = os.path.realpath(folder), folder / name
    if os.path.commonpath([root, os.path.realpath(path)]) != root:
        raise InputError("site", f"the page {name!r}, which lies outside {folder}", "pages in the folder alone")
    return path


def _missing_reports(folder: Path, runs: tuple[RunLine, ...], *, is_anew: bool) -> Iterator[tuple[RunLine, Path]]:
    for run in runs:
        path = _inside(folder, run.report)
        if is_anew or not path.is_file():
            yield run, path
