"""Parts of a lake that gradebook made: only they are read, by whatever command.

A view runs when it is read, with the rights of the reader, and can read any file. A macro can take the place of any
function. A catalog from elsewhere may contain either.
"""

import hashlib

import duckdb

from gradebook.rubrics.model.errors import LakeError
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.schema import CATALOG, table_names
from gradebook.tasks.lake.sql import query

# Digests of the views' stored texts, of each version of gradebook. Add the digest of a changed view, keep the others.
KNOWN_VIEWS = {
    "cost_history": {"26869418fb2c8a730fe3013058733f7d"},
    "criterion_history": {
        "dc8e21866b3bacc1caf8834fef4efa5d",
        "19204c0570766e9d552252dc630623e2",
        "f7a160fdaca6da065104b17346640a6f",
    },
    "criterion_ladders": {"2283875e32f1bc36200c019e70ac867a"},
    "judge_gaps": {"db8c6daabc4950680d0d195b1b24fc52"},
    "latest_criterion_scores": {
        "32c54677e479561f7c784ed127f122c1",
        "31b5e0e2fdb2463a79161ad96a618a46",
        "7f25b9f7550ad9cfb0a06e99cdc8cf9e",
    },
    "latest_output_scores": {
        "9d010b8b21a92b96406b6fe004ede086",
        "97066ea574dc5010e661e2d3654624ec",
        "d6fed11a0a36584b01943b308f2686f0",
    },
    "latest_run_scores": {
        "1c3671f22780b0e285bffe0a968569ef",
        "cdb71ef00838cadd28f759e2759b6c44",
        "229712247440565e345191b6a0f42691",
    },
    "latest_runs": {"fdea334ce66aba4e154750d4289869f3", "2b23456ad269ae07a1f55b2c28e71a7a"},
    "mean_lines": {"e236563ab43fb9bc4e4edbd53d1de9be"},
    "outcome_scores": {"5d2d71770613ae0dea06a35028899ac2"},
    "output_feedback": {"78bd757f3d06a9093bc1796d67537454", "cb7fd5563ac3f6772b7c41dd1b7f9f1b"},
    "preference_rates": {"cc2ff4d10cac417d124203cb8403a527"},
    "provenance": {"4bc3028d4ae3110939e3ca9032e00875"},
    "reward_guards": {"f676012e5182b2559dc29d437ed923d4"},
    "run_feedback": {"2ba9ec8641077e13fb39bdbbbb4289b0"},
    "score_history": {
        "58ddfa674b63f7ee311011c5e93a161b",
        "435a3322d631c11dc8b24f921b50624a",
        "f9ca5691521a6709cf0990e22e8f842e",
        "997048067ba6843b1476bc33872c0c77",
    },
    "steps": {"176cb0cac40d9180b3a4966285e62e57"},
    "verdict_lines": {"a6617511ec2000079d41a40fca929b74", "42fe8eced4be649358eb3e40636f501d"},
    "worst_outputs": {"dc6ed085318aa1ed7bac40314c5081b6"},
}
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


def digest_of_view(text: str) -> str:
    """Digest of a view's text as the catalog stores it."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _foreign(lake: Lake, found: str) -> LakeError:
    return LakeError(
        lake.name,
        found,
        "only what gradebook itself puts into a lake",
        "a newer gradebook may have made it; else remove it, or do not use this lake",
    )
