"""The texts of sql/, and text put into SQL where no parameter can stand: in `attach`, `set`, `copy` and views."""

from collections.abc import Iterable
from functools import cache
from importlib import resources

# What an output shares with others, as the macro of sql/macros: a lake keeps no macros. A named cluster sorts last.
CLUSTER = "coalesce('cluster ' || cluster, 'case ' || case_id)"

# DuckDB shows one on stdout, where a command's answer goes, to a program that has no file, such as a notebook.
NO_PROGRESS_BAR = "set enable_progress_bar = false"


def quoted(text: str) -> str:
    """The inside of a SQL string."""
    return text.replace("'", "''")


def file_list(paths: Iterable[str]) -> str:
    """A list of paths, for `read_parquet` in a view."""
    return "[" + ", ".join(f"'{quoted(path)}'" for path in paths) + "]"


@cache
def read_sql(file: str) -> str:
    """The text of a file of sql/."""
    return resources.files("gradebook.sql").joinpath(file).read_text(encoding="utf-8")


@cache
def query(name: str, **words: str) -> str:
    """A select of sql/queries, such as `query("comparing/case_pairs")`. Files are read when first asked for.

    words: replace `{word}` in the file where SQL takes no parameter, for a relation or for columns. Values are
    parameters. Raises `KeyError` for a word that the file does not have.
    """
    text = read_sql(f"queries/{name}.sql")
    for word, replacement in words.items():
        if f"{{{word}}}" not in text:
            raise KeyError(name, word)
        text = text.replace(f"{{{word}}}", replacement)
    return text
