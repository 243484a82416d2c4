"""Gates and thresholds of a rubric, checked against a run's scores; an unknown outcome counts as unmet."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import duckdb

from gradebook.rubrics.model.counts import counted
from gradebook.tasks.lake.rows import Row, model_name, read_rows
from gradebook.tasks.lake.sql import query

MOST_GATES = 3
TOLERANCE = 1e-9  # for rounding errors of a mean at its threshold


@dataclass(frozen=True, slots=True)
class Unmet:
    """Requirement that is not met; as text, a sentence. model: None if it concerns the run.

    brief: the fault in fewer words, which name each failed gate. is_undecided: the requirement can't be checked.
    """

    model: str | None
    fault: str
    brief: str
    is_undecided: bool = False

    def __str__(self) -> str:
        return self.fault if self.model is None else f"{self.model}: {self.fault}"


def unmet_requirements(connection: duckdb.DuckDBPyConnection, run_id: str) -> tuple[bool, tuple[Unmet, ...]]:
    """Whether the rubric has a requirement, and each gate or threshold that is not met.

    A mean must reach its threshold even if all missing scores were the worst possible.
    """
    (rubric,) = read_rows(connection, query("published/rubric_requirements"), run_id=run_id)
    criteria = read_rows(connection, query("published/criterion_requirements"), run_id=run_id)
    models = read_rows(connection, query("published/model_requirements"), run_id=run_id)
    gates: dict[str, list[Row]] = {}
    for row in read_rows(connection, query("published/gate_failures"), run_id=run_id):
        gates.setdefault(model_name(row), []).append(row)
    unmet = [each for row in models for each in _of_model(row, rubric, gates.get(model_name(row), []))]
    unmet += [] if models else [Unmet(None, "found no scores of the run in run_scores, expected some", "no scores")]
    unmet += [each for row in criteria for each in _of_criterion(row, rubric)]
    own_gates = read_rows(connection, "select 1 from case_criteria where run_id = ? and is_gate limit 1", run_id)
    has_gate = bool(own_gates) or any(row["is_gate"] for row in criteria)
    has_requirement = rubric["pass_threshold"] is not None or rubric["require_thresholds"] or has_gate
    return has_requirement, tuple(sorted(unmet, key=str))


def _of_model(row: Row, rubric: Row, gates: Sequence[Row]) -> Iterator[Unmet]:
    if row["gate_failure_count"]:
        count = row["gate_failure_count"]
        failed = f"{count:,} of {counted(row['output_count'], 'output')} {'fails' if count == 1 else 'fail'}"
        yield Unmet(model_name(row), f"{failed} a gate", f"{failed} {_gate_words(gates)}")
    if row["own_gap_count"]:
        outputs = f"{row['own_gap_count']:,} of {counted(row['output_count'], 'output')}"
        fault = f"gates of per-case criteria are not scored for {outputs}"
        yield Unmet(model_name(row), fault, fault)
    if rubric["pass_threshold"] is not None:
        yield from _below(row, "mean", rubric["pass_threshold"], row["mean_low"])


def _gate_words(gates: Sequence[Row]) -> str:
    """The gates that fail, the most frequent first; with their numbers of outputs if there are several."""
    names = [f"{row['criterion_id']} ({row['failure_count']:,})" for row in gates[:MOST_GATES]]
    more = f" and {len(gates) - MOST_GATES:,} more" if len(gates) > MOST_GATES else ""
    return f"gates: {', '.join(names)}{more}" if len(gates) > 1 else f"the gate {gates[0]['criterion_id']}"


def _of_criterion(row: Row, rubric: Row) -> Iterator[Unmet]:
    gap_count = row["output_count"] - row["n"]
    if row["is_gate"] and gap_count:
        outputs = f"{gap_count:,} of {counted(row['output_count'], 'output')}"
        fault = f"the gate {row['criterion_id']} is not scored for {outputs}"
        yield Unmet(model_name(row), fault, fault)
    elif row["is_optional"] and not row["n"]:
        return
    elif not row["is_gate"] and rubric["require_thresholds"] and row["threshold"] is not None:
        is_skipped = rubric["missing"] == "skip" or row["is_optional"]
        mean_low = row["mean"] if is_skipped else (row["mean"] or 0.0) * row["n"] / row["output_count"]
        yield from _below(row, f"mean of {row['criterion_id']}", row["threshold"], mean_low)


def _below(row: Row, name: str, threshold: float, mean_low: float | None) -> Iterator[Unmet]:
    model = model_name(row)
    if row["mean"] is None:
        brief = f"no output has a score for the {name}" if name != "mean" else "no output has a score"
        yield Unmet(model, f"no output has a score, expected {name} of at least {threshold:g}", brief)
    elif row["mean"] < threshold - TOLERANCE:
        fault = f"{name} {row['mean']:.3f}, expected at least {threshold:g}"
        yield Unmet(model, fault, f"the {name} {row['mean']:.3f} is below {threshold:g}")
    elif mean_low is not None and mean_low < threshold - TOLERANCE:
        scored = f"{row['n']:,} of {counted(row['output_count'], 'output')}"
        fault = f"{name} {row['mean']:.3f} over {scored}, expected at least {threshold:g} for any scores of the others"
        brief = f"only {scored} are scored, so the {name} could be below {threshold:g}"
        yield Unmet(model, fault, brief)
