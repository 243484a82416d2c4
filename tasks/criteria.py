"""The criteria of a run as rows: its rubric's, the tree that weighs them, and those that its outputs bring along."""

import duckdb
import pyarrow as pa

from gradebook.rubrics.case_criteria import CASE_CRITERIA_SCHEMA
from gradebook.rubrics.judging.prompt import criterion_digest
from gradebook.rubrics.model import Rubric
from gradebook.rubrics.weights import category_weights, effective_weights, tree_steps
from gradebook.tasks.case_criteria import case_criteria_files
from gradebook.tasks.sql_text import file_list
from gradebook.tasks.workspace import RunFolder

CRITERIA_SCHEMA = pa.schema(
    [
        *(
            pa.field(name, pa.string())
            for name in ("run_id", "rubric_id", "rubric_version", "criterion_id", "name", "digest", "category")
        ),
        pa.field("weight", pa.float64()),
        pa.field("effective_weight", pa.float64()),
        pa.field("is_gate", pa.bool_()),
        pa.field("threshold", pa.float64()),
        pa.field("gate_threshold", pa.float64()),
        pa.field("method", pa.string()),
        pa.field("description", pa.string()),
        pa.field("rationale", pa.string()),
        pa.field("position", pa.int64()),  # from 1, in the order of the rubric
    ]
)
LEVELS_SCHEMA = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in ("rubric_id", "rubric_version", "criterion_id", "level_id")),
        pa.field("position", pa.int64()),  # 1 is the worst
        pa.field("score", pa.float64()),
        pa.field("label", pa.string()),
        pa.field("description", pa.string()),
    ]
)
CATEGORIES_SCHEMA = pa.schema([pa.field("category", pa.string()), pa.field("parent", pa.string())])
CATEGORY_WEIGHTS_SCHEMA = pa.schema(
    [pa.field("category", pa.string()), pa.field("criterion_id", pa.string()), pa.field("weight", pa.float64())]
)
STEPS_SCHEMA = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in ("root", "criterion_id", "parent", "node")),
        pa.field("weight", pa.float64()),
    ]
)


def criteria_table(run_id: str, rubric: Rubric) -> pa.Table:
    """A row a criterion of the run's rubric, for the marts and the table `criteria`."""
    weights = effective_weights(rubric)
    rows = [
        {
            "run_id": run_id,
            "rubric_id": rubric.id,
            "rubric_version": rubric.version,
            "criterion_id": criterion.id,
            "name": criterion.name,
            "digest": criterion_digest(criterion),
            "category": criterion.category,
            "weight": rubric.weight_of(criterion),
            "effective_weight": weights[criterion.id],
            "is_gate": criterion.gate,
            "threshold": criterion.threshold,
            "gate_threshold": criterion.gate_threshold,
            "method": criterion.method.type,
            "description": criterion.description,
            "rationale": criterion.rationale,
            "position": position,
        }
        for position, criterion in enumerate(rubric.criteria, start=1)
    ]
    return pa.Table.from_pylist(rows, schema=CRITERIA_SCHEMA)


def levels_table(rubric: Rubric) -> pa.Table:
    """A row a level of the rubric's criteria, for the table `levels`."""
    rows = [
        {
            "rubric_id": rubric.id,
            "rubric_version": rubric.version,
            "criterion_id": criterion.id,
            "level_id": level.id,
            "position": position,
            "score": level.score,
            "label": level.label,
            "description": level.description or None,
        }
        for criterion in rubric.criteria
        for position, level in enumerate(criterion.ranked_levels, start=1)
    ]
    return pa.Table.from_pylist(rows, schema=LEVELS_SCHEMA)


def add_criteria_sources(connection: duckdb.DuckDBPyConnection, folder: RunFolder, rubric: Rubric) -> None:
    """Make the sources that say what the run asks for: its rubric's, and the criteria that its rows bring along."""
    add_rubric_sources(connection, folder.run_id, rubric)
    files = [str(file) for file in case_criteria_files(folder)]
    if files:
        connection.execute(f"create view source_case_criteria as from read_parquet({file_list(files)})")
    else:
        connection.register("source_case_criteria", CASE_CRITERIA_SCHEMA.empty_table())


def add_rubric_sources(connection: duckdb.DuckDBPyConnection, run_id: str, rubric: Rubric) -> None:
    """Make the sources that the rubric gives: the run's own row, its criteria, and by what weights."""
    connection.execute(
        "create or replace table source_run as "
        "select ?::varchar as run_id, ?::varchar as rubric_id, ?::varchar as rubric_version, "
        "?::double as pass_threshold, ?::boolean as require_thresholds, ?::varchar as missing",
        [run_id, rubric.id, rubric.version, rubric.pass_threshold, rubric.require_thresholds, rubric.missing],
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
                for category, held in weights.items()
                for criterion_id, weight in held.items()
            ],
            schema=CATEGORY_WEIGHTS_SCHEMA,
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
