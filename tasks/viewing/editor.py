"""Editor of a rubric: its YAML beside a form, with lint, version step, price and a trial; routes of `--edit` alone."""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from difflib import unified_diff
from functools import partial
from pathlib import Path
from threading import BoundedSemaphore
from typing import Any
from urllib.parse import quote, urlencode

from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from gradebook.rubrics.files.dump import rubric_yaml
from gradebook.rubrics.files.load import parse_rubric
from gradebook.rubrics.files.versions import next_version, required_step, step_fault
from gradebook.rubrics.lint.findings import LintFinding
from gradebook.rubrics.lint.linting import lint_text
from gradebook.rubrics.model.errors import GradebookError, InputError, RubricError
from gradebook.rubrics.model.rubric import Rubric
from gradebook.rubrics.text.wording import counted, price_words
from gradebook.rubrics.text.yaml_edits import set_value
from gradebook.rubrics.text.yaml_lines import FilePath, read_yaml
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect_up_to_date
from gradebook.tasks.lake.rows import Row
from gradebook.tasks.published.cost_preview import preview_change
from gradebook.tasks.published.runs import read_runs
from gradebook.tasks.reporting.rendering import render
from gradebook.tasks.reporting.site import version_changes
from gradebook.tasks.rubric_store.files import refuse_unfit_text
from gradebook.tasks.rubric_store.versions import (
    OtherText,
    activate_draft,
    list_versions,
    register_draft,
    stored_rubric,
    version_before,
)
from gradebook.tasks.runs.function_settings import read_function_settings
from gradebook.tasks.viewing.edited import MOST_TEXT, RubricFolder, Source, read_source, stored_digest, with_line_feeds
from gradebook.tasks.viewing.frame import Editing, Frame
from gradebook.tasks.viewing.rubrics import CriterionRow, criterion_rows
from gradebook.tasks.viewing.trial import Trial, Trials

MOST_FINDINGS = 100
MOST_DRAWN = 100  # criteria of a form
MOST_RUNS = 20  # to choose from
MOST_COMPARED_LINES = 5_000  # of two texts whose lines are compared
MOST_AT_ONCE = 2  # texts that are checked or priced
WAIT_S = 10.0
# Keys that the form writes, with those of the file above which a new one goes.
FIELDS: Mapping[str, tuple[str, ...]] = {
    "description": ("weight", "gate", "threshold", "levels", "scale", "method", "use"),
    "weight": ("threshold", "levels", "scale", "method", "use"),
    "threshold": ("levels", "scale", "method", "use"),
}
NUMBERS = ("weight", "threshold")
PLACE = re.compile(
    r"criteria\.(\d{1,4})\.(description|weight|threshold)|criteria\.(\d{1,4})\.levels\.(\d{1,3})\.description"
)
MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,99}")  # no file, no prefix of another kind of judge
_NUMBER = re.compile(r"-?[0-9]{1,7}(\.[0-9]{1,9})?")
Fields = Mapping[str, str]


def routes(frame: Frame) -> list[Route]:
    """Address of the editor, none without `--edit`; `?file=`, or `?rubric=` and `&version=`, name what is edited."""
    if frame.editing is None:
        return []
    editor = Editor(frame, frame.editing)

    def show(request: Request) -> str:
        values = request.query_params
        source = editor.source(values)
        state = EditState(source, source.text, done=values.get("done", ""))
        return editor.page(state)

    return [frame.route("/edit", show), frame.form_route("/edit", editor.take)]


@dataclass(frozen=True, slots=True)
class Checked:
    """Findings on a text, and where it is a rubric, its criteria and the version that it needs.

    places: names of the fields that the form may write, with their texts. changes: sentences since `Source.base`.
    step: why the version does not fit, None if it does; version: the lowest that does and that the lake does not have.
    asks_otherwise: whether other criteria, or methods, are scored than before.
    """

    findings: tuple[LintFinding, ...]
    rubric: Rubric | None = None
    criteria: tuple[CriterionRow, ...] = ()
    places: Mapping[str, Markup] = field(default_factory=dict)
    changes: tuple[str, ...] = ()
    step: str | None = None
    version: str = ""
    asks_otherwise: bool = False

    @property
    def error_count(self) -> int:
        """Findings that keep the text from being saved or registered."""
        return sum(finding.severity == "error" for finding in self.findings)

    @property
    def level_count(self) -> int:
        """Columns of levels."""
        return max((len(criterion.levels) for criterion in self.criteria), default=0)


