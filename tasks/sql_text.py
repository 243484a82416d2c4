"""Text put into SQL where no parameter can stand: in `attach`, `set`, `copy` and views."""

from collections.abc import Iterable

# What an output shares with others, as the macro of sql/macros: a lake keeps no macros. A named cluster sorts last.
CLUSTER = "coalesce('cluster ' || cluster, 'case ' || case_id)"


def quoted(text: str) -> str:
    """The inside of a SQL string."""
    return text.replace("'", "''")


def file_list(paths: Iterable[str]) -> str:
    """A list of paths, for `read_parquet` in a view."""
    return "[" + ", ".join(f"'{quoted(path)}'" for path in paths) + "]"
