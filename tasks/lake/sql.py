"""The files of sql/, and text for SQL where no parameter is possible: in `attach`, `set`, `copy` and views."""

import re
import sqlite3
from collections.abc import Iterable
from contextlib import closing, suppress
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import quote

import duckdb
import yaml

from gradebook.tasks.system.forking import unforked

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


@cache
def described_tables() -> dict[str, Any]:
    """`description` and `columns` (meaning by name) of each table and view, from sql/columns.yml."""
    tables: dict[str, Any] = yaml.load(read_sql("columns.yml"), _LOADER)  # noqa: S506 - a safe loader
    return tables


@cache
def query(name: str, **words: str) -> str:
    """A select of sql/queries, by room and name: `query("ledger/cost_sums")`. A file is read when first asked for.

    words: replace `{word}` in the file, where SQL takes no parameter: relations, columns, conditions on columns. Values
    are always parameters. `{room/name}` in the file is another query. Raises `KeyError` for a word that the file does
    not have.
    """
    text = _NESTED.sub(lambda found: f"({query(found[1])})", read_sql(f"queries/{name}.sql"))
    for word, replacement in words.items():
        if f"{{{word}}}" not in text:
            raise KeyError(name, word)
        text = text.replace(f"{{{word}}}", replacement)
    return text


def read_sqlite(address: str, select: str) -> list[tuple[Any, ...]]:
    """Rows of a catalog in SQLite, within a millisecond, as DuckDB is not asked; none if it can't be read now."""
    uri = f"file:{quote(address)}?mode=ro"
    with unforked, suppress(sqlite3.Error, OSError), closing(sqlite3.connect(uri, uri=True)) as catalog:
        return catalog.execute(select).fetchall()
    return []
