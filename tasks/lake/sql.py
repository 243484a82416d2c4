"""The files of sql/, and text for SQL where no parameter is possible: in `attach`, `set`, `copy` and views."""

import re
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import quote

import duckdb
import yaml

from gradebook.tasks.system.sqlite import unforked

_LOADER: type[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml, ten times as fast
_NESTED = re.compile(r"\{(\w+/\w+)\}")
Setting = str | bool | int | float | list[str]
# Without a terminal (a notebook) DuckDB prints its progress bar on stdout, among a command's output.
NO_PROGRESS_BAR = "set enable_progress_bar = false"


def open_database(path: str | Path = ":memory:", **settings: Setting) -> duckdb.DuckDBPyConnection:
    """Open a DuckDB database that downloads nothing: extensions are loaded by name from installed packages."""
    offline = {"autoinstall_known_extensions": False, "autoload_known_extensions": False}
    return duckdb.connect(path, config={**offline, **settings})


def quoted(text: str) -> str:
    """Escape text for use inside a SQL string literal."""
    return text.replace("'", "''")


def file_list(paths: Iterable[str]) -> str:
    """SQL list of paths, for `read_parquet` in a view."""
    return "[" + ", ".join(f"'{quoted(path)}'" for path in paths) + "]"


@cache
def read_sql(file: str) -> str:
    """Text of a file of sql/."""
    return resources.files("gradebook.sql").joinpath(file).read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class DeclaredTable:
    """Table, mart or view as sql/columns.yml declares it.

    columns: meaning and unit by name, in order. types: in SQL, by the same names; empty for a view. grain: columns of
    which no two rows are equal. not_null: columns that are never null. ranges: least and largest value of a column,
    both included; None: no limit.
    """

    description: str
    columns: Mapping[str, str]
    types: Mapping[str, str]
    grain: tuple[str, ...] = ()
    not_null: tuple[str, ...] = ()
    ranges: Mapping[str, tuple[float | None, float | None]] = field(default_factory=dict)

    @property
    def body(self) -> str:
        """Columns with their types, in parentheses, for `create table`."""
        return "(" + ", ".join(f'"{name}" {kind}' for name, kind in self.types.items()) + ")"


@cache
def declared_tables() -> Mapping[str, DeclaredTable]:
    """Tables, marts and views of sql/columns.yml, by name."""
    tables = yaml.load(read_sql("columns.yml"), _LOADER)  # noqa: S506 - a safe loader
    return {name: _declared_table(**keys) for name, keys in tables.items()}


def _declared_table(
    description: str,
    columns: Mapping[str, str],
    grain: Iterable[str] = (),
    not_null: Iterable[str] = (),
    ranges: Mapping[str, tuple[float | None, float | None]] | None = None,
) -> DeclaredTable:
    """Table of the keys in the file, where a column is `name type: meaning`, or `name: meaning` in a view."""
    typed_columns = [(*key.partition(" ")[::2], meaning) for key, meaning in columns.items()]
    return DeclaredTable(
        description,
        {name: meaning for name, _, meaning in typed_columns},
        {name: kind for name, kind, _ in typed_columns if kind},
        tuple(grain),
        tuple(not_null),
        {column: (least, most) for column, (least, most) in (ranges or {}).items()},
    )


@cache
def query(name: str, **replacements: str) -> str:
    """Select of sql/queries, by room and name: `query("ledger/cost_sums")`. A file is read when first needed.

    replacements: for `{placeholder}` in the file, where SQL takes no parameter: relations, columns, conditions on
    columns. Values are always parameters. `{room/name}` in the file is another query. Raises `KeyError` for a
    placeholder that the file does not have.
    """
    text = _NESTED.sub(lambda match: f"({query(match[1])})", read_sql(f"queries/{name}.sql"))
    for placeholder, replacement in replacements.items():
        if f"{{{placeholder}}}" not in text:
            raise KeyError(name, placeholder)
        text = text.replace(f"{{{placeholder}}}", replacement)
    return text


@dataclass(frozen=True, slots=True)
class WorkedQuestion:
    """Question about a lake with the statement that answers it. text: may have several lines."""

    text: str
    statement: str

    @property
    def line(self) -> str:
        """Question as one line."""
        return self.text.replace("\n", " ").partition("?")[0] + "?"


@cache
def list_questions() -> tuple[WorkedQuestion, ...]:
    """Questions of sql/questions.sql: each a comment, and the statement below it."""
    questions = []
    for part in read_sql("questions.sql").strip().split("\n\n-- "):
        comment_lines: list[str] = []
        statement_lines: list[str] = []
        for line in part.removeprefix("-- ").split("\n"):
            is_comment = not statement_lines and (not comment_lines or line.startswith("-- "))
            (comment_lines if is_comment else statement_lines).append(line.removeprefix("-- "))
        questions.append(WorkedQuestion("\n".join(comment_lines), "\n".join(statement_lines)))
    return tuple(questions)


def read_sqlite(address: str, select: str) -> list[tuple[Any, ...]]:
    """Rows of a SQLite catalog, read without DuckDB within a millisecond; none if it can't be read now."""
    uri = f"file:{quote(address)}?mode=ro"
    with unforked, suppress(sqlite3.Error, OSError), closing(sqlite3.connect(uri, uri=True)) as catalog:
        return catalog.execute(select).fetchall()
    return []
