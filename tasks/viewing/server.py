"""Server of a lake's pages: addresses, access, and what is alive on them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from functools import cache
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request, cookie_parser
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Scope

from gradebook.rubrics.model.errors import GradebookError, InputError
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.reporting.rendering import digest, page_text, render, script
from gradebook.tasks.system.listeners import Guard, Rules, Tokens
from gradebook.tasks.viewing import compared, home, run
from gradebook.tasks.viewing.progress import ProgressReader

COOKIE = "gradebook_view"
ALIVE_S = 1.0  # between two readings of what is alive
MOST_STREAMS = 100  # open at once; further pages are not alive

# A page that is a file of its own, as the report is, has its own styles and script in it.
POLICY = (
    "default-src 'none'; img-src 'self' data:; media-src data:; style-src 'unsafe-inline'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'; script-src {scripts}"
)
Draw = Callable[..., str]


class View:
    """Pages of one lake. Every page is read anew: nothing on it is older than the lake."""

    def __init__(self, lake: Lake, tokens: Tokens) -> None:
        self.lake, self._tokens = lake, tokens
        self.progress = ProgressReader(lake)
        self._streams = 0

    def routes(self) -> list[Route]:
        """Addresses of all pages."""
        return [
            Route("/t/{token}", self.enter),
            Route("/", self.page(self.home)),
            Route("/alive", self.alive),
            Route("/runs/{run_id}", self.page(self.run)),
            Route("/runs/{run_id}/report", self.page(self.report)),
            Route("/compare", self.page(self.compare)),
        ]

    def page(self, draw: Draw) -> Callable[[Request], Response]:
        """Endpoint of a page: draws it in a thread; what the request names and is not there is a page that says so."""

        def respond(request: Request) -> Response:
            try:
                return HTMLResponse(draw(request))
            except InputError as error:
                return self.fault(str(error), 404)
            except GradebookError as error:
                return self.fault(str(error), 503)

        return respond

    def render(self, template: str, title: str, **values: Any) -> str:
        """Page in the frame that all pages share."""
        return render(f"view/{template}", lake=self.lake, title=title, view_script=view_script(), **values)

    def fault(self, sentence: str, status: int) -> HTMLResponse:
        """Page that says what is wrong."""
        return HTMLResponse(self.render("fault.html.j2", "gradebook", sentence=sentence, status=status), status)

    def enter(self, request: Request) -> Response:
        """First page, by the link that the command printed; sets the cookie."""
        if self._tokens.name_of(request.path_params["token"]) is None:
            raise HTTPException(403)
        response = RedirectResponse("/", 303)
        response.set_cookie(COOKIE, request.path_params["token"], httponly=True, samesite="lax")
        return response

    def home(self, request: Request) -> str:
        filters = home.Filters.read(request.query_params)
        contents = home.read_home_page(self.lake, filters, self.progress.read())
        return self.render("home.html.j2", f"{self.lake.name} · gradebook", **home.page_values(contents))

    def run(self, request: Request) -> str:
        contents = run.read_run_page(self.lake, request.path_params["run_id"])
        title = f"{contents.summary.run_id} · gradebook"
        return self.render("run.html.j2", title, **run.page_values(self.lake, contents))

    def report(self, request: Request) -> str:
        return run.whole_report(self.lake, request.path_params["run_id"], request.query_params.get("against"))

    def compare(self, request: Request) -> str:
        names = [request.query_params.get(side, "") for side in ("a", "b")]
        contents = compared.read_comparison_page(self.lake, *names)
        return self.render("compare.html.j2", f"{names[1]} against {names[0]} · gradebook", page=contents)

    async def alive(self, request: Request) -> Response:
        """Stream of what is alive: the runs in progress as HTML, each time that they change."""
        if self._streams >= MOST_STREAMS:
            return Response(status_code=503)
        return StreamingResponse(self._events(request), media_type="text/event-stream")

    async def _events(self, request: Request) -> AsyncIterator[str]:
        self._streams += 1
        sent = ""
        try:
            while not await request.is_disconnected():
                lines = await run_in_threadpool(self.progress.read)
                fragment = render("view/progress.html.j2", progress=lines)
                if fragment != sent:
                    sent = fragment
                    data = "".join(f"data: {line}\n" for line in fragment.splitlines())
                    yield f"event: progress\n{data}\n"
                await asyncio.sleep(ALIVE_S)
        finally:
            self._streams -= 1


@cache
def view_script() -> str:
    """Script of the pages in the frame."""
    return page_text("view/view.js")


def missing(_request: Request, error: Exception) -> Response:
    """Plain answer for an address that is none, or a link that has ended."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    sentences: Mapping[int, str] = {
        403: "This link has ended: open the one that `gradebook view` printed last.",
        404: "There is no such page.",
        405: "This page can only be read.",
    }
    sentence = sentences.get(status, "This page could not be drawn.")
    return HTMLResponse(f"<!doctype html><title>gradebook</title><p>{sentence}</p>", status)


def view_app(lake: Lake, tokens: Tokens, hosts: tuple[str, ...]) -> Guard:
    """ASGI app of a lake's pages. hosts: HOST:PORT that requests may name; tokens: of those who may read."""
    view = View(lake, tokens)
    starlette = Starlette(routes=view.routes(), exception_handlers={HTTPException: missing})
    scripts = " ".join(f"'{digest(text)}'" for text in (view_script(), script()))

    def refuse(scope: Scope, headers: Headers) -> int | None:
        if scope["type"] == "http" and scope["path"].startswith("/t/"):
            return None
        return tokens.refusal(cookie_parser("; ".join(headers.getlist("cookie"))).get(COOKIE))

    rules = Rules(
        hosts,
        refuse,
        schemes=("http", "https"),  # a proxy may add TLS
        needs_origin=True,
        most_body_bytes=0,
        headers={"Content-Security-Policy": POLICY.format(scripts=scripts)},
    )
    return Guard(starlette, rules)
