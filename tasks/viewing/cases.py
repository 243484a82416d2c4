"""Cases of a run: a grid of them, filtered and in pages, and one case in full."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import Any, Self
from urllib.parse import quote, urlencode

import duckdb
from starlette.requests import Request
from starlette.routing import Route

from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.text.wording import price_words, score_words
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect_up_to_date
from gradebook.tasks.lake.rows import Row, model_name, read_published_run, read_rows
from gradebook.tasks.lake.sql import query
from gradebook.tasks.published.origin_fields import OriginField, origin_fields
from gradebook.tasks.published.provenance import Origin, read_origins
from gradebook.tasks.published.summary import RunSummary
from gradebook.tasks.reporting.report_source import read_bare_source
from gradebook.tasks.reporting.sections.examples import Example, read_outputs
from gradebook.tasks.rubric_store.questions import add_questions_of_run
from gradebook.tasks.viewing.frame import Frame, count_pages, page_number

ROWS_A_PAGE = 50
MOST_MODELS = 12  # columns of the grid
MOST_TEXT = 200  # characters of a filter
MOST_OUTPUTS = 20  # of a case, shown in full
MOST_COMPARED_WORDS = 1_500  # of each of two answers
MOST_FIELD = 10_000  # characters of a text of an origin
SHOWN_ABOVE = ("asked", "output")  # texts of an origin that the page has anyway
GRIDS = ("models", "criteria")
_MODELS = "select distinct model, checkpoint from output_scores where run_id = ? order by model, checkpoint"
# What each filter asks of an output; its value is a parameter of the same name.
_CONDITIONS = {
    "model": "scores.model = $model",
    "level": "judged.level_id = $level",
    "gate": "len(scores.failed_gates) > 0",
    "missing": "if($criterion_id is null, scores.score, judged.score) is null",
    "text": """exists (
        from outputs as texts where texts.output_id = scores.output_id and (
            contains(lower(texts.output), $text) or contains(lower(texts.prompt), $text)
            or contains(lower(texts.case_id), $text)
        )
    )""",
    "field": """exists (
        from outputs as texts where texts.output_id = scores.output_id
        and coalesce(texts.metadata::json ->> $field, '') = $content
    )""",
    "disputed": f"scores.output_id in (select output_id from ({query('reporting/example_disputes')}))",
    "changed": "baseline.score is not null and abs(scores.score - baseline.score) > 1e-9",
}


def routes(frame: Frame) -> list[Route]:
    """Addresses of the grid, and of a case."""

    def grid(request: Request) -> str:
        filters = CaseFilters.read(request.query_params)
        page = read_case_grid(frame.lake, request.path_params["run_id"], filters)
        return frame.render("cases.html.j2", f"Cases of {page.run['run_id']} · gradebook", page=page)

    def case(request: Request) -> str:
        values, names = request.query_params, request.path_params
        filters = CaseFilters.read(values)
        summary = frame.summary(names["run_id"])
        page = read_case_page(frame.lake, summary, names["case_id"], filters, place_of(values.get("at")))
        lake_words = frame.lake.words(is_passed_on=True)
        return frame.render("case.html.j2", f"{page.case_id} · gradebook", page=page, lake_words=lake_words)

    address = "/runs/{run_id}/cases"
    return [frame.route(address, grid), frame.route(address + "/{case_id:path}", case)]


def place_of(text: str | None) -> int | None:
    """Place in a grid from an address, from 0; None for what is none."""
    return None if text is None else 0 if text == "0" else page_number(text)


@dataclass(frozen=True, slots=True)
class CaseFilters:
    """Filters of a run's cases, from an address. Empty texts and False filter nothing.

    grid: rows are cases with a column a model, or outputs with a column a criterion. criterion: what the cells of
    models show, "" for the overall score. level: of that criterion. gate: outputs that fail a gate. missing: outputs
    without a score. field, content: a field of the metadata and its value. disputed: judges and people gave it
    different levels. changed: another score than in the baseline. by_case: sorted by id, not the worst first.
    """

    grid: str = ""
    criterion: str = ""
    level: str = ""
    model: str = ""
    text: str = ""
    field: str = ""
    content: str = ""
    gate: bool = False
    missing: bool = False
    disputed: bool = False
    changed: bool = False
    by_case: bool = False
    page: int = 1

    @classmethod
    def read(cls, values: Mapping[str, str]) -> Self:
        """Read an address's values; what is none of a filter's is left out."""
        given: dict[str, Any] = {name: values.get(name, "")[:MOST_TEXT] for name in _TEXTS}
        given |= {name: values.get(name) == "1" for name in _FLAGS}
        grid = values.get("grid", "")
        return cls(grid=grid if grid in GRIDS else "", page=page_number(values.get("page")), **given)

    def address(self, run_id: str, **changes: Any) -> str:
        """Address of the grid with these filters, some of them changed."""
        values = replace(self, **changes).values
        return f"/runs/{quote(run_id, safe='')}/cases{f'?{urlencode(values)}' if values else ''}"

    def case_address(self, run_id: str, case_id: str, place: int) -> str:
        """Address of a case; its page leads back here, and on to its neighbours. place: in the grid, from 0."""
        values = urlencode({**self.values, "at": place})
        return f"/runs/{quote(run_id, safe='')}/cases/{quote(case_id, safe='')}?{values}"

    @property
    def values(self) -> dict[str, str]:
        """Values of an address, without those that filter nothing."""
        texts = {name: getattr(self, name) for name in ("grid", *_TEXTS)}
        flags = {name: "1" if getattr(self, name) else "" for name in _FLAGS}
        numbers = {"page": str(self.page) if self.page > 1 else ""}
        return {name: value for name, value in (texts | flags | numbers).items() if value}

    def outputs(self, run: Row) -> tuple[str, Row]:
        """Select of the outputs that pass, and its parameters. run: row of `runs`."""
        chosen = {
            "model": self.model,
            "level": self.level if self.criterion else "",
            "text": self.text.lower(),
            "field": self.field,
            **{name: getattr(self, name) for name in ("gate", "missing", "disputed", "changed")},
        }
        names = [name for name, value in chosen.items() if value]
        conditions = " and ".join(_CONDITIONS[name] for name in names) or "true"
        values: Row = {name: chosen[name] for name in names if name in ("model", "level", "text", "field")}
        if "field" in values:
            values["content"] = self.content
        values |= {"run_id": run["run_id"], "criterion_id": self.criterion or None, "baseline_run_id": baseline_of(run)}
        return query("viewing/filtered_outputs", conditions=conditions), values


_TEXTS = ("criterion", "level", "model", "text", "field", "content")
_FLAGS = ("gate", "missing", "disputed", "changed", "by_case")


def baseline_of(run: Row) -> str | None:
    """Run that a run was compared with; None without one."""
    baseline: str | None = json.loads(run["settings"] or "{}").get("baseline_run_id")
    return baseline


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of the grid. share: its score, 0..1, for the colour; None where there is none. text: level or score."""

    text: str
    share: float | None
    is_failed: bool = False
    change: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class GridRow:
    """Row of the grid: a case, or an output of it. address: of the case's page."""

    case_id: str
    about: str
    address: str
    cells: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True, slots=True)
