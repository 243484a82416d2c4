"""Files of sql/, and quoting of text where SQL takes no parameters: `attach`, `set`, `copy` and views."""

from collections.abc import Iterable
from functools import cache
from importlib import resources

# Group of dependent outputs, as the macro in sql/macros defines it: a lake stores no macros. Named clusters sort last.
CLUSTER = "coalesce('cluster ' || cluster, 'case ' || case_id)"

# Without a terminal (a notebook) DuckDB prints its progress bar on stdout, among a command's output.
NO_PROGRESS_BAR = "set enable_progress_bar = false"


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


def report_sql(name: str) -> str:
    """Select statement of a file in sql/report."""
    return read_sql(f"report/{name}.sql")
