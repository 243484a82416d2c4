"""Differences of two models corrected by people's ratings, of the overall score and of each judged criterion."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gradebook.rubrics.model.counts import counted
from gradebook.rubrics.model.rubric import Rubric, effective_weights
from gradebook.rubrics.statistics.calibration import Rated
from gradebook.rubrics.statistics.comparison import CorrectedFigures
from gradebook.rubrics.statistics.corrected_overall import LEAST_RATED_CASES, Scored, corrected_sum
from gradebook.rubrics.statistics.intervals import DIFFERENCES, Interval
from gradebook.rubrics.statistics.rules import CRITERION, OVERALL
from gradebook.tasks.agreement.calibration_samples import read_judged, samples_of
from gradebook.tasks.comparing.figures import difference_bounds
from gradebook.tasks.comparing.model_pairs import Groups
from gradebook.tasks.lake.rows import Row
from gradebook.tasks.lake.sql import query

Corrected = Mapping[tuple[str, str], CorrectedFigures]  # by scope and scope_id


@dataclass(frozen=True, slots=True)
class _Model:
    """One model of a run. parts: scores by criterion id; faults: why a criterion can't be corrected."""

    parts: dict[str, Rated | Scored] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)

    @property
    def rated_ids(self) -> list[str]:
        return [name for name, part in self.parts.items() if isinstance(part, Rated)]


def corrected_differences(
    connection: duckdb.DuckDBPyConnection, run_ids: tuple[str, str], groups: Groups, rubric: Rubric, ids: Sequence[str]
) -> Corrected:
    """Corrected differences of the overall score and of these criteria; empty if nobody rated an output of both runs.

    connection: to the lake. rubric: of both runs. There is none if outputs of a model have no overall score: what the
    judge refuses is no random part of them.
    """
    if not connection.execute("select 1 from ratings limit 1").fetchall():
        return {}
    tables = [
        connection.execute(query("comparing/complete_scores"), {"run_id": run_id} | _named(group)).to_arrow_table()
        for run_id, group in zip(run_ids, groups, strict=True)
    ]
    cases = sorted(set(tables[0].column("shared").to_pylist()) | set(tables[1].column("shared").to_pylist()))
    codes = {name: place for place, name in enumerate(cases)}
    sides = [
        _read_model(connection, run_id, group, table, codes)
        for run_id, group, table in zip(run_ids, groups, tables, strict=True)
    ]
    if not all(side.rated_ids for side in sides):
        return {}
    found: dict[tuple[str, str], CorrectedFigures] = {}
    for name in ids:
        if any(name in side.rated_ids for side in sides):
            found[CRITERION, name] = _difference(sides, {name: 1.0}, DIFFERENCES, len(codes))
    weights = {name: weight for name, weight in effective_weights(rubric).items() if weight}
    base = sum(max(weight, 0.0) for weight in weights.values())
    if base:
        shares = {name: weight / base for name, weight in weights.items()}
        found[OVERALL, ""] = _difference(sides, shares, difference_bounds(shares.values()), len(codes))
    return found


def _named(group: Row) -> Row:
    return {"model": group["model"], "checkpoint": group["checkpoint"]}


def _read_model(
    connection: duckdb.DuckDBPyConnection, run_id: str, group: Row, complete: pa.Table, codes: Mapping[str, int]
) -> _Model:
    judged = read_judged(connection, run_id)
    is_own = pc.and_(
        pc.is_in(judged.table.column("output_id"), pc.unique(complete.column("output_id"))),
        pc.equal(judged.table.column("model"), group["model"]),
    )
    found = _Model()
    unscored = "select count(*) from output_scores where run_id = ? and model = ? and checkpoint is not distinct from ?"
    values = [run_id, group["model"], group["checkpoint"]]
    ((unscored_count,),) = connection.execute(f"{unscored} and score is null", values).fetchall()
    output_count = pc.count_distinct(complete.column("output_id")).as_py()
    for sample in samples_of(connection, judged.where(is_own), codes):
        if sample.checkpoint != group["checkpoint"]:
            continue
        if not sample.rated.n:
            found.faults[sample.criterion_id] = sample.left_out or "nobody rated it"
        elif sample.selection is not None:
            found.faults[sample.criterion_id] = sample.selection
        elif unscored_count or sample.rated.total != output_count:
            found.faults[sample.criterion_id] = "the judge did not score all outputs"
        else:
            found.parts[sample.criterion_id] = sample.rated
    for name in pc.unique(complete.column("criterion_id")).to_pylist():
        rows = complete.filter(pc.equal(complete.column("criterion_id"), name))
        if name in found.parts or name in found.faults:
            continue
        if "judge" in rows.column("method").to_pylist():
            found.faults[name] = "nobody rated it"
            continue
        known = rows.filter(rows.column("score").is_valid())
        cases = np.array([codes[shared] for shared in known.column("shared").to_pylist()], dtype=np.int64)
        if known.num_rows == output_count:
            found.parts[name] = Scored(known.column("score").to_numpy(), cases)
        else:
            found.faults[name] = "some outputs have no score"
    return found


def _difference(
    sides: Sequence[_Model], weights: Mapping[str, float], bounds: Interval, case_count: int
) -> CorrectedFigures:
    reasons = [
        f"{name} of {letter}: {side.faults.get(name, 'no scores')}"
        for letter, side in zip("AB", sides, strict=True)
        for name in weights
        if name not in side.parts
    ]
    if reasons:
        return CorrectedFigures(corrected_reason="; ".join(reasons))
    of_a, of_b = (
        corrected_sum([(weight, side.parts[name]) for name, weight in weights.items()], case_count) for side in sides
    )
    difference = of_b.minus(of_a)
    interval = difference.interval(bounds)
    found = counted(difference.fewest_rated, "rated case")
    reason = None if interval else f"found {found}, expected {LEAST_RATED_CASES} or more for an interval"
    low, high = (None, None) if interval is None else (interval.low, interval.high)
    return CorrectedFigures(of_a.value, of_b.value, difference.value, low, high, reason)