class CaseGrid:
    """Grid of a run's cases.

    columns: models, or criteria; total_count: of all rows that pass; models, criteria, levels: what filters offer.
    """

    run: Row
    filters: CaseFilters
    grid: str
    columns: tuple[str, ...]
    rows: tuple[GridRow, ...]
    total_count: int
    page_count: int
    models: tuple[str, ...]
    criteria: tuple[str, ...]
    levels: tuple[str, ...]
    has_baseline: bool


def read_case_grid(lake: Lake, run_id: str, filters: CaseFilters) -> CaseGrid:
    """Read one page of a run's cases. Raises `InputError` for a run that is not there or not published."""
    with connect_up_to_date(lake, is_pinned=True) as connection:
        run = read_published_run(connection, lake, run_id, option="run")
        models = read_rows(connection, _MODELS, run_id)
        criteria = tuple(
            row["criterion_id"] for row in read_rows(connection, query("reporting/criteria"), run_id=run_id)
        )
        levels = read_rows(connection, query("reporting/levels"), run_id=run_id)
        grid = _grid_of(filters, models)
        offset = (filters.page - 1) * ROWS_A_PAGE
        shown_rows, total_count = read_grid_rows(connection, run, grid, filters, offset, ROWS_A_PAGE)
        if grid == "models":
            names = tuple(model_name(row) for row in models)[:MOST_MODELS]
            rows = [_case_row(run, filters, names, row, offset + index) for index, row in enumerate(shown_rows)]
        else:
            names = criteria
            cells = _cells_by_output(connection, run_id, shown_rows)
            rows = [_output_row(run, filters, names, row, offset + i, cells) for i, row in enumerate(shown_rows)]
    return CaseGrid(
        run,
        filters,
        grid,
        names,
        tuple(rows),
        total_count,
        count_pages(total_count, ROWS_A_PAGE),
        tuple(dict.fromkeys(row["model"] for row in models)),
        criteria,
        tuple(row["level_id"] for row in levels if row["criterion_id"] == filters.criterion),
        baseline_of(run) is not None,
    )


