"""Gates and thresholds of a rubric, checked against a run's scores; an unknown outcome counts as unmet."""

import json
from collections.abc import Iterator
from contextlib import suppress

import duckdb

from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.rows import Row, model_name, read_rows
from gradebook.tasks.lake.sql import query
from gradebook.tasks.workspace.folder import RunFolder

TOLERANCE = 1e-9  # for rounding errors of a mean at its threshold


def unmet_requirements(connection: duckdb.DuckDBPyConnection, run_id: str) -> tuple[bool, tuple[str, ...]]:
    """Whether the rubric has a requirement, and one sentence for each gate or threshold that is not met.

    A mean must reach its threshold even if all missing scores were the worst possible.
    """
    (rubric,) = read_rows(connection, query("published/rubric_requirements"), run_id=run_id)
    criteria = read_rows(connection, query("published/criterion_requirements"), run_id=run_id)
    models = read_rows(connection, query("published/model_requirements"), run_id=run_id)
    sentences = [sentence for row in models for sentence in _of_model(row, rubric)]
    sentences += [] if models else ["found no scores of the run in run_scores, expected some"]
    sentences += [sentence for row in criteria for sentence in _of_criterion(row, rubric)]
    own_gates = read_rows(connection, "select 1 from case_criteria where run_id = ? and is_gate limit 1", run_id)
    has_gate = bool(own_gates) or any(row["is_gate"] for row in criteria)
    has_requirement = rubric["pass_threshold"] is not None or rubric["require_thresholds"] or has_gate
    return has_requirement, tuple(sorted(sentences))


def stated_unmet(connection: duckdb.DuckDBPyConnection, lake: Lake, run_id: str) -> tuple[str, ...]:
    """Unmet requirements of a published run as stored in its folder, including its rule against the baseline.

    Without the folder, only the rubric's requirements are checked.
    """
    file = RunFolder.below(lake.root, run_id).published_file
    with suppress(OSError, ValueError, KeyError, TypeError):
        return tuple(map(str, json.loads(file.read_text(encoding="utf-8"))["unmet"]))
    return unmet_requirements(connection, run_id)[1]


def _of_model(row: Row, rubric: Row) -> Iterator[str]:
    if row["gate_failure_count"]:
        yield f"{model_name(row)}: {row['gate_failure_count']:,} of {row['output_count']:,} outputs fail a gate"
    if row["own_gap_count"]:
        yield (
            f"{model_name(row)}: gates of per-case criteria are not scored for {row['own_gap_count']:,} of "
            f"{row['output_count']:,} outputs"
        )
    if rubric["pass_threshold"] is not None:
        yield from _below(row, "mean", rubric["pass_threshold"], row["mean_low"])


def _of_criterion(row: Row, rubric: Row) -> Iterator[str]:
    gap_count = row["output_count"] - row["n"]
    if row["is_gate"] and gap_count:
        yield (
            f"{model_name(row)}: the gate {row['criterion_id']} is not scored for {gap_count:,} of "
            f"{row['output_count']:,} outputs"
        )
    elif not row["is_gate"] and rubric["require_thresholds"] and row["threshold"] is not None:
        is_skipped = rubric["missing"] == "skip"
        mean_low = row["mean"] if is_skipped else (row["mean"] or 0.0) * row["n"] / row["output_count"]
        yield from _below(row, f"mean of {row['criterion_id']}", row["threshold"], mean_low)


def _below(row: Row, name: str, threshold: float, mean_low: float | None) -> Iterator[str]:
    if row["mean"] is None:
        yield f"{model_name(row)}: no output has a score, expected {name} of at least {threshold:g}"
    elif row["mean"] < threshold - TOLERANCE:
        yield f"{model_name(row)}: {name} {row['mean']:.3f}, expected at least {threshold:g}"
    elif mean_low is not None and mean_low < threshold - TOLERANCE:
        yield (
            f"{model_name(row)}: {name} {row['mean']:.3f} over {row['n']:,} of {row['output_count']:,} outputs, "
            f"expected at least {threshold:g} for any scores of the others"
        )
