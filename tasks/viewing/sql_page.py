"""Page of SQL: one reading statement over the lake, with its rows as a table, a chart or a file."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import BoundedSemaphore
from typing import Any, Self
from urllib.parse import urlencode

import pyarrow as pa
import pyarrow.parquet as pq
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gradebook.rubrics.model.errors import GradebookError, InputError, QueryError
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.query_rows import refuse_repeated_names, write_csv
from gradebook.tasks.lake.schema import TableDescription, list_tables
from gradebook.tasks.lake.sql import list_questions
from gradebook.tasks.lake.user_queries import run_bounded_query
from gradebook.tasks.reporting.charts import Colour, distinct_labels, draw, shortened
from gradebook.tasks.viewing.frame import Frame

MOST_STATEMENT = 8_000  # characters of a statement: browsers and proxies cut longer addresses
MOST_ROWS = 1_000
MOST_CELL = 300  # characters of a value
MOST_CELLS = 50_000
TIMEOUT_S = 30.0
MOST_AT_ONCE = 2  # statements: each may take half of the memory
WAIT_S = 10.0
MOST_BARS, MOST_POINTS = 40, 500
FORMS = {"csv": "text/csv; charset=utf-8", "parquet": "application/vnd.apache.parquet"}
SHAPES = ("table", "bar", "line")
START = "from latest_run_scores"


def routes(frame: Frame) -> list[Route]:
    """Addresses of the page, and of the rows as a file."""
    runner = QueryRunner(frame.lake)

    def sql(request: Request) -> Response:
        asked = SqlAddress.read(request.query_params)
        page = read_sql_page(runner, asked)
        html = frame.render("sql.html.j2", "SQL · gradebook", page=page, start=START, shapes=SHAPES)
        return Response(html, 200 if page.fault is None else 400, media_type="text/html")

    def rows(request: Request) -> Response:
        values = request.query_params
        form = values.get("form", "")
        if form not in FORMS:
            raise InputError("form", repr(form), " or ".join(FORMS))
        body = file_of(runner.run(SqlAddress.read(values).statement), form)
        attachment = {"Content-Disposition": f'attachment; filename="rows.{form}"'}
        return Response(body, headers=attachment, media_type=FORMS[form])

    return [frame.route("/sql", sql), frame.route("/sql/rows", rows)]


@dataclass(frozen=True, slots=True)
class SqlAddress:
    """Values of the page's address. statement: empty for none."""

    statement: str = ""
    shape: str = "table"

    @classmethod
    def read(cls, values: Mapping[str, str]) -> Self:
        """Values of an address; an unknown shape is a table."""
        shape = values.get("shape", "")
        return cls(values.get("q", "").strip(), shape if shape in SHAPES else "table")

    def query(self, **changes: str) -> str:
        """Query string of these values with changes."""
        shape = self.shape if self.shape != "table" else ""
        values = {"q": self.statement, "shape": shape} | changes
        return urlencode({name: value for name, value in values.items() if value})


class QueryRunner:
    """Runs statements of a page with the limits of `gradebook sql`, at most `MOST_AT_ONCE` at once."""

    def __init__(self, lake: Lake, timeout_s: float = TIMEOUT_S) -> None:
        self._lake, self._timeout_s = lake, timeout_s
        self._turns = BoundedSemaphore(MOST_AT_ONCE)

    def run(self, statement: str) -> pa.Table:
        """Rows of a statement. Raises `QueryError` as `run_bounded_query`, or where the statement is too long."""
        if not statement:
            raise QueryError("sql", "no statement", "one that only reads")
        if len(statement) > MOST_STATEMENT:
            found = f"a statement of {len(statement):,} characters"
            raise QueryError("sql", found, f"at most {MOST_STATEMENT:,}", "`gradebook sql` takes longer ones")
        if not self._turns.acquire(timeout=WAIT_S):
            raise QueryError("sql", f"{MOST_AT_ONCE} other statements that still run", "a free turn: try again")
        try:
            return run_bounded_query(self._lake, statement, self._timeout_s)
        finally:
            self._turns.release()


@dataclass(frozen=True, slots=True)
class SqlColumn:
    """Column of the rows."""

    name: str
    is_number: bool


@dataclass(frozen=True, slots=True)
class SqlPage:
    """Contents of the page. fault: why there are no rows; chart_fault: why there is no chart.

    questions: each with its address. row_count: of all rows; rows: the first, as texts, None for null.
    """

    address: SqlAddress
    tables: tuple[TableDescription, ...]
    questions: tuple[tuple[str, str], ...]
    fault: str | None = None
    columns: tuple[SqlColumn, ...] | None = None
    rows: tuple[tuple[str | None, ...], ...] = ()
    row_count: int = 0
    chart: Markup | None = None
    chart_sentence: str = ""
    chart_fault: str | None = None


