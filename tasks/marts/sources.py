"""Sources of the models: the rubric's criteria and weight tree, per-case criteria, outputs, verdicts and costs."""

from pathlib import Path

import duckdb
import pyarrow as pa

from gradebook.rubrics.files.case_criteria import CASE_CRITERIA_SCHEMA
from gradebook.rubrics.files.tables import criteria_table
from gradebook.rubrics.model.rubric import Rubric, category_weights, tree_steps
from gradebook.rubrics.model.verdicts import JUDGMENT_SCHEMA, OPINION_SCHEMA
from gradebook.tasks.datasets.case_criteria import case_criteria_files
from gradebook.tasks.datasets.sample import CASE_WEIGHTS_SCHEMA
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect
from gradebook.tasks.lake.sql import file_list, open_database
from gradebook.tasks.marts.models import build_marts
from gradebook.tasks.runs.run import Run
from gradebook.tasks.workspace.folder import RunFolder
from gradebook.tasks.workspace.timings import read_timings

# Size of outputs and verdicts that one thread reads: up to some thousand outputs, planning takes most of the time.
ONE_THREAD_BYTES = 2**20
# parent: the enclosing category, null at the top
CATEGORIES_SCHEMA = pa.schema([pa.field("category", pa.string()), pa.field("parent", pa.string())])
# A criterion in the category or in one below it; weight: in the category's score, 0 for a gate.
CATEGORY_WEIGHTS_SCHEMA = pa.schema(
    [pa.field("category", pa.string()), pa.field("criterion_id", pa.string()), pa.field("weight", pa.float64())]
)
_TOKENS = ("prompt_tokens", "cached_tokens", "completion_tokens")
_PAID_SCHEMA = pa.schema(
    [JUDGMENT_SCHEMA.field(name) for name in ("output_id", "criterion_id", *_TOKENS, "cost_usd", "attempts")]
)
# A node on the path from the root of a category tree ('' for the whole) down to the criterion, and its weight among its
# siblings under parent. No rows without a tree.
# A criterion with a condition; is_required: it must have a score where the condition holds.
CONDITIONS_SCHEMA = pa.schema([pa.field("criterion_id", pa.string()), pa.field("is_required", pa.bool_())])
STEPS_SCHEMA = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in ("root", "criterion_id", "parent", "node")),
        pa.field("weight", pa.float64()),
    ]
)


def add_criteria_sources(connection: duckdb.DuckDBPyConnection, folder: RunFolder, rubric: Rubric) -> None:
    """Make the sources about criteria: those of the rubric, and per-case criteria."""
    add_rubric_sources(connection, folder.run_id, rubric)
    files = [str(file) for file in case_criteria_files(folder)]
    if files:
        connection.execute(f"create temp view source_case_criteria as from read_parquet({file_list(files)})")
    else:
        connection.register("source_case_criteria", CASE_CRITERIA_SCHEMA.empty_table())


def add_rubric_sources(connection: duckdb.DuckDBPyConnection, run_id: str, rubric: Rubric) -> None:
    """Make the sources about the rubric, the run's row, its criteria and their weights; cases have no weights."""
    connection.execute(
        "create or replace temp table source_run as "
        "select ?::varchar as run_id, ?::varchar as rubric_id, ?::varchar as rubric_version, "
        "?::double as pass_threshold, ?::boolean as require_thresholds, ?::varchar as missing, ?::varchar as weights",
        [
            *(run_id, rubric.id, rubric.version, rubric.pass_threshold, rubric.require_thresholds, rubric.missing),
            rubric.weights,
        ],
    )
    weights = category_weights(rubric)
    parents = {category.id: category.parent for category in rubric.categories}
    sources = {
        "source_criteria": criteria_table(run_id, rubric),
        "source_categories": pa.Table.from_pylist(
            [{"category": name, "parent": parents.get(name)} for name in weights], schema=CATEGORIES_SCHEMA
        ),
        "source_category_weights": pa.Table.from_pylist(
            [
                {"category": category, "criterion_id": criterion_id, "weight": weight}
                for category, of_category in weights.items()
                for criterion_id, weight in of_category.items()
            ],
            schema=CATEGORY_WEIGHTS_SCHEMA,
        ),
        "source_conditions": pa.Table.from_pylist(
            [
                {"criterion_id": criterion.id, "is_required": criterion.required}
                for criterion in rubric.conditional_criteria
            ],
            schema=CONDITIONS_SCHEMA,
        ),
        "source_steps": pa.Table.from_pylist(
            [
                {"root": root, "criterion_id": criterion_id, "parent": s.parent, "node": s.node, "weight": s.weight}
                for root, criterion_id, s in tree_steps(rubric)
            ],
            schema=STEPS_SCHEMA,
        ),
    }
    for name, table in sources.items():
        connection.register(name, table)
    connection.register("source_case_weights", CASE_WEIGHTS_SCHEMA.empty_table())


def add_cost_sources(connection: duckdb.DuckDBPyConnection, run: Run) -> None:
    """Make the sources of the mart `stage_costs`: the run's timings and the judgments it paid for."""
    connection.register("source_timings", read_timings(run.folder))
    judgments = paid_judgments(run.lake, run.run_id) if run.asks_models else _PAID_SCHEMA.empty_table()
    connection.register("source_judgments", judgments)


def paid_judgments(lake: Lake, run_id: str) -> pa.Table:
    """Columns of a run's paid judgments that the marts read, without texts."""
    query = f"select {', '.join(_PAID_SCHEMA.names)} from judgments where run_id = ?"
    with connect(lake, read_only=True) as connection:
        return connection.execute(query, [run_id]).to_arrow_table()


def run_costs(run: Run) -> pa.Table:
    """Current rows of `stage_costs`: building the marts takes time too, so they change afterwards."""
    with open_database(threads=1) as connection:
        add_criteria_sources(connection, run.folder, run.rubric)
        add_cost_sources(connection, run)
        build_marts(connection, only="stage_costs")
        return connection.execute("from stage_costs").to_arrow_table()


def add_score_sources(
    connection: duckdb.DuckDBPyConnection, folder: RunFolder, rubric: Rubric, shards: tuple[str, ...]
) -> None:
    """Make the sources of all marts but costs: outputs, verdicts and criteria. Small ones are read on one thread."""
    collected = [str(folder.collected_file(index)) for index in range(len(shards))]
    if sum(Path(file).stat().st_size for file in (*shards, *collected)) <= ONE_THREAD_BYTES:
        connection.execute("set threads = 1")
    _view(connection, "source_outputs", shards)
    _view(connection, "source_verdicts", collected)
    add_criteria_sources(connection, folder, rubric)
    if folder.case_weights_file.exists():
        connection.unregister("source_case_weights")
        _view(connection, "source_case_weights", [str(folder.case_weights_file)])


def add_opinions(connection: duckdb.DuckDBPyConnection, folder: RunFolder) -> None:
    """Make the source of the opinions behind verdicts; empty if the run has one opinion of each."""
    files = [str(file) for file in folder.detail_files("opinions")]
    if files:
        _view(connection, "source_opinions", files)
    else:
        connection.register("source_opinions", OPINION_SCHEMA.empty_table())


def _view(connection: duckdb.DuckDBPyConnection, name: str, files: tuple[str, ...] | list[str]) -> None:
    connection.execute(f"create temp view {name} as from read_parquet({file_list(files)})")