def _grid_of(filters: CaseFilters, models: Sequence[Row]) -> str:
    """Grid that the filters name; by default the models of a run of several, the criteria of a single model."""
    return filters.grid or ("models" if len(models) > 1 else "criteria")


def read_grid_rows(
    connection: duckdb.DuckDBPyConnection, run: Row, grid: str, filters: CaseFilters, offset: int, limit: int
) -> tuple[tuple[Row, ...], int]:
    """Rows of the grid from `offset` on, and how many there are in all."""
    if filters.disputed:
        add_questions_of_run(connection, run["run_id"], "ratings")
    outputs, values = filters.outputs(run)
    source = f"({outputs})"
    select = (
        query("viewing/case_rows", outputs=source) if grid == "models" else query("viewing/output_rows", outputs=source)
    )
    values |= {"is_by_case": filters.by_case, "limit": limit, "offset": offset}
    rows = read_rows(connection, select, **values)
    return rows, rows[0]["total_count"] if rows else 0


def _case_row(run: Row, filters: CaseFilters, names: Sequence[str], row: Row, place: int) -> GridRow:
    by_model: dict[str, list[Cell]] = {}
    for output in row["outputs"]:
        by_model.setdefault(model_name(output), []).append(_score_cell(output, filters))
    cells = tuple(tuple(by_model.get(name, ())) for name in names)
    return GridRow(row["case_id"], "", filters.case_address(run["run_id"], row["case_id"], place), cells)


def _score_cell(output: Row, filters: CaseFilters) -> Cell:
    text = output["level_id"] if filters.criterion and output["level_id"] else score_words(output["value"])
    change = ""
    if not filters.criterion and None not in (output["score"], output["baseline_score"]):
        difference = output["score"] - output["baseline_score"]
        change = "▲" if difference > 1e-9 else "▼" if difference < -1e-9 else ""
    note = f"{model_name(output)}: {score_words(output['value'])}"
    return Cell(text, output["value"], output["is_failed"], change, note)


def _cells_by_output(
    connection: duckdb.DuckDBPyConnection, run_id: str, rows: Sequence[Row]
) -> dict[tuple[str, str], Row]:
    output_ids = [row["output_id"] for row in rows]
    cells = read_rows(connection, query("viewing/output_cells"), run_id=run_id, output_ids=output_ids)
    return {(row["output_id"], row["criterion_id"]): row for row in cells}


def _output_row(
    run: Row,
    filters: CaseFilters,
    criteria: Sequence[str],
    row: Row,
    place: int,
    verdicts: Mapping[tuple[str, str], Row],
) -> GridRow:
    cells = tuple(_verdict_cells(verdicts.get((row["output_id"], criterion_id))) for criterion_id in criteria)
    about = f"{model_name(row)}, {score_words(row['score'])}"
    if row["sample_index"]:
        about += f", sample {row['sample_index']}"
    return GridRow(row["case_id"], about, filters.case_address(run["run_id"], row["case_id"], place), cells)