def read_sql_page(runner: QueryRunner, address: SqlAddress) -> SqlPage:
    """Read the page: rows of its statement, or why there are none."""
    order = ("mart", "view", "table")  # the scores first
    tables = tuple(sorted(list_tables(), key=lambda table: order.index(table.kind)))
    questions = tuple((question.line, SqlAddress(question.statement).query()) for question in list_questions())
    if not address.statement:
        return SqlPage(address, tables, questions)
    try:
        rows = runner.run(address.statement)
    except GradebookError as error:
        return SqlPage(address, tables, questions, str(error))
    chart, sentence, chart_fault = None, "", None
    if address.shape != "table":
        try:
            chart, sentence = draw_rows(rows, address.shape)
        except QueryError as error:
            chart_fault = error.fault
    columns = tuple(SqlColumn(field.name, _is_number(field.type)) for field in rows.schema)
    shown_count = min(MOST_ROWS, max(1, MOST_CELLS // max(1, len(columns))))
    return SqlPage(
        address,
        tables,
        questions,
        None,
        columns,
        _texts(rows.slice(0, shown_count)),
        rows.num_rows,
        chart,
        sentence,
        chart_fault,
    )


def _texts(rows: pa.Table) -> tuple[tuple[str | None, ...], ...]:
    columns = [[_text(value) for value in column.to_pylist()] for column in rows.columns]
    return tuple(zip(*columns, strict=True))


def _text(value: Any) -> str | None:
    if value is None:
        return None
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= MOST_CELL else f"{text[:MOST_CELL]}…"


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def file_of(rows: pa.Table, form: str) -> bytes:
    """Rows as a file. Raises `QueryError` for what the form can't represent."""
    try:
        if form == "csv":
            text = io.StringIO()
            write_csv(rows, text)
            return text.getvalue().encode()
        refuse_repeated_names(rows)
        sink = io.BytesIO()
        pq.write_table(rows, sink, compression="zstd")
        return sink.getvalue()
    except (OverflowError, UnicodeError, pa.ArrowException) as error:
        unfit = f"a value that {form} can't represent ({error})"
        raise QueryError("sql", unfit, "a cast, as in `value::varchar`") from error


def draw_rows(rows: pa.Table, shape: str) -> tuple[Markup, str]:
    """Chart of rows, and its sentence: the first number over the first other column; colours by a second one.

    Raises `QueryError` for rows that have none.
    """
    names = rows.column_names
    kinds = [field.type for field in rows.schema]
    numbers = [index for index, kind in enumerate(kinds) if _is_number(kind)]
    others = [index for index in range(len(kinds)) if index not in numbers]
    across = others[0] if others else numbers[0] if len(numbers) > 1 else None
    up = next((index for index in numbers if index != across), None)
    if across is None or up is None or not rows.num_rows:
        raise QueryError("chart", "rows without a number beside another column", "some, as of `select model, mean`")
    by = others[1] if len(others) > 1 else None
    most = MOST_BARS if shape == "bar" else MOST_POINTS
    shown = rows.slice(0, most)
    labels = [shortened(_text(value) or "null", 40) for value in shown.column(across).to_pylist()]
    series = [shortened(_text(value) or "null", 40) for value in shown.column(by).to_pylist()] if by is not None else []
    values = shown.column(up).cast(pa.float64(), safe=False).to_pylist()
    if shape == "bar":  # a bar for each row: equal labels would share one
        whole = [f"{label} · {part}" for label, part in zip(labels, series, strict=True)] if series else labels
        labels, series = distinct_labels(whole, 60), []
    groups = list(dict.fromkeys(series))
    chart_rows = [
        {
            "x": label,
            "y": value,
            "series": series[index] if series else "",
            "tip": f"{label}{', ' + series[index] if series else ''}: {_text(value) or 'null'}",
        }
        for index, (label, value) in enumerate(zip(labels, values, strict=True))
        if value is None or abs(value) < float("inf")
    ]
    svg = draw(
        f"query_{shape}",
        {"rows": chart_rows},
        x_title=shortened(names[across], 40),
        y_title=shortened(names[up], 40),
        order=list(dict.fromkeys(labels)),
        height=max(60, 24 * len(labels)),
        series=groups,
        colours=[Colour(f"c{index % 8 + 1}") for index in range(len(groups))],
        legend={"title": None} if groups else None,
    )
    return svg, _sentence(names, across, up, shown.num_rows, rows.num_rows)


def _sentence(names: Sequence[str], across: int, up: int, shown_count: int, row_count: int) -> str:
    cut = f", the first {shown_count:,} of {row_count:,} rows" if shown_count < row_count else ""
    return f"{shortened(names[up], 40)} by {shortened(names[across], 40)}{cut}"
