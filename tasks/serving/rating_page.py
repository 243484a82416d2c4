"""Pages on which people rate the outputs of a run, as an ASGI app.

Untrusted texts are made readable: Markdown and JSON are formatted, images and sounds are shown.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from itertools import compress
from time import time
from typing import Any, NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request, cookie_parser
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import Scope

from gradebook.rubrics.importers.ratings.grading import scales_of_rubric
from gradebook.rubrics.model.errors import GradebookError
from gradebook.rubrics.model.outputs import read_field
from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.prompts.media import Medium
from gradebook.rubrics.prompts.media_kinds import UnreadableMedia
from gradebook.rubrics.prompts.prompt import Case
from gradebook.tasks.datasets.media import MediaFiles
from gradebook.tasks.lake.connections import cached_connections
from gradebook.tasks.ratings.rating_queue import CAUSES, CONFIDENCES
from gradebook.tasks.ratings.rating_session import RatingSession
from gradebook.tasks.ratings.rating_store import SUBMITTED, Progress, Sheet, StaleSheet
from gradebook.tasks.reporting.rendering import Segment, digest, laid_out_json, page_text, render, segments_of, visible
from gradebook.tasks.reporting.sections.answers import Turn, folders_of, turns_of
from gradebook.tasks.reporting.sections.examples import MOST_CARDS, StepCards, step_cards
from gradebook.tasks.serving.rating_forms import (
    NOTES,
    Criteria,
    SheetForm,
    StepRow,
    WrongForm,
    claim_rows,
    group_rows,
    read_form,
    step_rows,
)
from gradebook.tasks.system.listeners import Guard, Rules, Tokens

STORE_EVERY_S = 30.0
MOST_FORM_BYTES = 1_000_000
MOST_POSITION_DIGITS = 9
MOST_RATED_STEPS = 100  # steps from each end of a trajectory
COOKIE = "gradebook_rater"
_FORM_TYPE = "application/x-www-form-urlencoded"
Notify = Callable[[str], None]


class RatingApp:
    """Routes of a rating session. Ratings move to the lake while the app runs."""

    def __init__(self, session: RatingSession, tokens: Tokens, tell: Notify) -> None:
        """tell: shows remarks to the person who started the server."""
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
            causes=CAUSES,
        )
        # After a redirect from another site, browsers do not send a SameSite=Strict cookie: so the page shows a link.
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
        previous = self._session.store.previous_position(position, rater)
        return RedirectResponse(f"/sheet/{position if previous is None else previous}", 303)

    def show(self, request: Request) -> Response:
        """A sheet that the rater has been given."""
        return self._sheet_page(self._sheet_of(_position(request), self._rater(request)))

    async def save(self, request: Request) -> Response:
        """Submitted sheet, draft or skip; on disk before it is acknowledged."""
        rater = self._rater(request)
        if request.headers.get("content-type", "").partition(";")[0].strip() != _FORM_TYPE:
            raise HTTPException(415, f"Expected {_FORM_TYPE}.")
        body = await request.body()
        return await run_in_threadpool(self._saved, _position(request), rater, body)

    def _criteria_of(self, sheet: Sheet) -> Criteria:
        """Criteria on a sheet; criteria that are rated by marks of steps are replaced by rows of steps.

        A lead's sheet has only the disputed ones.
        """
        criteria, opinions = self._session.criteria_of(sheet), sheet.texts["opinions"]
        scales = {} if self._session.has_pairs else self._scales.stepwise
        stepwise = {
            name: (criterion, scales[name])
            for name, criterion in criteria.items()
            if name in scales and isinstance(criterion, Criterion)
        }
        rows = {}
        if stepwise and (steps := sheet.texts.get("steps")):
            split_names = [name.rpartition(".") for name in opinions]
            only = {int(step) for name, _, step in split_names if name in stepwise} if opinions else None
            rows = step_rows(stepwise, cards_of_steps(steps, MOST_RATED_STEPS, only).cards, opinions)
        if opinions:
            return rows | {name: criterion for name, criterion in criteria.items() if name in opinions}
        replaced = {*stepwise, *(self._scales.counts.values() if self._counts_steps else ())} if rows else set()
        other_criteria = {name: criterion for name, criterion in criteria.items() if name not in replaced}
        return self._with_claims(sheet, {**rows, **other_criteria})

    def _with_claims(self, sheet: Sheet, criteria: Criteria) -> Criteria:
        """Criteria on a sheet; criteria that are rated by claims are replaced by a row for each claim of the run."""
        claims = sheet.texts.get("claims") or {}
        expanded: dict[str, Any] = {}
        for name, criterion in criteria.items():
            rows = claim_rows(criterion, claims.get(name, ())) if isinstance(criterion, Criterion) else {}
            expanded |= dict(rows) if rows else {name: criterion}
        return expanded

    def _saved(self, position: int, rater: str, body: bytes) -> Response:
        store, sheet = self._session.store, self._sheet_of(position, rater)
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
            seen = replace(sheet, version=form.version)
            scales = self._scales if self._counts_steps else None
            marks = form.marks(criteria, sheet.texts.get("agreed"), scales)
            store.submit(seen, form.content, marks, datetime.now(UTC), form.spent_s)
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
        has_step_rows = any(isinstance(criterion, StepRow) for criterion in criteria.values())
        methods = [criterion.method for criterion in criteria.values() if isinstance(criterion, Criterion)]
        fields = dict.fromkeys(field for method in methods if (field := getattr(method, "field", None)) is not None)
        answers = self._session.answers(sheet)
        cases = [readable_case(texts.get("prompt"), *answer, self._files, fields) for answer in answers]
        return self._page(
            "sheet.html.j2",
            sheet.rater,
            progress,
            status=status,
            sheet=sheet,
            version=sheet.version if form is None else form.version,
            turns=cases[0].turns,
            pictures=cases[0].media,
            answers=[case.output for case in cases],
            reference=readable(texts["reference"]) if texts.get("reference") else None,
            trajectory=cards_of_steps(texts.get("steps")) if texts["opinions"] or not has_step_rows else None,
            contexts=[readable(context) for context in texts.get("context") or ()],
            groups=group_rows(
                criteria,
                sheet.content if form is None else form.content,
                missing,
                texts["opinions"],
            ),
            sheet_notes=(sheet.content if form is None else form.content).get(NOTES, ""),
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
        assets = {"style": Markup(_style()), "script": Markup(page_text("rating/rate.js"))}
        names = {"rater": rater, "progress": progress, "rubric": rubric, "is_lead": self._session.has_disputes}
        html = render(f"rating/{template}", **names, **assets, **values)
        return HTMLResponse(html, status)

    def _rater(self, request: Request) -> str:
        return self._name_of(request.cookies.get(COOKIE))

    def _name_of(self, token: str | None) -> str:
        """Rater with the token; refuses all others."""
        rater = self._tokens.name_of(token)
        if rater is None:
            if self._tokens.is_under_attack:
                raise HTTPException(429, "Too many wrong tokens. Try again in a minute.", {"Retry-After": "60"})
            raise HTTPException(
                403, "This link is wrong or has ended: open the one that `gradebook people rate` printed for you."
            )
        return rater

    def _sheet_of(self, position: int, rater: str) -> Sheet:
        """Sheet at a position; refuses a sheet that was not given to the rater."""
        sheet = self._session.store.sheet(position, rater)
        if sheet is None:
            raise HTTPException(404, "This output was not given to you.")
        return sheet

    @asynccontextmanager
    async def lifespan(self, _app: Starlette) -> AsyncIterator[None]:
        """Move ratings to the lake every 30 s while the server runs; pages need no connection to it."""
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


def rating_app(session: RatingSession, tokens: Tokens, hosts: tuple[str, ...], tell: Notify) -> Guard:
    """ASGI app of a session. hosts: HOST:PORT that requests may name; tokens: of the raters."""
    app = RatingApp(session, tokens, tell)
    policy = (
        f"default-src 'none'; style-src '{digest(_style())}'; script-src '{digest(page_text('rating/rate.js'))}'; "
        "img-src data:; media-src data:; connect-src 'self'; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    )
    starlette = Starlette(routes=app.routes(), lifespan=app.lifespan)

    def refuse(scope: Scope, headers: Headers) -> int | None:
        """Refuse forms without a valid token before reading them; pages report a wrong link themselves."""
        if scope["type"] == "http" and scope["method"] in ("GET", "HEAD"):
            return None
        return tokens.refusal(cookie_parser("; ".join(headers.getlist("cookie"))).get(COOKIE))

    rules = Rules(
        hosts,
        refuse,
        schemes=("http", "https"),  # a proxy may add TLS
        needs_origin=True,
        most_body_bytes=MOST_FORM_BYTES,
        headers={"Content-Security-Policy": policy},
    )
    return Guard(starlette, rules)


MOST_CHARACTERS = 200_000  # shown characters of one text
MOST_LAID_OUT = 20_000  # characters of a text that is formatted; a longer one is shown as plain text
MOST_MEDIA = 8  # images and sounds of one sheet
MOST_MEDIUM_CHARACTERS = 14_000_000  # an image or sound of 10 MB in base64
# Links and images stay plain text: a page loads nothing, and a rater can't follow a link. Link definitions stay
# visible.
_MARKDOWN = (
    MarkdownIt("commonmark", {"html": False}).enable("table").disable(["image", "link", "autolink", "reference"])
)
_SIGN_OF_MARKDOWN = re.compile(
    r"^ {0,3}(#{1,6} |[-*+] |\d+[.)] |```|~~~|> |\|.*\|)|\*\*[^*\n]+\*\*|`[^`\n]+`", re.MULTILINE
)
_SOUNDS = {"wav": "audio/wav", "mp3": "audio/mpeg"}


@dataclass(frozen=True, slots=True)
class ShownMedium:
    """Image or sound. address: a `data:` address; None: reason says why it is not shown."""

    kind: str
    placeholder: str
    address: str | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Readable:
    """Text to show. laid_out: its Markdown or JSON as HTML; None for plain prose. fields: its JSON fields by path."""

    segments: tuple[Segment, ...]
    laid_out: Markup | None
    media: tuple[ShownMedium, ...] = ()
    fields: tuple[tuple[str, "Readable"], ...] = ()


class ReadableCase(NamedTuple):
    """Prompt and output to show. media: of the prompt."""

    turns: tuple[Turn, ...]
    media: tuple[ShownMedium, ...]
    output: Readable


def readable(text: str) -> Readable:
    """Text to show, also formatted if it is JSON or looks like Markdown; its own HTML is escaped."""
    return Readable(segments_of(text, most=MOST_CHARACTERS), _laid_out(text) if len(text) <= MOST_LAID_OUT else None)


def readable_case(
    prompt: str | None, output: str, audio: str | None, files: MediaFiles, fields: Iterable[str] = ()
) -> ReadableCase:
    """Turns of a prompt, its images and sounds, and an output with its own. audio: sound of a transcript.

    fields: paths of the output's JSON fields to show before it.
    """
    case = files.show(Case(prompt, output))
    media: dict[str, list[ShownMedium]] = {"prompt": [], "output": []}
    for medium in case.media[:MOST_MEDIA]:
        media[medium.place].append(_shown_medium(medium))
    if case.media_fault:
        media["output"].append(ShownMedium("", "", None, case.media_fault))
    if audio:
        transcript = files.show(Case(None, audio))
        media["output"].extend(_shown_medium(medium) for medium in transcript.media)
        media["output"].extend([ShownMedium("", "", None, transcript.media_fault)] if transcript.media_fault else [])
    values = ((path, read_field(case.output, path)[0]) for path in fields)
    shown_fields = tuple((path, readable(value)) for path, value in values if value is not None)
    text = replace(readable(case.output), media=tuple(media["output"]), fields=shown_fields)
    return ReadableCase(turns_of(case.prompt), tuple(media["prompt"]), text)


def cards_of_steps(steps: str | None, most: int = MOST_CARDS, only: Collection[int] | None = None) -> StepCards:
    """Steps of an agent as cards. steps: JSON, as sheets have it; None: there are none. most: cards from each end.

    only: numbers of the steps to show in place of these.
    """
    parsed = json.loads(steps) if steps else []
    same = dict.fromkeys(("agent", "latency_ms", "tokens", "cost_usd")) | {"step_count": len(parsed)}
    same["error_count"] = sum(step["error"] is not None for step in parsed)
    last_from = len(parsed) - most
    selected = (index < most or index >= last_from if only is None else index in only for index in range(len(parsed)))
    rows = [same | step | {"step_index": index} for index, step in enumerate(parsed)]
    return step_cards(list(compress(rows, selected)), ())


def _shown_medium(medium: Medium) -> ShownMedium:
    if medium.address is not None:
        return ShownMedium(medium.kind, medium.placeholder, None, f"{medium.address} (not loaded)")
    try:
        part = medium.parts[1]
    except UnreadableMedia as fault:
        return ShownMedium(medium.kind, medium.placeholder, None, str(fault))
    if medium.kind == "image":
        address = part["image_url"]["url"]
    else:
        sound = part["input_audio"]
        address = f"data:{_SOUNDS[sound['format']]};base64,{sound['data']}"
    if len(address) > MOST_MEDIUM_CHARACTERS:
        return ShownMedium(medium.kind, medium.placeholder, None, f"{medium.name} (too large for this page)")
    return ShownMedium(medium.kind, medium.placeholder, address)


def _laid_out(text: str) -> Markup | None:
    if (laid_out := laid_out_json(text)) is not None:
        return Markup("<pre>{}</pre>").format(visible(laid_out))
    if not _SIGN_OF_MARKDOWN.search(text):
        return None
    tokens = _MARKDOWN.parse(visible(text))
    for token in tokens:
        _plain_tag(token)
    return Markup(_MARKDOWN.renderer.render(tokens, _MARKDOWN.options, {}))  # html is off: all text is escaped


def _plain_tag(token: Token) -> None:
    """Replace headings, which would disturb the page's outline, and drop attributes, such as a column's style."""
    is_heading = token.type.startswith("heading")
    token.attrs = {"class": "heading"} if is_heading and token.nesting == 1 else {}
    token.tag = "p" if is_heading else token.tag
    token.info = ""
