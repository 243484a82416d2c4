"""Parts of a lake that gradebook made: only they are read, by whatever command.

A view runs when it is read, with the rights of the reader, and can read any file. A macro can take the place of any
function. A catalog from elsewhere may contain either.
"""

import duckdb

from gradebook.rubrics.model.errors import LakeError
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.schema import CATALOG, table_names
from gradebook.tasks.lake.sql import query
from gradebook.tasks.lake.views import KNOWN_VIEWS, digest_of_view

_VIEWS_EVER = f"select distinct lower(view_name) from {CATALOG}.ducklake_view"
_MACROS = f"select macro_name from {CATALOG}.ducklake_macro order by all limit 1"


def refuse_foreign_parts(connection: duckdb.DuckDBPyConnection, lake: Lake, at: int | None) -> None:
    """Raise `LakeError` for a catalog in which a command would read something that gradebook did not make.

    That is a view in place of a table or of a view of gradebook, a macro, or a data file outside the data folder.
    Other views are not read: `gradebook sql` refuses them by name. at: version that is read; None: the latest.
    """
    ours = KNOWN_VIEWS.keys() | table_names()
    for name in sorted(foreign_views(connection, at) & ours):
        raise _foreign(lake, f"a view {name} that gradebook did not make")
    for (name,) in connection.execute(_MACROS).fetchall():
        raise _foreign(lake, f"a function {name} in the catalog")
    for (path,) in connection.execute(query("lake/outside_paths")).fetchall():
        raise _foreign(lake, f"a data file {path!r} outside the data folder")


def foreign_views(connection: duckdb.DuckDBPyConnection, at: int | None) -> set[str]:
    """Lower-case names of the views, at a version, that no version of gradebook made."""
    rows = connection.execute(query("lake/visible_views"), {"at": at}).fetchall()
    return {name for name, text, aliases in rows if aliases or digest_of_view(text) not in KNOWN_VIEWS.get(name, ())}


def views_ever(connection: duckdb.DuckDBPyConnection) -> set[str]:
    """Lower-case names of whatever is a view at some version."""
    return {name for (name,) in connection.execute(_VIEWS_EVER).fetchall()}


def _foreign(lake: Lake, found: str) -> LakeError:
    return LakeError(
        lake.name,
        found,
        "only what gradebook itself puts into a lake",
        "a newer gradebook may have made it; else remove it, or do not use this lake",
    )
