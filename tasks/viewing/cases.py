"""Cases of a run: a grid of them, filtered and in pages."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self
from urllib.parse import quote, urlencode

import duckdb
from starlette.requests import Request
from starlette.routing import Route

from gradebook.rubrics.model.conditions import unmet_words
from gradebook.rubrics.text.wording import score_words
from gradebook.tasks.comparing.verdict import NextStep
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect_up_to_date
from gradebook.tasks.lake.rows import Row, model_name, read_published_run, read_rows
from gradebook.tasks.lake.sql import query
from gradebook.tasks.reporting.sections.criteria import SPOTS, slice_words
from gradebook.tasks.rubric_store.questions import add_questions_of_run
from gradebook.tasks.viewing.frame import Frame, count_pages, page_number

ROWS_A_PAGE = 50
MOST_MODELS = 12  # columns of the grid
MOST_TEXT = 200  # characters of a filter
GRIDS = ("models", "criteria")
_SCORES = "select * exclude (run_id) from run_scores where run_id = ? order by mean desc nulls last, model"
# What each filter asks of an output; its value is a parameter of the same name.
_CONDITIONS = {
    "model": "(scores.model = $model or concat_ws(' @ ', scores.model, scores.checkpoint) = $model)",
    "level": "judged.level_id = $level",
    "gate": "len(scores.failed_gates) > 0",
    "missing": "if($criterion_id is null, scores.score, judged.score) is null",
    "text": """(
        contains(lower(scores.case_id), $text) or scores.output_id in (
            select output_id from outputs where contains(lower(output), $text) or contains(lower(prompt), $text)
        )
    )""",
    "field": """scores.output_id in (
        select output_id from outputs where coalesce(metadata::json ->> $field, '') = $content
    )""",
    "disputed": f"scores.output_id in (select output_id from ({query('reporting/example_disputes')}))",
    "changed": "abs(if($criterion_id is null, scores.score, judged.score) - before.value) > 1e-9",
}


def routes(frame: Frame) -> list[Route]:
    """Address of the grid."""

    def grid(request: Request) -> str:
        filters = CaseFilters.read(request.query_params)
        page = grid_page(frame, request.path_params["run_id"], filters)
        return frame.render("cases.html.j2", f"Cases of {page.run['run_id']} · gradebook", page=page)

    return [frame.route("/runs/{run_id}/cases", grid)]


def grid_page(frame: Frame, run_id: str, filters: "CaseFilters") -> "CaseGrid":
    """One page of a run's cases. Raises `InputError` for a run that is not there or not published."""
    return frame.at_version(read_case_grid, run_id, filters, facts=frame.at_version(read_run_facts, run_id))


@dataclass(frozen=True, slots=True)
class RunFacts:
    """Run, models and criteria that all pages of its cases share.

    scores: rows of run_scores, the highest mean first; criteria, levels: of its rubric, in its order; spots: rows of
    weak_spots beyond chance; fields: keys of its outputs' metadata; others: ids of other published runs of the rubric,
    the baseline first, then the newest.
    """

    run: Row
    scores: tuple[Row, ...]
    criteria: tuple[Row, ...]
    levels: tuple[Row, ...]
    spots: tuple[Row, ...]
    fields: tuple[str, ...]
    others: tuple[str, ...]


def read_run_facts(lake: Lake, run_id: str) -> RunFacts:
    """Read the facts. Raises `InputError` for a run that is not there or not published."""
    with connect_up_to_date(lake, is_pinned=True) as connection:
        run = read_published_run(connection, lake, run_id, option="run")
        others = connection.execute(
            query("viewing/other_runs"),
            {"run_id": run_id, "rubric_id": run["rubric_id"], "baseline_run_id": baseline_of(run)},
        ).fetchall()
        return RunFacts(
            run,
            read_rows(connection, _SCORES, run_id),
            read_rows(connection, query("reporting/criteria"), run_id=run_id),
            read_rows(connection, query("reporting/levels"), run_id=run_id),
            read_rows(connection, SPOTS, run_id),
            tuple(key for (key,) in connection.execute(query("viewing/fields"), {"run_id": run_id}).fetchall()),
            tuple(other for (other,) in others),
        )


