"""What all pages of the server share: the lake, the frame around a page, and the answer for what is not there."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from pathlib import PurePath
from threading import Lock
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from gradebook.rubrics.model.errors import GradebookError, InputError
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import latest_version
from gradebook.tasks.lake.rows import Row
from gradebook.tasks.published.summary import RunSummary, summarise
from gradebook.tasks.reporting.rendering import page_text, render, script
from gradebook.tasks.viewing.edited import RubricFolder
from gradebook.tasks.viewing.progress import ProgressReader

NAVIGATION = (
    ("/", "Home"),
    ("/#runs", "Runs"),
    ("/rubrics", "Rubrics"),
    ("/people", "People"),
    ("/sql", "SQL"),
)  # address and name of the pages that are reached from every page
SCRIPTS: dict[str, Callable[[], str]] = {
    "/static/htmx.js": lambda: page_text("vendor/htmx.min.js"),
    "/static/report.js": script,
    "/static/view.js": lambda: page_text("view/view.js"),
}

TRY_BUDGET_USD = 0.05
FORM_TYPE = "application/x-www-form-urlencoded"
MOST_FIELDS = 50  # of a form
MOST_DIGITS = 7  # of a page's number
MOST_TURNS = 64  # pages that are worked out at once
MOST_STORED = 64  # contents of pages: a report has up to some MB

Contents = TypeVar("Contents")
Draw = Callable[[Request], str | Response]


@dataclass(frozen=True, slots=True)
class Editing:
    """Settings of `gradebook view --edit`. judge: of trials, None for none; try_budget_usd: maximum spend of one."""

    folder: RubricFolder
    judge: str | None = None
    try_budget_usd: float = TRY_BUDGET_USD


class Frame:
    """Frame of the pages of one lake. Nothing on a page is older than the lake's latest version.

    editing: None where the pages only read.
    """

    def __init__(self, lake: Lake, editing: Editing | None = None) -> None:
        self.lake, self.editing = lake, editing
        self.progress = ProgressReader(lake)
        self._stored: OrderedDict[tuple[Hashable, ...], tuple[int, Any]] = OrderedDict()
        self._lock = Lock()
        self._turns = tuple(Lock() for _ in range(MOST_TURNS))

    def at_version(
        self, read: Callable[..., Contents], *arguments: Hashable, beside: str = "", **derived: Any
    ) -> Contents:
        """Contents that depend on the lake: `read(lake, *arguments)`, stored until the lake has a new version.

        beside: what else they depend on. derived: further arguments that follow from these and the lake.
        """
        key, version = (read.__qualname__, beside, *arguments), latest_version(self.lake)
        with self._turns[hash(key) % len(self._turns)]:  # of many readers of a page, one works it out
            with self._lock:
                stored = self._stored.get(key)
            if stored is None or stored[0] < version:
                stored = version, read(self.lake, *arguments, **derived)
            with self._lock:
                self._stored[key] = stored
                self._stored.move_to_end(key)
                if len(self._stored) > MOST_STORED:
                    self._stored.popitem(last=False)
        contents: Contents = stored[1]
        return contents

    def summary(self, run_id: str) -> RunSummary:
        """Summary of a run, which its pages share. Raises `InputError` for a run that is not there or not published."""
        return self.at_version(summarise, run_id)

    def route(self, address: str, draw: Draw) -> Route:
        """Page at an address, drawn in a thread. draw: returns HTML, or a response of its own.

        An `InputError` is the page "not there", any other `GradebookError` the page "not now".
        """

        def respond(request: Request) -> Response:
            try:
                page = draw(request)
            except InputError as error:
                return self.fault(str(error), 404)
            except GradebookError as error:
                return self.fault(str(error), 503)
            return page if isinstance(page, Response) else HTMLResponse(page)

        return Route(address, respond)

    def form_route(self, address: str, take: Callable[[dict[str, str]], Response]) -> Route:
        """Address that takes a form, in a thread. take: what is done with its fields."""

        async def respond(request: Request) -> Response:
            if request.headers.get("content-type", "").partition(";")[0].strip() != FORM_TYPE:
                return self.fault(f"This address takes {FORM_TYPE}.", 415)
            body = (await request.body()).decode(errors="replace")
            try:
                fields = dict(parse_qsl(body, keep_blank_values=True, max_num_fields=MOST_FIELDS))
                return await run_in_threadpool(take, fields)
            except InputError as error:
                return self.fault(str(error), 404)
            except ValueError:
                return self.fault(f"A form has at most {MOST_FIELDS} fields.", 400)
            except GradebookError as error:
                return self.fault(str(error), 503)

        return Route(address, respond, methods=["POST"])

    def render(self, template: str, title: str, **values: Any) -> str:
        """Page by a template of pages/view that extends the frame. title: of the browser's tab."""
        return render(
            f"view/{template}", lake=self.lake, title=title, navigation=NAVIGATION, editing=self.editing, **values
        )

    def fault(self, sentence: str, status: int) -> HTMLResponse:
        """Page that says what is wrong."""
        return HTMLResponse(self.render("fault.html.j2", "gradebook", sentence=sentence, status=status), status)


def data_name(run: Row) -> str:
    """Name of a run's data without its folders; "" for none."""
    dataset = run["dataset"] or ""
    return PurePath(dataset).name or dataset


def page_number(text: str | None) -> int:
    """Number of a page in an address, from 1; what is none is the first."""
    is_number = text is not None and text.isascii() and text.isdigit() and len(text) < MOST_DIGITS
    return max(1, int(text)) if is_number and text else 1


def count_pages(row_count: int, rows_a_page: int) -> int:
    """Pages of so many rows, at least one."""
    return max(1, -(-row_count // rows_a_page))


def static_routes() -> list[Route]:
    """Scripts of the pages."""

    def route(address: str, read: Callable[[], str]) -> Route:
        def respond(_request: Request) -> Response:
            return Response(read(), media_type="text/javascript")

        return Route(address, respond)

    return [route(address, read) for address, read in SCRIPTS.items()]