def _verdict_cells(verdict: Row | None) -> tuple[Cell, ...]:
    if verdict is None:
        return ()
    if verdict["score"] is None:
        return (Cell("–", None, note=verdict["reason"] or verdict["status"]),)
    return (Cell(verdict["level_id"] or score_words(verdict["score"]), verdict["score"]),)


@dataclass(frozen=True, slots=True)
class TracedVerdict:
    """Where a verdict comes from, as `gradebook why` says it. billed: empty where no judge was asked."""

    model: str
    criterion_id: str
    judge: str
    billed: str
    fields: tuple[OriginField, ...]


@dataclass(frozen=True, slots=True)
class CasePage:
    """One case of a run in full.

    outputs: its outputs in this run, at most 20 of `output_count`; differing: the words of two answers, or None.
    previous, following: addresses of the neighbours in the grid that led here.
    """

    summary: RunSummary
    case_id: str
    outputs: tuple[Example, ...]
    output_count: int
    differing: tuple[tuple[str, str], ...] | None
    origins: tuple[TracedVerdict, ...]
    back: str
    previous: str | None
    following: str | None


def read_case_page(lake: Lake, summary: RunSummary, case_id: str, filters: CaseFilters, place: int | None) -> CasePage:
    """Read a case of a run. place: in the grid of these filters, from 0.

    Raises `InputError` for a case that the run does not have.
    """
    run, run_id = summary.run, summary.run_id
    with connect_up_to_date(lake, is_pinned=True) as connection:
        rows = connection.execute(query("published/outputs_of_case"), {"run_id": run_id, "name": case_id}).fetchall()
        if not rows:
            raise InputError("case", f"no case {case_id[:MOST_TEXT]!r} in run {run_id}", "one of its grid")
        output_ids = [output_id for (output_id,) in rows[:MOST_OUTPUTS]]
        outputs = read_outputs(read_bare_source(connection, lake, summary), output_ids)
        previous, following = _neighbours(connection, run, filters, place)
    texts = [example.row["output"] or "" for example in outputs]
    return CasePage(
        summary,
        case_id,
        outputs,
        len(rows),
        differing_words(*texts[:2]) if len(texts) > 1 and texts[0] != texts[1] else None,
        tuple(
            _traced(origin) for origin in read_origins(lake, run_id, case_id) if origin.row["output_id"] in output_ids
        ),
        filters.address(run_id),
        previous,
        following,
    )


def _neighbours(
    connection: duckdb.DuckDBPyConnection, run: Row, filters: CaseFilters, place: int | None
) -> tuple[str | None, str | None]:
    """Addresses of the cases before and after this one in the grid."""
    if place is None:
        return None, None
    grid = _grid_of(filters, read_rows(connection, _MODELS, run["run_id"]))
    start = max(0, place - 1)
    rows, _ = read_grid_rows(connection, run, grid, filters, start, 3)
    places = {start + index: row["case_id"] for index, row in enumerate(rows)}

    def address(neighbour: int) -> str | None:
        case_id = places.get(neighbour)
        page = replace(filters, page=neighbour // ROWS_A_PAGE + 1)
        return None if case_id is None else page.case_address(run["run_id"], case_id, neighbour)

    return address(place - 1), address(place + 1)


def _traced(origin: Origin) -> TracedVerdict:
    row = origin.row
    is_asked = bool(row["request_key"])
    billed = "used again" if row["is_replayed"] else price_words(row["cost_usd"])
    fields = tuple(_cut(field) for field in origin_fields(origin) if field.name not in SHOWN_ABOVE)
    return TracedVerdict(
        model_name(row),
        row["criterion_id"],
        row["asked_judge"] or "" if is_asked else "",
        billed if is_asked else "",
        fields,
    )


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
