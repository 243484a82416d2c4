"""The forms of a run's report: a page, a comment, a picture."""

from gradebook.tasks.lake import Lake
from gradebook.tasks.reporting.comment import run_comment
from gradebook.tasks.reporting.page import run_page
from gradebook.tasks.reporting.picture import run_picture
from gradebook.tasks.reporting.source import opened_source
from gradebook.tasks.summary import RunSummary


def run_report(lake: Lake, summary: RunSummary, form: str, against: str | None = None) -> bytes:
    """The report of a published run as html, md or png. against: a run to compare with, not its baseline.

    Raises `InputError` where there is no such run, or nothing to compare.
    """
    with opened_source(lake, summary, against) as source:
        match form:
            case "html":
                return run_page(source).encode()
            case "md":
                return run_comment(source, against).encode()
        return run_picture(source)
