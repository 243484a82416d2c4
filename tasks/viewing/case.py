"""One case of a run in full: its outputs, two answers beside each other, and where each verdict comes from."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from urllib.parse import quote, urlencode

import duckdb
from starlette.requests import Request
from starlette.routing import Route

from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.text.wording import score_words
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect_up_to_date
from gradebook.tasks.lake.rows import Row, model_name, read_rows
from gradebook.tasks.lake.schema import copy_small_tables
from gradebook.tasks.lake.sql import query
from gradebook.tasks.published.origin_fields import OriginField, origin_fields
from gradebook.tasks.published.provenance import read_origins
from gradebook.tasks.published.summary import RunSummary
from gradebook.tasks.reporting.report_source import bare_source
from gradebook.tasks.reporting.sections.examples import Example, read_outputs
from gradebook.tasks.viewing.cases import (
    MOST_TEXT,
    ROWS_A_PAGE,
    CaseFilters,
    RunFacts,
    grid_page,
    read_run_facts,
)
from gradebook.tasks.viewing.frame import Frame, page_number

MOST_OUTPUTS = 20  # of a case, shown in full
MOST_COMPARED_WORDS = 1_500  # of each of two answers
MOST_FIELD = 10_000  # characters of a text of an origin
SHOWN_ABOVE = ("asked", "output")  # texts of an origin that the page has anyway
# Tables that the queries name again and again, or that most lakes leave empty.
_COPIED = (
    *("runs", "rubrics", "criteria", "levels", "case_criteria", "written_feedback", "ratings", "opinions"),
    *("claims", "claim_verdicts", "steps", "step_ratings", "step_adjudications", "step_verdicts"),
)


def routes(frame: Frame) -> list[Route]:
    """Addresses of a case, and of the origin of one verdict."""

    def case(request: Request) -> str:
        values, names = request.query_params, request.path_params
        filters, run_id = CaseFilters.read(values), names["run_id"]
        facts = frame.at_version(read_run_facts, run_id)
        page = frame.at_version(read_case_page, run_id, names["case_id"], facts=facts)
        chosen = choose_two(page.answers, values.get("a"), values.get("b"))
        shown = {
            "page": page,
            "difference": chosen and read_difference(frame.lake, page, *chosen),
            "place": _places(frame, facts, filters, place_of(values.get("at"))),
            "filters": filters,
            "at": values.get("at", ""),
            "lake_words": frame.lake.words(is_passed_on=True),
        }
        return frame.render("case.html.j2", f"{page.case_id} · gradebook", **shown)

    def why(request: Request) -> str:
        run_id, values = request.path_params["run_id"], request.query_params
        output_id, criterion_id = values.get("output", ""), values.get("criterion", "")
        fields = frame.at_version(read_origin_fields, run_id, output_id, criterion_id)
        return frame.render("why.html.j2", f"{criterion_id} · gradebook", run_id=run_id, fields=fields)

    return [frame.route("/runs/{run_id}/cases/{case_id:path}", case), frame.route("/runs/{run_id}/why", why)]


def place_of(text: str | None) -> int | None:
    """Place in a grid from an address, from 0; None for what is none."""
    return None if text is None else 0 if text == "0" else page_number(text)


@dataclass(frozen=True, slots=True)
class ShownOutput:
    """Output of a case. origins: each criterion with the address of where its verdict comes from."""

    example: Example
    origins: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class AnswerName:
    """Answer to the case, of this run or another. name: of its model and sample, and of the run if it is another."""

    run_id: str
    output_id: str
    name: str
    score: float | None

    @property
    def key(self) -> str:
        """Value in an address."""
        return f"{self.run_id}/{self.output_id}"


@dataclass(frozen=True, slots=True)
class CasePage:
    """One case of a run in full. outputs: in this run, at most 20 of `output_count`; answers: those to compare."""

    run: Row
    case_id: str
    outputs: tuple[ShownOutput, ...]
    output_count: int
    answers: tuple[AnswerName, ...]


def read_case_page(lake: Lake, run_id: str, case_id: str, facts: RunFacts) -> CasePage:
    """Read a case of a run. Raises `InputError` for a case that the run does not have."""
    summary = RunSummary(facts.run, facts.scores, (), (), (), (), has_requirement=False, unmet=())
    with connect_up_to_date(lake, is_pinned=True) as connection:
        if lake.at is None:  # an earlier version may lack tables
            copy_small_tables(connection, _COPIED, stays_open=True)
        rows = connection.execute(query("published/outputs_of_case"), {"run_id": run_id, "name": case_id}).fetchall()
        if not rows:
            raise InputError("case", f"no case {case_id[:MOST_TEXT]!r} in run {run_id}", "one of its grid")
        answers = _read_answers(connection, facts, case_id)
        source = bare_source(connection, lake, summary, facts.criteria, facts.levels)
        examples = read_outputs(source, [output_id for (output_id,) in rows[:MOST_OUTPUTS]])
    outputs = tuple(ShownOutput(example, _origins(run_id, example)) for example in examples)
    return CasePage(facts.run, case_id, outputs, len(rows), answers)


def _origins(run_id: str, example: Example) -> tuple[tuple[str, str], ...]:
    def address(criterion_id: str) -> str:
        values = urlencode({"output": example.row["output_id"], "criterion": criterion_id})
        return f"/runs/{quote(run_id, safe='')}/why?{values}"

    return tuple((verdict.criterion_id, address(verdict.criterion_id)) for verdict in example.verdicts)


def _read_answers(connection: duckdb.DuckDBPyConnection, facts: RunFacts, case_id: str) -> tuple[AnswerName, ...]:
    run_ids = [facts.run["run_id"], *facts.others]
    names = [f"run_{number}" for number in range(len(run_ids))]
    select = query("viewing/answers_of_case", run_ids=", ".join(f"${name}" for name in names))
    rows = read_rows(connection, select, case_id=case_id, **dict(zip(names, run_ids, strict=True)))
    rows = tuple(sorted(rows, key=lambda row: run_ids.index(row["run_id"])))
    return tuple(AnswerName(row["run_id"], row["output_id"], _answer_name(row, facts), row["score"]) for row in rows)


def _answer_name(row: Row, facts: RunFacts) -> str:
    sample = f", sample {row['sample_index']}" if row["sample_index"] else ""
    run = "" if row["run_id"] == facts.run["run_id"] else f" in {row['run_id']}"
    return f"{model_name(row)}{sample}{run}"


def choose_two(
    answers: Sequence[AnswerName], first: str | None, second: str | None
) -> tuple[AnswerName, AnswerName] | None:
    """Answers to compare: those of the address, else the first two; None for a single answer."""
    if len(answers) < 2:
        return None
    by_key = {answer.key: answer for answer in answers}
    return by_key.get(first or "", answers[0]), by_key.get(second or "", answers[1])


@dataclass(frozen=True, slots=True)
class Difference:
    """Two answers to a case. pieces: of their texts, as `differing_words`, of the first 1,500 words of each.

    levels: criteria with another verdict, each with its level or score in the first and in the second.
    """

    first: AnswerName
    second: AnswerName
    pieces: tuple[tuple[str, str], ...]
    levels: tuple[tuple[str, str, str], ...]

    def side(self, dropped: str) -> tuple[tuple[str, str], ...]:
        """Pieces of one text: without those of the kind that only the other has."""
        return tuple(piece for piece in self.pieces if piece[0] != dropped)


@dataclass(frozen=True, slots=True)
class ComparedAnswer:
    """Text of an answer, and its level or score on each criterion."""

    text: str
    verdicts: Mapping[str, str]


def read_difference(lake: Lake, page: CasePage, first: AnswerName, second: AnswerName) -> Difference:
    """Compare two answers to a case."""
    shown = {output.example.row["output_id"]: output.example for output in page.outputs}

    def read(answer: AnswerName) -> ComparedAnswer:
        is_shown = answer.run_id == page.run["run_id"] and answer.output_id in shown
        return _shown_answer(shown[answer.output_id]) if is_shown else _read_answer(lake, answer)

    a, b = read(first), read(second)
    levels = tuple((name, level, b.verdicts[name]) for name, level in a.verdicts.items() if name in b.verdicts)
    different = tuple(row for row in levels if row[1] != row[2])
    return Difference(first, second, differing_words(a.text, b.text), different)


def _shown_answer(example: Example) -> ComparedAnswer:
    verdicts = {verdict.criterion_id: verdict.level_id or score_words(verdict.score) for verdict in example.verdicts}
    return ComparedAnswer(example.row["output"] or "", verdicts)


def _read_answer(lake: Lake, answer: AnswerName) -> ComparedAnswer:
    """Answer that is not on the page: of another run, or after the first outputs of the case."""
    values = {"output_ids": [answer.output_id], "run_id": answer.run_id}
    with connect_up_to_date(lake, is_pinned=True) as connection:
        (stored,) = read_rows(connection, query("published/stored_output"), answer.output_id)
        rows = read_rows(connection, query("viewing/output_cells"), **values)
    verdicts = {row["criterion_id"]: row["level_id"] or score_words(row["score"]) for row in rows}
    return ComparedAnswer(stored["output"] or "", verdicts)


def _places(frame: Frame, facts: RunFacts, filters: CaseFilters, place: int | None) -> Mapping[str, str | None]:
    """Addresses around a case: back to its grid, and of the cases before and after it there."""
    run_id = facts.run["run_id"]

    def address(neighbour: int) -> str | None:
        filters_there = replace(filters, page=max(0, neighbour) // ROWS_A_PAGE + 1)
        rows = grid_page(frame, run_id, filters_there).rows if neighbour >= 0 else ()
        index = neighbour % ROWS_A_PAGE
        return rows[index].address if index < len(rows) else None

    if place is None:
        return {"back": filters.address(run_id), "previous": None, "following": None}
    back = filters.address(run_id, page=place // ROWS_A_PAGE + 1)
    return {"back": back, "previous": address(place - 1), "following": address(place + 1)}


def read_origin_fields(lake: Lake, run_id: str, output_id: str, criterion_id: str) -> tuple[OriginField, ...]:
    """Where the verdict on an output comes from, as `gradebook why` says it.

    Raises `InputError` for an output or criterion that the run does not have.
    """
    origins = read_origins(lake, run_id, output_id, criterion_id)
    return tuple(_cut(field) for field in origin_fields(origins[0]) if field.name not in SHOWN_ABOVE)


def _cut(field: OriginField) -> OriginField:
    if len(field.text) <= MOST_FIELD:
        return field
    return OriginField(field.name, f"{field.text[:MOST_FIELD]}… ({len(field.text):,} characters in total)")


_WORD = re.compile(r"\s+|\w+|[^\w\s]")


def differing_words(first: str, second: str) -> tuple[tuple[str, str], ...]:
    """Pieces of two texts in order, each with its kind: same, removed (only in the first), added (only in the second).

    Of longer texts the first 1,500 words of each are compared.
    """
    a, b = (_WORD.findall(text[: 20 * MOST_COMPARED_WORDS])[:MOST_COMPARED_WORDS] for text in (first, second))
    pieces: list[tuple[str, str]] = []
    for kind, a_start, a_end, b_start, b_end in SequenceMatcher(None, a, b).get_opcodes():
        if kind == "equal":
            pieces.append(("same", "".join(a[a_start:a_end])))
            continue
        if a_end > a_start:
            pieces.append(("removed", "".join(a[a_start:a_end])))
        if b_end > b_start:
            pieces.append(("added", "".join(b[b_start:b_end])))
    return tuple(pieces)
