"""Models of sql/: build order, refusals and checks."""

import graphlib
import json
import pickle
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import duckdb
import pytest

from gradebook.tasks.comparing.run_comparison import RUN_COMPARISON_SCHEMA
from gradebook.tasks.marts.checks import check_marts, checks_of
from gradebook.tasks.marts.models import (
    LAYERS,
    Model,
    UnknownRelation,
    build_marts,
    connect_marts,
    model_order,
    order_models,
    relations_read,
)
from gradebook.tasks.marts.models import SOURCES as SOURCE_NAMES

SOURCES = """
create table source_outputs as
    select 'o' as output_id, 'c' as case_id, 'm' as model, null::varchar as checkpoint, 0::int as sample_index,
        null::varchar as cluster, null::varchar as metadata;
create table source_verdicts as
    select 'o' as output_id, 'tone' as criterion_id, 'scored' as status, 0.5::double as score, null::varchar as reason;
create table source_judgments (
    output_id varchar, criterion_id varchar, prompt_tokens bigint, cached_tokens bigint, completion_tokens bigint,
    cost_usd double, attempts int
);
create table source_criteria as
    select 'tone' as criterion_id, null::varchar as category, 1.0::double as weight, 1.0::double as effective_weight,
        false as is_gate, true as is_required, null::double as threshold, 1.0::double as gate_threshold;
create table source_category_weights as
    select '(none)' as category, 'tone' as criterion_id, 1.0::double as weight;
create table source_categories as select '(none)' as category, null::varchar as parent;
create table source_steps (root varchar, criterion_id varchar, parent varchar, node varchar, weight double);
create table source_conditions (criterion_id varchar, is_required boolean);
create table source_case_criteria (
    output_id varchar, criterion_id varchar, category varchar, weight double, is_gate boolean, threshold double,
    gate_threshold double
);
create table source_case_weights (case_id varchar, stratum varchar, inclusion_rate double);
create table source_opinions (
    output_id varchar, criterion_id varchar, judge varchar, replicate int, is_swapped boolean, status varchar,
    level_id varchar, score double
);
create table source_agreement (
    criterion_id varchar, kind varchar, judge varchar, rater varchar, n bigint, pair_count bigint, statistic varchar,
    value double, ci_low double, ci_high double, reason varchar
);
create table source_audited (
    model varchar, checkpoint varchar, criterion_id varchar, n bigint, audited_count bigint, mean double,
    corrected_mean double, ci_low double, ci_high double, reason varchar
);
create table source_run as
    select 'run' as run_id, null::double as pass_threshold, false as require_thresholds, 'null' as missing,
    'cases' as weights;
create table source_timings (
    stage varchar, criterion_id varchar, wall_s double, cpu_s double, row_count bigint, replayed_count bigint,
    saved_usd double
);
"""


@pytest.fixture
def connection():
    with duckdb.connect() as memory:
        memory.execute(SOURCES)
        memory.register("source_run_comparisons", RUN_COMPARISON_SCHEMA.empty_table())
        yield memory


def model(name: str, sql: str) -> Model:
    return Model("marts", name, sql)


def names(*models: Model) -> tuple[str, ...]:
    return tuple(one.name for one in order_models(models))


def test_a_model_comes_after_the_models_that_it_reads():
    assert names(model("a", "select * from b"), model("b", "select * from source_run")) == ("b", "a")


def test_a_relation_in_a_nested_query_is_found():
    inside = "select 1 where exists (select 1 from source_run union all select 1 from (select 1 from b))"
    assert names(model("a", inside), model("b", "select 1")) == ("b", "a")


def test_a_common_table_expression_is_not_a_relation():
    assert names(model("a", "with c as (select * from source_run), d as (select * from c) select * from d")) == ("a",)


def test_an_unknown_relation_is_refused_with_its_file():
    with pytest.raises(UnknownRelation, match=r"^sql/marts/a\.sql: reads elsewhere, expected a source"):
        order_models((model("a", "select * from elsewhere"),))


