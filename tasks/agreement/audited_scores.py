"""Means of a run by a cascade, corrected by its audit: the second judge's verdicts on a random sample of the outputs.

The second judge takes the place of people in `calibration`: PPI++ with the cascade's verdicts on all outputs, and the
second judge's on the sample. The corrected mean is an unbiased estimate of the second judge's mean over all outputs.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from gradebook.rubrics.model.rubric import Rubric, effective_weights
from gradebook.rubrics.statistics.calibration import (
    LEAST_RATED_CASES,
    Estimate,
    Rated,
    Scored,
    corrected_mean,
    corrected_sum,
)
from gradebook.rubrics.statistics.intervals import SCORES
from gradebook.rubrics.text.reasons import reason_words
from gradebook.rubrics.text.wording import counted, score_words, with_interval
from gradebook.tasks.lake.rows import Row, model_name
from gradebook.tasks.lake.sql import query

AUDITED_SCHEMA = pa.schema(
    [
        pa.field("model", pa.string()),
        pa.field("checkpoint", pa.string()),
        pa.field("criterion_id", pa.string()),
        pa.field("n", pa.int64()),
        pa.field("audited_count", pa.int64()),
        pa.field("mean", pa.float64()),
        pa.field("corrected_mean", pa.float64()),
        pa.field("ci_low", pa.float64()),
        pa.field("ci_high", pa.float64()),
        pa.field("reason", pa.string()),
    ]
)
Group = tuple[str, str | None]
Scores = dict[str, Rated | Scored]


def add_audited_source(connection: duckdb.DuckDBPyConnection, rubric: Rubric) -> None:
    """Make the source of the mart `audited_scores`; empty unless a cascade had an audit. Reads the run's sources."""
    audited = "select 1 from source_opinions where asked_for in ('audit', 'both') limit 1"
    rows: list[Row] = []
    if connection.execute(audited).fetchall():
        rows = list(_rows(connection.execute(query("agreement/audited_verdicts")).to_arrow_table(), rubric))
    connection.register("source_audited", pa.Table.from_pylist(rows, schema=AUDITED_SCHEMA))


def audited_sentence(row: Row) -> str:
    """Sentence on a model's mean under a cascade, corrected by the audit. row: of `audited_scores`."""
    subject = f"{model_name(row)} on {row['criterion_id'] or 'the overall score'}"
    if row["corrected_mean"] is None:
        return f"The audit can't correct the mean of {subject}: {row['reason']}."
    mean = with_interval(row["corrected_mean"], row["ci_low"], row["ci_high"])
    no_interval = f", no interval: {row['reason']}" if row["ci_low"] is None and row["reason"] else ""
    return (
        f"By the audit of {row['audited_count']:,} of {counted(row['n'], 'output')} the cascade's second judge alone "
        f"would give {subject} {mean}{no_interval}; the cascade gave {score_words(row['mean'])}."
    )


def _rows(verdicts: pa.Table, rubric: Rubric) -> Iterator[Row]:
    groups: dict[Group, dict[str, list[Row]]] = {}
    codes: dict[str, int] = {}
    for row in verdicts.to_pylist():
        codes.setdefault(row["shared"], len(codes))
        rows_by_criterion = groups.setdefault((row["model"], row["checkpoint"]), {})
        rows_by_criterion.setdefault(row["criterion_id"], []).append(row)
    levels = {criterion.id: [level.score for level in criterion.ranked_levels] for criterion in rubric.criteria}
    for (model, checkpoint), by_criterion in groups.items():
        group = {"model": model, "checkpoint": checkpoint}
        scores = {
            name: of_criterion
            for name, rows in by_criterion.items()
            if (of_criterion := _criterion_scores(rows, codes)) is not None
        }
        for name, of_criterion in scores.items():
            if isinstance(of_criterion, Rated):
                mean = float(np.mean([row["score"] for row in by_criterion[name] if row["score"] is not None]))
                estimate = corrected_mean(of_criterion, levels.get(name))
                yield group | _figures(name, of_criterion.total, of_criterion.n, mean, estimate)
        output_count = max(len(rows) for rows in by_criterion.values())
        yield group | _overall(rubric, by_criterion, scores, output_count, len(codes))


def _criterion_scores(rows: Sequence[Row], codes: Mapping[str, int]) -> Rated | Scored | None:
    """Scores of a criterion: `Rated` if the audit has some of its outputs, else `Scored`; None without scores."""
    scored = [row for row in rows if row["score"] is not None and row["by_rule"] is not None]
    if not scored:
        return None
    scores, by_rule = (np.array([row[name] for row in scored]) for name in ("score", "by_rule"))
    cases = np.array([codes[row["shared"]] for row in scored], dtype=np.int64)
    is_drawn = np.array([row["is_drawn"] for row in scored], dtype=np.bool_)
    if not is_drawn.any():
        return Scored(scores, cases)
    return Rated(scores[is_drawn], by_rule[is_drawn], by_rule[~is_drawn], cases[is_drawn], cases[~is_drawn])


def _overall(
    rubric: Rubric, rows: Mapping[str, Sequence[Row]], scores: Scores, output_count: int, case_count: int
) -> Row:
    """Overall score as the weighted sum of its criteria, if each output has a score on all of them."""
    weights = {name: weight for name, weight in effective_weights(rubric).items() if weight}
    base = sum(max(weight, 0.0) for weight in weights.values())
    audited_counts = [of_criterion.n for of_criterion in scores.values() if isinstance(of_criterion, Rated)]
    audited = min(audited_counts, default=0)
    gaps = [name for name in weights if len(_scored(rows.get(name, ()))) != output_count or name not in scores]
    reason = None
    if not base or set(rows) - {criterion.id for criterion in rubric.criteria}:
        reason = "per-case criteria have other weights in each output" if base else "no criterion has a weight"
    elif min(weights.values()) < 0.0:
        reason = "penalties can take it below 0"
    elif gaps:
        reason = f"{gaps[0]} lacks scores"
    elif unaudited := [name for name in weights if isinstance(scores[name], Scored) and _is_judged(rubric, name)]:
        reason = f"{unaudited[0]} was not audited"
    if reason is not None:
        return _figures(None, output_count, audited, None, Estimate(None, None, None, reason))
    total = corrected_sum([(weight / base, scores[name]) for name, weight in weights.items()], case_count)
    interval = total.interval(SCORES)
    mean = sum(weight / base * float(np.mean(_scored(rows[name]))) for name, weight in weights.items())
    value = float(np.clip(total.value, 0.0, 1.0))
    if interval is None:
        few = (
            f"found {counted(total.fewest_rated, 'audited case')}, expected {LEAST_RATED_CASES} or more for an interval"
        )
        return _figures(None, output_count, audited, mean, Estimate(value, None, None, few))
    return _figures(None, output_count, audited, mean, Estimate(value, interval.low, interval.high, None))


def _scored(rows: Sequence[Row]) -> list[float]:
    return [row["score"] for row in rows if row["score"] is not None]


def _is_judged(rubric: Rubric, criterion_id: str) -> bool:
    return any(criterion.id == criterion_id for criterion in rubric.asked_criteria)


def _figures(criterion_id: str | None, n: int, audited: int, mean: float | None, estimate: Estimate) -> dict[str, Any]:
    return {
        "criterion_id": criterion_id,
        "n": n,
        "audited_count": audited,
        "mean": mean,
        "corrected_mean": estimate.value,
        "ci_low": estimate.ci_low,
        "ci_high": estimate.ci_high,
        "reason": reason_words(estimate.reason) or None,
    }