@dataclass(frozen=True, slots=True)
class CaseFilters:
    """Filters of a run's cases, from an address. Empty texts and False filter nothing.

    grid: rows are cases with a column a model, or outputs with a column a criterion. criterion: what the cells of
    models show, "" for the overall score. level: of that criterion. gate: outputs that fail a gate. missing: outputs
    without a score. field, content: a field of the metadata and its value. disputed: judges and people gave it
    different levels. changed: another score, on the criterion if there is one, than in the run `against`, "" for the
    run's baseline. by_case: sorted by id, not the worst first.
    """

    grid: str = ""
    criterion: str = ""
    level: str = ""
    model: str = ""
    text: str = ""
    field: str = ""
    content: str = ""
    against: str = ""
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

    def case_address(self, run_id: str, case_id: str, place: int | None = None) -> str:
        """Address of a case; its page leads back here, and on to its neighbours. place: in the grid, from 0."""
        values = urlencode(self.values if place is None else {**self.values, "at": place})
        return f"/runs/{quote(run_id, safe='')}/cases/{quote(case_id, safe='')}{values and f'?{values}'}"

    @property
    def values(self) -> dict[str, str]:
        """Values of an address, without those that filter nothing."""
        texts = {name: getattr(self, name) for name in ("grid", *_TEXTS)}
        flags = {name: "1" if getattr(self, name) else "" for name in _FLAGS}
        numbers = {"page": str(self.page) if self.page > 1 else ""}
        return {name: value for name, value in (texts | flags | numbers).items() if value}

    def outputs(self, run: Row) -> tuple[str, Row]:
        """Select of the outputs that pass, and its parameters. run: row of `runs`."""
        baseline = self.against or baseline_of(run)
        chosen = {
            "model": self.model,
            "level": self.level if self.criterion else "",
            "text": self.text.lower(),
            "field": self.field,
            **{name: getattr(self, name) for name in ("gate", "missing", "disputed", "changed")},
        }
        names = [name for name, value in chosen.items() if value]
        values: Row = {name: chosen[name] for name in names if name in ("model", "level", "text", "field")}
        if "field" in values:
            values["content"] = self.content
        values |= {"run_id": run["run_id"], "criterion_id": self.criterion or None, "baseline_run_id": baseline}
        relations = {
            "conditions": " and ".join(_CONDITIONS[name] for name in names) or "true",
            "verdicts": "verdicts" if self.criterion else _NO_ROWS.format("verdicts"),
            "baseline": "output_scores" if baseline else _NO_ROWS.format("output_scores"),
        }
        return query("viewing/filtered_outputs", **relations), values


_NO_ROWS = "(from {} where false)"  # is not read at all
_TEXTS = ("criterion", "level", "model", "text", "field", "content", "against")
_FLAGS = ("gate", "missing", "disputed", "changed", "by_case")


def step_links(run_id: str, step: NextStep) -> tuple[tuple[str, str], ...]:
    """Labels and addresses of what a step says to look at; empty where no page has it."""
    if step.case_ids:
        return tuple((case_id, CaseFilters().case_address(run_id, case_id)) for case_id in step.case_ids)
    if step.words[:2] == ("gradebook", "compare"):
        run_a, run_b = step.words[2:4]
        return (("B compared with A", f"/compare?{urlencode({'a': run_a, 'b': run_b})}"),)
    return ()


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
class WeakSlice:
    """Slice of a model's outputs that is weak on a criterion, as words. address: of its outputs in the grid."""

    words: str
    address: str


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

    columns: models, or criteria; total_count: of all rows that pass; models, criteria, levels, fields, weak_slices:
    what filters offer; baseline: run that changes are counted from, None without one.
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
    fields: tuple[str, ...]
    weak_slices: tuple[WeakSlice, ...]
    baseline: str | None


def read_case_grid(lake: Lake, run_id: str, filters: CaseFilters, facts: RunFacts) -> CaseGrid:
    """Read one page of a run's cases."""
    run, criteria = facts.run, tuple(row["criterion_id"] for row in facts.criteria)
    models = sorted(facts.scores, key=lambda row: (row["model"], row["checkpoint"] is not None, row["checkpoint"]))
    grid = _grid_of(filters, models)
    offset = (filters.page - 1) * ROWS_A_PAGE
    with connect_up_to_date(lake, is_pinned=True) as connection:
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
        tuple(dict.fromkeys(name for row in models for name in (row["model"], model_name(row)))),
        criteria,
        tuple(row["level_id"] for row in facts.levels if row["criterion_id"] == filters.criterion),
        facts.fields,
        tuple(_weak_slice(run_id, row) for row in facts.spots),
        filters.against or baseline_of(run),
    )


def _weak_slice(run_id: str, row: Row) -> WeakSlice:
    chosen = CaseFilters(
        grid="criteria",
        criterion=row["criterion_id"],
        model=row["model"],
        field=row["slice_key"],
        content=row["slice_value"],
    )
    words = f"{slice_words(row)} on {row['criterion_id']}, {model_name(row)}: {score_words(row['mean'])}"
    return WeakSlice(words, chosen.address(run_id))


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
    if None not in (output["value"], output["before"]):
        difference = output["value"] - output["before"]
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
        unmet = unmet_words(verdict["reason"])
        note = verdict["reason"] or verdict["status"] if unmet is None else f"does not apply: {unmet}"
        return (Cell("–", None, note=note),)
    return (Cell(verdict["level_id"] or score_words(verdict["score"]), verdict["score"]),)
