"""Server of a lake's pages: their addresses, and who may read them."""

from collections.abc import Mapping

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request, cookie_parser
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import Scope

from gradebook.tasks.lake.address import Lake
from gradebook.tasks.reporting.rendering import digest, script
from gradebook.tasks.system.listeners import Guard, Rules, Tokens
from gradebook.tasks.viewing import alive, case, cases, compared, editor, home, people, rubrics, run, sql_page
from gradebook.tasks.viewing.frame import Editing, Frame, static_routes

# The report is a file of its own: its script, allowed by its digest, and its styles are in it.
POLICY = (
    "default-src 'none'; img-src 'self' data:; media-src data:; style-src 'unsafe-inline'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'; script-src 'self' '{report_script}'"
)
MOST_FORM_BYTES = 3_000_000
SENTENCES: Mapping[int, str] = {
    403: "This link has ended: open the one that `gradebook view` printed last.",
    404: "There is no such page.",
    405: "This page can only be read.",
}


def view_app(lake: Lake, tokens: Tokens, hosts: tuple[str, ...], editing: Editing | None = None) -> Guard:
    """ASGI app of a lake's pages. hosts: HOST:PORT that requests may name; tokens: of those who may read.

    editing: what they may write; None: nothing.
    """
    frame = Frame(lake, editing)
    home.draw_home(frame, {})  # what takes a second the first time is done before anybody waits
    cookie = f"gradebook_view_{hosts[0].rpartition(':')[2]}"  # browsers share cookies between ports

    def enter(request: Request) -> Response:
        """First page, by the link that the command printed; sets the cookie."""
        if tokens.name_of(request.path_params["token"]) is None:
            raise HTTPException(403)
        response = RedirectResponse("/", 303)
        response.set_cookie(cookie, request.path_params["token"], httponly=True, samesite="lax")
        return response

    def refuse(scope: Scope, headers: Headers) -> int | None:
        if scope["type"] == "http" and scope["path"].startswith("/t/"):
            return None
        return tokens.refusal(cookie_parser("; ".join(headers.getlist("cookie"))).get(cookie))

    pages = (home, alive, run, cases, case, compared, editor, rubrics, people, sql_page)  # each with its `routes`
    routes = [Route("/t/{token}", enter), *static_routes(), *(route for page in pages for route in page.routes(frame))]
    rules = Rules(
        hosts,
        refuse,
        schemes=("http", "https"),  # a proxy may add TLS
        needs_origin=True,
        most_body_bytes=0 if editing is None else MOST_FORM_BYTES,
        headers={"Content-Security-Policy": POLICY.format(report_script=digest(script()))},
    )
    return Guard(Starlette(routes=routes, exception_handlers={HTTPException: _missing, Exception: _missing}), rules)


def _missing(_request: Request, error: Exception) -> Response:
    """Plain page for an address that is none, or a link that has ended."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    sentence = SENTENCES.get(status, "This page could not be drawn.")
    return HTMLResponse(f'<!doctype html><html lang="en"><title>gradebook</title><p>{sentence}</p></html>', status)