def test_each_file_reads_what_duckdbs_parser_finds_in_it(connection):
    known = SOURCE_NAMES.union(model_order())
    for layer in (*LAYERS, "checks/marts"):
        for file in files("gradebook.sql").joinpath(layer).iterdir():
            sql = file.read_text(encoding="utf-8") if file.name.endswith(".sql") else "select 1"
            assert set(relations_read(model(file.name, sql), known)) == parsed_relations(connection, sql), file.name


def parsed_relations(connection: duckdb.DuckDBPyConnection, sql: str) -> set[str]:
    ((serialized,),) = connection.execute("select json_serialize_sql(?)", [sql]).fetchall()
    nodes = list(walk(json.loads(serialized)))
    expressions = {entry["key"] for node in nodes for entry in node.get("cte_map", {}).get("map", [])}
    return {node["table_name"] for node in nodes if node.get("type") == "BASE_TABLE"} - expressions


def walk(node: Any) -> Iterator[dict[str, Any]]:
    """Every JSON object in a tree, including its root."""
    if isinstance(node, dict):
        yield node
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from walk(child)


def test_the_refusal_pickles():
    error = UnknownRelation("sql/marts/a.sql", "elsewhere")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_models_that_read_each_other_are_refused():
    with pytest.raises(graphlib.CycleError):
        order_models((model("a", "select * from b"), model("b", "select * from a")))


def test_the_order_contains_every_model_file_once():
    found = [
        entry.name.removesuffix(".sql")
        for layer in LAYERS
        for entry in files("gradebook.sql").joinpath(layer).iterdir()
    ]
    assert sorted(model_order()) == sorted(found)


def test_staging_comes_first_and_a_mart_after_the_model_it_reads():
    order = model_order()
    assert order.index("stg_verdicts") < order.index("int_outputs_scored") < order.index("run_scores")


def test_building_returns_the_marts_in_the_order_built(connection):
    assert build_marts(connection) == tuple(name for name in model_order() if not name.startswith(("stg_", "int_")))


def test_building_again_replaces_the_earlier_build(connection):
    build_marts(connection)
    connection.execute("update source_verdicts set score = 0.25")
    build_marts(connection)
    assert connection.execute("select score from output_scores").fetchall() == [(0.25,)]


def test_one_mart_can_be_built_with_only_its_dependencies(connection):
    assert build_marts(connection, only="stage_costs") == ("stage_costs",)


def test_a_mart_is_built_without_the_other_marts(connection):
    assert build_marts(connection, only="run_scores") == ("run_scores",)


def test_the_connection_has_its_memory_limit(tmp_path):
    with connect_marts(tmp_path / "marts.duckdb", "200MiB") as file:
        assert file.execute("select current_setting('memory_limit')").fetchall() == [("200.0 MiB",)]


def test_the_connection_spills_next_to_its_file(tmp_path):
    with connect_marts(tmp_path / "marts.duckdb") as file:
        assert file.execute("select current_setting('temp_directory')").fetchall() == [
            (f"{tmp_path}/marts.duckdb.tmp",)
        ]


def test_there_is_a_finding_for_every_check_and_a_met_one_has_no_count_and_no_example(connection):
    build_marts(connection)
    found = check_marts(connection)
    assert [finding.name for finding in found] == [check.name for check in checks_of("marts")]
    assert {(finding.broken_count, finding.example) for finding in found} == {(0, None)}


def test_a_broken_check_names_its_rule_its_severity_and_a_row(connection):
    connection.execute("update source_verdicts set criterion_id = 'elsewhere'")
    build_marts(connection)
    found = next(finding for finding in check_marts(connection) if finding.name == "verdicts_have_criteria")
    rule = "Every verdict is on a criterion of the rubric or on a per-case criterion of its output."
    assert (found.rule, found.severity, found.broken_count) == (rule, "error", 1)
    assert found.example == "{'output_id': o, 'criterion_id': elsewhere}"