@dataclass(frozen=True, slots=True)
class OtherVersion:
    """Stored text that differs from the editor's. lines: lines of a diff with their kinds, from the stored one to this.

    is_new: whether the form named a file that its author had not opened; else another person stored it meanwhile.
    """

    what: str
    is_new: bool
    text: str
    lines: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class EditState:
    """Text in the editor, and what was asked about it. file: name to save under. done: what was done last.

    faults: sentences on what could not be done; of prices and trials apart.
    """

    source: Source
    text: str
    file: str = ""
    run_id: str = ""
    judge: str = ""
    done: str = ""
    fault: str = ""
    other: OtherVersion | None = None
    price: tuple[str, ...] = ()
    price_fault: str = ""
    trial: Trial | None = None
    trial_fault: str = ""

    @property
    def shown_text(self) -> Markup:
        """Text as a text area has it: nothing of it is written out."""
        return Markup(escape(self.text))


class Editor:
    """Editor of a server. Its state is in the forms, so that a restart loses nothing."""

    def __init__(self, frame: Frame, editing: Editing) -> None:
        self._frame, self._lake, self._editing = frame, frame.lake, editing
        self._trials = Trials(frame.lake, editing.judge, editing.try_budget_usd)
        self._turns = BoundedSemaphore(MOST_AT_ONCE)

    @property
    def _folder(self) -> RubricFolder:
        return self._editing.folder

    def source(self, values: Fields) -> Source:
        """Text that an address or a form names. Raises `InputError`."""
        names = (values.get(name, "")[:200] for name in ("file", "rubric", "version"))
        return read_source(self._lake, self._folder, *names)

    def _posted_source(self, fields: Fields) -> Source:
        """Source of a form, with the digests of what its author has seen; one that is gone has no text any more."""
        names = {name: fields.get(f"source_{name}", "")[:200] for name in ("file", "rubric", "version")}
        try:
            source = self.source(names)
        except InputError:
            source = Source(names["file"] or names["rubric"] or "text", "", folder=self._folder.path)
        read_digest, draft_digest = (fields.get(name, "")[:100] for name in ("read_digest", "draft_digest"))
        return replace(source, read_digest=read_digest, draft_digest=draft_digest)

    # -------- pages
    def page(self, state: EditState) -> str:
        """Whole page."""
        title = f"Edit {state.source.name} · gradebook"
        shown = {"runs": self._runs(state), "is_part": False, "lake_words": self._lake.words(is_passed_on=True)}
        return self._frame.render("edit.html.j2", title, **self._values(state), **shown)

    def _text_part(self, state: EditState, *, is_set: bool = False) -> Response:
        """Findings and form of a text, for the script that puts them in place. is_set: the text itself too."""
        shown = {"is_set": True} if is_set else {}
        return HTMLResponse(render("view/edit_checked.html.j2", is_part=True, **self._values(state), **shown))

    def _values(self, state: EditState) -> dict[str, Any]:
        return {
            "state": state,
            "source": state.source,
            "checked": self._check(state.source, state.text),
            "most_text": MOST_TEXT,
            "most_findings": MOST_FINDINGS,
            "most_drawn": MOST_DRAWN,
        }

    def _runs(self, state: EditState) -> tuple[Row, ...]:
        """Published runs to choose from: those of the rubric first, each newest first."""
        rubric_id = state.source.base.id if state.source.base else state.source.rubric_id
        return self._frame.at_version(read_runs_of, rubric_id)

    # -------- forms
    def take(self, fields: dict[str, str]) -> Response:
        """Answer to a form: what its `action` names, over the text that it has."""
        text = with_line_feeds(fields.get("text", ""))
        source = self._posted_source(fields)
        file, run_id, judge = (fields.get(name, "").strip()[:200] for name in ("file", "run_id", "judge"))
        state = EditState(source, text, file, run_id, judge)
        if len(text) > MOST_TEXT:
            found = f"{len(text):,} characters, expected at most {MOST_TEXT:,}"
            return HTMLResponse(self.page(replace(state, text="", fault=f"Nothing was done: found {found}.")), 413)
        actions = {
            "check": self._checked,
            "set": self._set,
            "version": self._set_version,
            "price": self._price,
            "try": self._try,
            "save": self._save,
            "register": self._register,
            "activate": self._activate,
        }
        action = actions.get(fields.get("action", ""))
        if action is None:
            raise InputError("action", repr(fields.get("action", ""))[:100], f"one of {', '.join(actions)}")
        return action(state, fields)

    def _checked(self, state: EditState, _fields: Fields) -> Response:
        return self._text_part(state)

    def _set(self, state: EditState, fields: Fields) -> Response:
        """Write a field of the form into the text."""
        place = fields.get("place", "")
        try:
            changed = set_value(state.text, *_read_field(place, fields.get(f"value.{place}", "")))
        except GradebookError as error:
            return self._text_part(replace(state, fault=str(error)), is_set=True)
        return self._text_part(replace(state, text=changed), is_set=True)

    def _set_version(self, state: EditState, _fields: Fields) -> Response:
        """Write the version that the changes need."""
        checked = self._check(state.source, state.text)
        if checked.version:
            state = replace(state, text=set_value(state.text, ("version",), checked.version))
        return self._text_part(state, is_set=True)

    def _price(self, state: EditState, _fields: Fields) -> Response:
        try:
            rubric = self._parse(state)
            if state.judge and not MODEL.fullmatch(state.judge):
                raise InputError("judge", repr(state.judge), "a model's name")
            judge = state.judge or self._editing.judge
            with self._turn():
                state = replace(state, price=price_sentences(self._lake, state.run_id, rubric, judge))
        except GradebookError as error:
            state = replace(state, price_fault=str(error))
        return HTMLResponse(render("view/edit_price.html.j2", state=state))

    def _try(self, state: EditState, _fields: Fields) -> Response:
        try:
            state = replace(state, trial=self._trials.run(self._parse(state), state.run_id))
        except GradebookError as error:
            state = replace(state, trial_fault=str(error))
        return HTMLResponse(render("view/edit_trial.html.j2", state=state))

    def _save(self, state: EditState, _fields: Fields) -> Response:
        source, name = state.source, state.file
        try:
            self._parse(state)
            self._folder.save(name, state.text, source.read_digest if name == source.file else "")
        except OtherText:
            return self._conflict(state, name)
        except GradebookError as error:
            return HTMLResponse(self.page(replace(state, fault=f"Not saved: {error}")), 400)
        return RedirectResponse("/edit?" + urlencode({"file": name, "done": "saved"}), 303)

    def _register(self, state: EditState, _fields: Fields) -> Response:
        try:
            rubric = self._parse(state)
            register_draft(self._lake, rubric, state.source.draft_digest, datetime.now(UTC))
        except OtherText:
            return self._conflict(state, f"the draft {rubric.id} {rubric.version}", rubric)
        except GradebookError as error:
            return HTMLResponse(self.page(replace(state, fault=f"Not registered: {error}")), 400)
        names = {"rubric": rubric.id, "version": rubric.version, "done": "registered"}
        return RedirectResponse("/edit?" + urlencode(names), 303)

    def _activate(self, state: EditState, _fields: Fields) -> Response:
        """Activate the stored draft that the form names, if it still has the digest that its reader saw."""
        source = state.source
        rubric = stored_rubric(self._lake, f"{source.rubric_id}@{source.version}")
        if rubric is None:
            raise InputError("rubric", f"{source.rubric_id} {source.version}"[:200], "a version that the lake stores")
        try:
            refuse_unfit_text(rubric, rubric_yaml(rubric), f"{rubric.id} {rubric.version}")
            activate_draft(self._lake, rubric, source.draft_digest, datetime.now(UTC))
        except GradebookError as error:
            return self._frame.fault(f"Not activated: {error}", 409)
        address = f"/rubrics/{quote(rubric.id, safe='')}?{urlencode({'version': rubric.version})}"
        return RedirectResponse(address, 303)

    def _conflict(self, state: EditState, what: str, draft: Rubric | None = None) -> Response:
        """Page with both texts. Sent again, the form replaces the text that it shows, and no later one."""
        is_new = draft is None and state.file != state.source.file
        if draft is None:
            theirs, digest = self._folder.read(state.file)
            source = replace(state.source, file=state.file, rubric_id="", version="", read_digest=digest)
        else:
            theirs = read_source(self._lake, self._folder, "", draft.id, draft.version).text
            source = replace(state.source, draft_digest=stored_digest(self._lake, draft))
        other = OtherVersion(what, is_new, theirs, _differing_lines(theirs, state.text))
        return HTMLResponse(self.page(replace(state, source=source, other=other)), 409)

    # -------- texts
    def _parse(self, state: EditState) -> Rubric:
        """Rubric of the text. Raises `RubricError`."""
        return parse_rubric(state.text, state.file or state.source.name, state.source.folder)

    def _check(self, source: Source, text: str) -> Checked:
        """Findings of lint and the grid of a text."""
        with self._turn():
            return check_text(self._lake, source, text)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Wait until fewer than two others compute. Raises `InputError` after ten seconds."""
        if not self._turns.acquire(timeout=WAIT_S):
            raise InputError("edit", f"{MOST_AT_ONCE} other texts that are checked", "a free turn: try again")
        try:
            yield
        finally:
            self._turns.release()


def read_runs_of(lake: Lake, rubric_id: str) -> tuple[Row, ...]:
    """Published runs, those of a rubric first, each newest first; at most 20."""
    with connect_up_to_date(lake) as connection:
        published = [row for row in read_runs(connection) if row["status"] == "published"]
    return tuple(sorted(published, key=lambda row: row["rubric_id"] != rubric_id)[:MOST_RUNS])


def check_text(lake: Lake, source: Source, text: str) -> Checked:
    """Check a text as `gradebook rubric lint` does, and compare it with the version that it came from."""
    lint = partial(
        lint_text,
        text,
        source.name,
        folder=source.folder,
        allows=read_function_settings(Path.cwd(), os.environ).allows,
        today=datetime.now(UTC).date(),
    )
    try:
        rubric = parse_rubric(text, source.name, source.folder)
    except RubricError:
        return Checked(lint())
    base = source.base if source.base is not None and source.base.id == rubric.id else None
    fault = None if base is None else step_fault(base, rubric)
    methods = [{one.id: one.method for one in each.criteria} for each in (base, rubric) if each is not None]
    return Checked(
        lint(previous=version_before(lake, rubric)),
        rubric,
        criterion_rows(rubric),
        _places(text, rubric),
        version_changes(base, rubric),
        None if fault is None else fault.message,
        "" if base is None else _free_version(lake, base, rubric),
        base is not None and methods[0] != methods[1],
    )


def _free_version(lake: Lake, base: Rubric, rubric: Rubric) -> str:
    """Lowest version that fits the changes, and that the lake does not have."""
    step = required_step(base, rubric).step
    if step == "none":
        return base.version
    taken = {row["rubric_version"] for row in list_versions(lake) if row["rubric_id"] == rubric.id}
    version = next_version(base.version, step)
    while version in taken:
        version = next_version(version, step)
    return version


def _places(text: str, rubric: Rubric) -> dict[str, Markup]:
    """Texts of the fields that can be written, by their places; and places of levels by `criteria.0 LEVEL`."""
    yaml_text = read_yaml(text, "text")
    criteria = (yaml_text.values or {}).get("criteria")
    if not isinstance(criteria, list) or len(criteria) != len(rubric.criteria):
        return {}  # all are inherited
    places: dict[str, Any] = {}
    for index, (entry, criterion) in enumerate(zip(criteria, rubric.criteria, strict=True)):
        if not isinstance(entry, dict):
            continue
        place = f"criteria.{index}"
        places[f"{place}.description"] = criterion.description
        places[f"{place}.threshold"] = "" if criterion.threshold is None else f"{criterion.threshold:.15g}"
        if not criterion.gate:
            places[f"{place}.weight"] = f"{criterion.own_weight:.15g}"
        levels = entry.get("levels")
        for number, level in enumerate(levels if isinstance(levels, list) else ()):
            if isinstance(level, dict):
                places[f"{place} {level.get('id')}"] = f"{place}.levels.{number}.description"
                places[f"{place}.levels.{number}.description"] = str(level.get("description") or "")
    return {name: Markup(escape(value)) for name, value in places.items()}


def _read_field(place: str, value: str) -> tuple[FilePath, str | float | None, tuple[str, ...]]:
    """Place, value and later keys of a field of the form. Raises `InputError`."""
    if not PLACE.fullmatch(place):
        raise InputError("place", repr(place)[:100], "a field of the form")
    path = tuple(int(part) if part.isdigit() else part for part in place.split("."))
    key = str(path[-1])
    text = with_line_feeds(value).strip()
    before = FIELDS[key] if "levels" not in path else ("indicators",)
    if key not in NUMBERS:
        return path, text, before
    if text and not _NUMBER.fullmatch(text):
        raise InputError(key, repr(text)[:100], "a number")
    number = float(text) if text else None
    return path, int(number) if number is not None and number.is_integer() else number, before


def price_sentences(lake: Lake, run_id: str, rubric: Rubric, judge: str | None) -> tuple[str, ...]:
    """Estimate of `gradebook cost RUN --rubric`, in sentences; no judge is asked. Raises `InputError`."""
    change = preview_change(lake, run_id, rubric, judge)
    later, rest = change.later, change.rest
    requests = counted(rest.request_count, "request")
    prices = f"{price_words(change.earlier.cost_usd)} now and {price_words(later.cost_usd)} then"
    return (
        change.sentence,
        f"A run of {counted(change.output_count, 'output')} would cost {prices} if nothing were judged yet.",
        f"With the stored replies the next one costs {price_words(rest.cost_usd)}: {requests}.",
        *(note[:1].upper() + note[1:] + "." for note in change.notes),
    )


def _differing_lines(theirs: str, ours: str) -> tuple[tuple[str, str], ...]:
    """Lines that differ between two texts, with some around them, each with its kind; none for very long texts."""
    before, after = theirs.split("\n"), ours.split("\n")
    if max(len(before), len(after)) > MOST_COMPARED_LINES:
        return ()
    kinds = {"+": "added", "-": "removed", "@": "place"}
    lines = [*unified_diff(before, after, lineterm="", n=2)][2:]
    return tuple((kinds.get(line[:1], "same"), line if line[:1] == "@" else line[1:]) for line in lines)
