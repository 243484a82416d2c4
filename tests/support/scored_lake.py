"""Published runs of given scores: the marts are built from the verdicts as in any run, but nothing is evaluated."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from gradebook.rubrics.files.case_criteria import CASE_CRITERIA_SCHEMA
from gradebook.rubrics.files.versions import rubric_digest
from gradebook.rubrics.model.rubric import Rubric
from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.lake.connections import commit, prepare_lake
from gradebook.tasks.marts.models import build_marts
from gradebook.tasks.marts.sources import add_rubric_sources
from gradebook.tasks.rubric_store.versions import store_rubric

NOW = datetime(2026, 11, 1, tzinfo=UTC)
OUTPUT_SCHEMA = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in ("output_id", "case_id", "model", "checkpoint")),
        pa.field("sample_index", pa.int32()),
        pa.field("cluster", pa.string()),
        pa.field("metadata", pa.string()),
        pa.field("output", pa.string()),
    ]
)
VERDICT_SCHEMA = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in ("output_id", "criterion_id", "status")),
        pa.field("score", pa.float64()),
        pa.field("reason", pa.string()),
    ]
)
COMPARED_MARTS = ("output_scores",)
MARTS = (*COMPARED_MARTS, "run_scores")
PAGE_MARTS = (*MARTS, "category_scores", "criterion_scores", "score_distribution")
# Models and checkpoints of a run, all that comparisons read of `run_scores`: a hundredth of the CPU of the mart itself.
GROUPS = "select distinct run_id, model, checkpoint from output_scores"
JUDGMENTS = """
create table source_judgments (
    output_id varchar, criterion_id varchar, prompt_tokens bigint, cached_tokens bigint, completion_tokens bigint,
    cost_usd double, attempts int
);
"""

Scores = Mapping[str, float | None]
Scored = tuple[Rubric, Iterable[Mapping[str, Any]]]  # outputs of a run as `write_scores` takes them


@dataclass(frozen=True, slots=True)
class _Made:
    """A run with its rows by table."""

    run_id: str
    rubric: Rubric
    tables: Mapping[str, pa.Table]


def make_lake(folder: Path) -> Lake:
    """An empty lake with its tables."""
    lake = find_lake(f"sqlite:{folder}/lake/catalog.sqlite")
    prepare_lake(lake)
    return lake


def write_scores(lake: Lake, run_id: str, rubric: Rubric, outputs: Iterable[Mapping[str, Any]]) -> None:
    """Publish a run of outputs: each with a case_id, its scores by criterion, and what else of an output it has.

    own: the weights of criteria that the output's row brought along, by id. reasons: of missing scores, by criterion.
    """
    write_runs(lake, {run_id: (rubric, outputs)})


def write_runs(lake: Lake, runs: Mapping[str, Scored], marts: tuple[str, ...] = MARTS) -> None:
    """Publish runs by their ids as `write_scores` does, all in one version of the lake.

    marts: those that are built; without `run_scores`, its rows have no scores.
    """
    _publish(
        lake, [_made_run(run_id, rubric, *_tables(run_id, rows), marts) for run_id, (rubric, rows) in runs.items()]
    )


def write_run(lake: Lake, run_id: str, rubric: Rubric, outputs: pa.Table, verdicts: pa.Table, own: pa.Table) -> None:
    """Publish a run of these outputs and verdicts; columns that the outputs lack are null."""
    _publish(lake, [_made_run(run_id, rubric, outputs, verdicts, own, MARTS)])


def _tables(run_id: str, outputs: Iterable[Mapping[str, Any]]) -> tuple[pa.Table, pa.Table, pa.Table]:
    """Outputs, verdicts and per-case criteria of a run."""
    rows = [{"model": "m", "sample_index": 0, "own": {}} | dict(row) for row in outputs]
    for row in rows:
        row.setdefault("output_id", f"{run_id}/{row['model']}/{row['case_id']}/{row['sample_index']}")
    verdicts = [
        {"output_id": row["output_id"], "criterion_id": name, "score": score}
        | {
            "status": "unscored" if score is None else "scored",
            "reason": None if score is not None else row.get("reasons", {}).get(name, "none"),
        }
        for row in rows
        for name, score in row["scores"].items()
    ]
    own = [own_criterion(row["output_id"], name, weight) for row in rows for name, weight in row["own"].items()]
    return (
        pa.Table.from_pylist([{name: row.get(name) for name in OUTPUT_SCHEMA.names} for row in rows], OUTPUT_SCHEMA),
        pa.Table.from_pylist(verdicts, VERDICT_SCHEMA),
        pa.Table.from_pylist(own, CASE_CRITERIA_SCHEMA),
    )


def own_criterion(output_id: str, criterion_id: str, weight: float) -> dict[str, Any]:
    """A criterion that an output's row brought along."""
    return {
        "output_id": output_id,
        "criterion_id": criterion_id,
        "weight": weight,
        "is_gate": False,
        "gate_threshold": 1.0,
        "method": "ratings",
        "description": criterion_id,
        "digest": criterion_id,
        "levels": [],
        "body": f'{{"id": "{criterion_id}"}}',
        "row_index": 0,
    }


def _made_run(
    run_id: str, rubric: Rubric, outputs: pa.Table, verdicts: pa.Table, own: pa.Table, marts: tuple[str, ...]
) -> _Made:
    for field in OUTPUT_SCHEMA:
        if field.name not in outputs.column_names:
            outputs = outputs.append_column(field, pa.nulls(outputs.num_rows, field.type))
    with duckdb.connect(config={"threads": 1}) as memory:
        add_rubric_sources(memory, run_id, rubric)
        memory.execute(JUDGMENTS)
        for name, table in (("outputs", outputs), ("verdicts", verdicts), ("case_criteria", own)):
            memory.register(f"source_{name}", table)
        build_marts(memory, only=marts)
        tables = {"run_scores": GROUPS} | {name: f"from {name}" for name in marts}
        built = {name: memory.execute(select).to_arrow_table() for name, select in tables.items()}
    of_run = {
        "verdicts": verdicts.append_column("run_id", pa.repeat(run_id, verdicts.num_rows)),
        "case_criteria": own.drop(["gate_threshold", "row_index"]).append_column(
            "run_id", pa.repeat(run_id, own.num_rows)
        ),
    }
    return _Made(run_id, rubric, {"outputs": outputs, **of_run, **built})


def _publish(lake: Lake, runs: list[_Made]) -> None:
    def body(connection: duckdb.DuckDBPyConnection, version: int) -> None:
        for rubric in {rubric_digest(run.rubric): run.rubric for run in runs}.values():
            store_rubric(connection, rubric, NOW)
        for name in dict.fromkeys(name for run in runs for name in run.tables):
            connection.register("given", pa.concat_tables([run.tables[name] for run in runs]))
            connection.execute(f"insert into {name} by name from given")
        rows = [
            [run.run_id, run.rubric.id, run.rubric.version, rubric_digest(run.rubric), run.tables["outputs"].num_rows]
            for run in runs
        ]
        marks = ", ".join("(?, ?, ?, ?, ?)" for _ in rows)
        connection.execute(
            "insert into runs (run_id, rubric_id, rubric_version, rubric_digest, output_count, created_at, status, "
            "version) "
            f"select *, ?::timestamptz, 'published', ? from (values {marks})",
            [NOW, version, *(value for row in rows for value in row)],
        )

    commit(lake, f"publish run {', '.join(run.run_id for run in runs)}", body)
