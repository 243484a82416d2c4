"""Pages on which people rate the outputs of a run, as an ASGI app."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from time import time
from typing import Any

from markupsafe import Markup
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request, cookie_parser
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from gradebook.rubrics.importers.ratings.grading import scales_of_rubric
from gradebook.rubrics.model.errors import GradebookError
from gradebook.rubrics.model.rubric import Criterion
from gradebook.tasks.datasets.media import MediaFiles
from gradebook.tasks.lake.connection_cache import cached_connections
from gradebook.tasks.ratings.rating_session import RatingSession
from gradebook.tasks.ratings.rating_store import SUBMITTED, Progress, Sheet, StaleSheet
from gradebook.tasks.reporting.drawing.templates import digest, page_text, render
from gradebook.tasks.reporting.sections.answers import folders_of
from gradebook.tasks.serving.claim_rows import claim_rows
from gradebook.tasks.serving.rating_forms import (
    CAUSES,
    CONFIDENCES,
    Criteria,
    SheetForm,
    StepRow,
    WrongForm,
    group_rows,
    read_form,
    step_rows,
)
from gradebook.tasks.serving.readable import readable, readable_case, steps_shown
from gradebook.tasks.system.listeners import Guard, Headers, Message, Rules, Tokens

STORE_EVERY_S = 30.0
MOST_FORM_BYTES = 1_000_000
MOST_POSITION_DIGITS = 9
MOST_RATED_STEPS = 100  # from each end of a trajectory
COOKIE = "gradebook_rater"
_FORM_TYPE = "application/x-www-form-urlencoded"
Told = Callable[[str], None]


class RatingApp:
    """State of a served session: who has which token, and when ratings were last moved to the lake."""

    def __init__(self, session: RatingSession, tokens: Tokens, tell: Told) -> None:
        """tell: takes remarks for the person who started the server."""
        self._session, self._tokens, self._tell = session, tokens, tell
        self._files = MediaFiles(folders_of(session.dataset))
        self._scales = scales_of_rubric(session.rubric)
        self._counts_steps = self._scales.counts_steps and not session.has_pairs

    def routes(self) -> list[Route]:
        return [
            Route("/t/{token}", self.welcome),
            Route("/", self.next),
            Route("/sheet/{position}", self.show),
            Route("/sheet/{position}", self.save, methods=["POST"]),
            Route("/back/{position}", self.back),
        ]

    def welcome(self, request: Request) -> Response:
        """First page of a rater, by the link with the token; sets the cookie."""
        token = request.path_params["token"]
        rater = self._name_of(token)
        progress = self._session.store.progress(rater, time())
        page = self._page(
            "welcome.html.j2",
            rater,
            progress,
            criterion_count=len(self._session.criteria),
            has_own=bool(self._session.own_count),
            has_judge=self._session.has_judge,
        )
        # A cookie of a strict site is not sent on a redirect from elsewhere: the page links to the first sheet.
        page.set_cookie(COOKIE, token, httponly=True, samesite="strict")
        return page

    def next(self, request: Request) -> Response:
        """The rater's next sheet."""
        rater = self._rater(request)
        sheet = self._session.store.next_sheet(rater, time())
        if sheet is not None:
            return RedirectResponse(f"/sheet/{sheet.position}", 303)
        progress = self._session.store.progress(rater, time())
        previous = self._session.store.previous_position(None, rater)
        return self._page("done.html.j2", rater, progress, previous=previous)

    def back(self, request: Request) -> Response:
        """The rater's finished sheet before this one."""
        rater = self._rater(request)
        position = _position(request)
        found = self._session.store.previous_position(position, rater)
        return RedirectResponse(f"/sheet/{position if found is None else found}", 303)

    def show(self, request: Request) -> Response:
        """A sheet that the rater has been given."""
        return self._sheet_page(self._given(_position(request), self._rater(request)))

    async def save(self, request: Request) -> Response:
        """Submitted sheet, draft or skip; on disk before it is acknowledged."""
        rater = self._rater(request)
        if request.headers.get("content-type", "").partition(";")[0].strip() != _FORM_TYPE:
            raise HTTPException(415, f"Expected {_FORM_TYPE}.")
        body = await request.body()
        return await run_in_threadpool(self._saved, _position(request), rater, body)

    def _criteria_of(self, sheet: Sheet) -> Criteria:
        """Criteria on a sheet; in place of those that marks of steps make, rows of the output's steps.

        Of a lead's sheet, what is in dispute.
        """
        criteria, opinions = self._session.criteria_of(sheet), sheet.texts["opinions"]
        scales = {} if self._session.has_pairs else self._scales.stepwise
        stepwise = {
            name: (each, scales[name])
            for name, each in criteria.items()
            if name in scales and isinstance(each, Criterion)
        }
        rows = {}
        if stepwise and (steps := sheet.texts.get("steps")):
            parts = [name.rpartition(".") for name in opinions]
            only = {int(step) for name, _, step in parts if name in stepwise} if opinions else None
            rows = step_rows(stepwise, steps_shown(steps, MOST_RATED_STEPS, only).cards, opinions)
        if opinions:
            return rows | {name: each for name, each in criteria.items() if name in opinions}
        made = {*stepwise, *(self._scales.counts.values() if self._counts_steps else ())} if rows else set()
        others = {name: each for name, each in criteria.items() if name not in made}
        return self._with_claims(sheet, {**rows, **others})

    def _with_claims(self, sheet: Sheet, criteria: Criteria) -> Criteria:
        """The criteria, with a row for each claim that the run found in place of the criterion that claims rate."""
        claims = sheet.texts.get("claims") or {}
        found: dict[str, Any] = {}
        for name, each in criteria.items():
            rows = claim_rows(each, claims.get(name, ())) if isinstance(each, Criterion) else {}
            found |= dict(rows) if rows else {name: each}
        return found

    def _saved(self, position: int, rater: str, body: bytes) -> Response:
        store, sheet = self._session.store, self._given(position, rater)
        criteria = self._criteria_of(sheet)
        try:
            form = read_form(body, criteria)
        except WrongForm as error:
            raise HTTPException(400, f"Not saved: {error}.") from error
        if form.action == "draft":
            is_saved = store.save_draft(position, rater, form.content, time())
            return Response(status_code=204 if is_saved else 409)
        if form.action == "skip":
            store.skip(position, rater)
            return RedirectResponse("/", 303)
        if missing := form.missing(criteria, is_decision=bool(sheet.texts["opinions"])):
            store.save_draft(position, rater, form.content, time())
            return self._sheet_page(sheet, form, missing=missing, status=422)
        try:
            shown = replace(sheet, version=form.version)
            scales = self._scales if self._counts_steps else None
            marks = form.marks(criteria, sheet.texts.get("agreed"), scales)
            store.submit(shown, form.content, marks, datetime.now(UTC), form.spent_s)
        except StaleSheet:
            return self._sheet_page(sheet, is_stale=True, status=409)
        has_answer = self._session.is_training and "gold" in sheet.texts
        return RedirectResponse(f"/sheet/{position}" if has_answer else "/", 303)

    def _sheet_page(
        self,
        sheet: Sheet,
        form: SheetForm | None = None,
        *,
        missing: tuple[str, ...] = (),
        is_stale: bool = False,
        status: int = 200,
    ) -> Response:
        progress = self._session.store.progress(sheet.rater, time())
        texts, criteria = sheet.texts, self._criteria_of(sheet)
        has_step_rows = any(isinstance(each, StepRow) for each in criteria.values())
        shown = [readable_case(texts.get("prompt"), *each, self._files) for each in self._session.answers(sheet)]
        return self._page(
            "sheet.html.j2",
            sheet.rater,
            progress,
            status=status,
            sheet=sheet,
            version=sheet.version if form is None else form.version,
            turns=shown[0].turns,
            pictures=shown[0].media,
            answers=[each.output for each in shown],
            reference=readable(texts["reference"]) if texts.get("reference") else None,
            trajectory=steps_shown(texts.get("steps")) if texts["opinions"] or not has_step_rows else None,
            contexts=[readable(each) for each in texts.get("context") or ()],
            groups=group_rows(
                criteria,
                sheet.content if form is None else form.content,
                missing,
                texts["opinions"],
            ),
            causes=CAUSES,
            confidences=CONFIDENCES,
            missing=missing,
            judged=texts.get("judged") or {},
            is_stale=is_stale,
            is_submitted=sheet.state == SUBMITTED,
            settled=texts.get("gold") if self._session.is_training and sheet.state == SUBMITTED else None,
        )

    def _page(self, template: str, rater: str, progress: Progress, status: int = 200, **values: Any) -> Response:
        rubric = self._session.rubric
        parts = {"style": Markup(_style()), "script": Markup(page_text("rating/rate.js"))}
        html = render(f"rating/{template}", rater=rater, progress=progress, rubric=rubric, **parts, **values)
        return HTMLResponse(html, status)

    def _rater(self, request: Request) -> str:
        return self._name_of(request.cookies.get(COOKIE))

    def _name_of(self, token: str | None) -> str:
        """Rater with the token; refuses all others."""
        found = self._tokens.name_of(token)
        if found is None:
            if self._tokens.is_under_attack:
                raise HTTPException(429, "Too many wrong tokens. Try again in a minute.", {"Retry-After": "60"})
            raise HTTPException(
                403, "This link is wrong or has ended: open the one that `gradebook rate` printed for you."
            )
        return found

    def _given(self, position: int, rater: str) -> Sheet:
        """A sheet that the rater has been given; refuses any other."""
        found = self._session.store.sheet(position, rater)
        if found is None:
            raise HTTPException(404, "This output was not given to you.")
        return found

    @asynccontextmanager
    async def lifespan(self, _app: Starlette) -> AsyncIterator[None]:
        """Move ratings to the lake every 30 s while the server runs; pages need no connection to it, of 25 MB."""
        await run_in_threadpool(cached_connections.close)
        moving = asyncio.create_task(self._store_often())
        try:
            yield
        finally:
            moving.cancel()
            with suppress(asyncio.CancelledError):
                await moving

    async def _store_often(self) -> None:
        while True:
            await asyncio.sleep(STORE_EVERY_S)
            try:
                if await run_in_threadpool(self._session.store_marks):
                    await run_in_threadpool(cached_connections.close)
            except GradebookError as error:  # the lake is away or locked: ratings wait in the session's file
                self._tell(f"the lake can't take ratings now, they wait on disk: {error}")


