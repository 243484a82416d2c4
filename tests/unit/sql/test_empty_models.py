"""Models with `empty without` in their header: made without a query where the named relation has no rows."""

import re
from importlib.resources import files

import duckdb
import pytest

from gradebook.tasks.lake.sql import read_sql
from gradebook.tasks.marts.models import LAYERS, SOURCES, Model, build_marts, model_order, relations_read
from tests.support.law_over import law_over

SQL = {
    entry.name.removesuffix(".sql"): entry.read_text("utf-8")
    for layer in LAYERS
    for entry in files("gradebook.sql").joinpath(layer).iterdir()
}
NEEDED = {
    name: found[1]
    for name in model_order()
    if (found := re.search(r"^-- empty without: (\w+)$", SQL[name], re.MULTILINE))
}
VIEWS = {name for name in model_order() if name.startswith(("stg_", "int_")) and "\n-- materialized: " not in SQL[name]}
KNOWN = SOURCES.union(model_order())
BEHIND: dict[str, set[str]] = {}  # all that a model reads, directly or not
for each in model_order():
    reads = relations_read(Model("", each, SQL[each]), KNOWN)
    BEHIND[each] = {*reads}.union(*(BEHIND.get(name, ()) for name in reads))
# Two samples of each of 12 cases, three of the first, in two slices, strata, and categories of a tree. The first lacks
# a score that the rubric does not require, and has a criterion and opinions of its own.
NAMES = [f"{case}-{sample}" for case in range(12) for sample in range(2)] + ["0-2"]
SCORES = {
    name: {"tone": place % 8 / 8, "facts": 1.0 if place < 12 else place % 3 / 4} for place, name in enumerate(NAMES)
}
OUTPUTS = {
    name: {"case_id": name[:-2], "metadata": f'{{"half": {int(place < 12)}}}'} for place, name in enumerate(NAMES)
}
FULL = {
    "outputs": OUTPUTS,
    "categories": ({"id": "voice"}, {"id": "warmth", "parent": "voice"}, {"id": "truth"}),
    "own": {"0-0": {"polite": {"weight": 2.0}}},
    "case_weights": tuple(
        {"case_id": str(case), "stratum": "ab"[case % 2], "inclusion_rate": (1 + case % 2) / 2} for case in range(12)
    ),
    "opinions": tuple(
        {"output_id": "0-0", "judge": judge, "replicate": replicate, "level_id": "good", "score": 0.5 + replicate / 4}
        for judge in "jk"
        for replicate in range(2)
    ),
    "agreement": ({"statistic": "gwet_ac1"},),
    "audited": ({"model": "m", "audited_count": 2},),
    "comparison": ({"scope": "overall"},),
    "unmet": {"brief": ["0-0"]},
    "missing": "skip",
}
CRITERIA = {
    "tone": {"category": "warmth"},
    "facts": {"category": "truth"},
    "brief": {"category": "voice", "is_required": False},
}


@pytest.fixture(scope="module")
def full(load):
    """Marts of a run in which every model has rows."""
    with duckdb.connect(config={"threads": 1}) as connection:
        scores = {name: row | {"brief": None if name == "0-0" else 1.0} for name, row in SCORES.items()}
        load(connection, CRITERIA, scores | {"0-0": scores["0-0"] | {"polite": 0.5}}, **FULL)
        build_marts(connection)
        yield connection


def count_rows(connection: duckdb.DuckDBPyConnection, name: str) -> int:
    """Rows of a model's query over the relations as they are."""
    return connection.execute(f"select count(*) from ({SQL[name]})").fetchall()[0][0]


def columns(connection: duckdb.DuckDBPyConnection, name: str) -> list[str]:
    return [f"{column} {kind.lower()}" for column, kind, *_ in connection.execute(f"describe {name}").fetchall()]


def test_every_model_has_rows_in_the_full_run(full):
    assert [name for name in NEEDED if not count_rows(full, name)] == []


@law_over("needed", sorted({*NEEDED.values()}))
def test_a_model_has_no_rows_without_those_of_the_relation_that_its_header_names(full, needed):
    names = [name for name, relation in NEEDED.items() if relation == needed]
    full.execute("begin")
    if needed in VIEWS:
        full.execute(f"create or replace temp view {needed} as from ({SQL[needed]}) where false")
    else:
        full.execute(f"delete from {needed}")
    for name in model_order():  # those between the two
        if name not in VIEWS and needed in BEHIND[name] and any(name in BEHIND[each] for each in names):
            full.execute(f"create or replace temp table {name} as {SQL[name]}")
    found = [name for name in names if count_rows(full, name)]
    full.execute("rollback")
    assert found == []


def test_a_model_without_rows_has_the_columns_of_its_query(full, load):
    with duckdb.connect(config={"threads": 1}) as bare:
        load(bare, {"tone": {}}, {"o": {"tone": 1.0}})
        build_marts(bare)
        assert [name for name in NEEDED if bare.execute(f"from {name}").fetchall()] == []
        assert {name: columns(bare, name) for name in NEEDED} == {name: columns(full, name) for name in NEEDED}


def test_intermediate_sql_has_the_columns_of_these_models_alone(full):
    body = {name: ",\n    ".join(columns(full, name)) for name in NEEDED if name.startswith("int_")}
    expected = "\n".join(f"create table if not exists {name} (\n    {body[name]}\n);\n" for name in body)
    assert read_sql("intermediate.sql").partition("\n\n")[2] == expected, f"expected\n{expected}"