def _position(request: Request) -> int:
    """Position in a request's path; refuses a number that no queue has, which SQLite may not be able to store."""
    text = request.path_params["position"]
    if not (text.isascii() and text.isdigit() and len(text) <= MOST_POSITION_DIGITS):
        raise HTTPException(404, "This output was not given to you.")
    return int(text)


@cache
def _style() -> str:
    return render("rating/style.css.j2")


def rating_app(session: RatingSession, tokens: Tokens, hosts: tuple[str, ...], tell: Told) -> Guard:
    """ASGI app of a session. hosts: HOST:PORT that requests may name; tokens: of the raters."""
    app = RatingApp(session, tokens, tell)
    policy = (
        f"default-src 'none'; style-src '{digest(_style())}'; script-src '{digest(page_text('rating/rate.js'))}'; "
        "img-src data:; media-src data:; connect-src 'self'; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    )
    starlette = Starlette(routes=app.routes(), lifespan=app.lifespan)

    def refuse(scope: Message, headers: Headers) -> int | None:
        """Refuse forms of strangers before they are read; pages say themselves what is wrong with a link."""
        if scope["type"] == "http" and scope["method"] in ("GET", "HEAD"):
            return None
        return tokens.refusal(cookie_parser("; ".join(headers.get("cookie", []))).get(COOKIE))

    rules = Rules(
        hosts,
        refuse,
        schemes=("http", "https"),  # a proxy may add TLS
        needs_origin=True,
        most_body_bytes=MOST_FORM_BYTES,
        headers={"Content-Security-Policy": policy},
    )
    return Guard(starlette, rules)
