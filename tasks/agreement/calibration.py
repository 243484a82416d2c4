"""Calibration of a judge: its mean scores corrected by people's ratings of some outputs."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.statistics.agreement import MOST_LEVELS
from gradebook.rubrics.statistics.calibration import (
    Estimate,
    corrected_mean,
    fold_weights,
    judge_weight,
    naive_mean,
    rated_mean,
    ratings_to_halve,
)
from gradebook.rubrics.statistics.post_stratified import post_stratified_mean
from gradebook.rubrics.statistics.rating_next import rate_next
from gradebook.rubrics.statistics.rogan_gladen import rogan_gladen_mean
from gradebook.tasks.agreement.calibration_samples import Judged, Sample, read_judged, samples_of
from gradebook.tasks.agreement.published_run import find_run, refuse_unknown, unrated_words
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect_up_to_date
from gradebook.tasks.lake.rows import Row, model_name
from gradebook.tasks.ratings.offered import offered_words

MOST_NEXT = 10_000
_NOT_RANDOM = "the rated outputs are not a random sample"


@dataclass(frozen=True, slots=True)
class Calibration:
    """Mean of one model and checkpoint on one criterion, by four estimators; all scores in 0..1.

    n: rated outputs that the judge scored; unrated_count: its other scored outputs. corrected: PPI++; if the rated
    outputs are not a random sample, weighted by the judge's scores, or None. weight: of the judge's scores in PPI++,
    0..1. more_count: further ratings needed to halve its interval; more_reason: why it is None. note: why the estimates
    may be biased. is_random: False: the judge scored the rated outputs differently from the others, so that no
    difference from the corrected mean is a finding.
    """

    criterion_id: str
    model: str
    checkpoint: str | None
    n: int
    unrated_count: int
    naive: Estimate
    rated: Estimate
    corrected: Estimate
    rogan_gladen: Estimate
    weight: float
    more_count: int | None
    more_reason: str | None
    note: str | None
    is_random: bool = True

    @property
    def name(self) -> str:
        """Model with its checkpoint."""
        return model_name({"model": self.model, "checkpoint": self.checkpoint})


@dataclass(frozen=True, slots=True)
class RunCalibration:
    """Calibrated means of a run, and the outputs to rate next, most useful first. note: why there are none."""

    run: Row
    rows: tuple[Calibration, ...]
    next_outputs: tuple[Row, ...]
    note: str | None

    def as_json(self) -> dict[str, Any]:
        return {
            "run": self.run,
            "calibration": [asdict(row) for row in self.rows],
            "rate_next": list(self.next_outputs),
            "note": self.note,
        }


def calibrated_means(
    connection: duckdb.DuckDBPyConnection, run_id: str, criteria: Sequence[str]
) -> tuple[Calibration, ...]:
    """Means of each criterion, model and checkpoint by all four estimators, from the current ratings.

    connection: to a lake with the published run.
    """
    judged = read_judged(connection, run_id, criteria)
    return tuple(_calibrate(sample) for sample in samples_of(connection, judged))


def corrected_row(means: Calibration) -> Row:
    """Flat row with the judge's mean and the corrected mean. note: why the latter is None or may be biased.

    n: rated outputs.
    """
    return {
        "criterion_id": means.criterion_id,
        "model": means.model,
        "checkpoint": means.checkpoint,
        "n": means.n,
        "output_count": means.n + means.unrated_count,
        "naive_mean": means.naive.value,
        "corrected_mean": means.corrected.value,
        "ci_low": means.corrected.ci_low,
        "ci_high": means.corrected.ci_high,
        "note": "; ".join(filter(None, (means.corrected.reason, means.note))) or None,
    }


def calibrate_run(lake: Lake, run_id: str, *, criterion_id: str | None = None, next_count: int = 0) -> RunCalibration:
    """Calibrate the judge's means of a published run by all current ratings.

    criterion_id: only this criterion, which may be a check's; None: all criteria of the judge. next_count: number of
    outputs to suggest for rating, 0 to `MOST_NEXT`. Raises `InputError` for an unknown run or criterion.
    """
    if not 0 <= next_count <= MOST_NEXT:
        raise InputError("--rate-next", f"{next_count}", f"0 to {MOST_NEXT:,}")
    with connect_up_to_date(lake) as connection:
        run = find_run(connection, lake, run_id, None)
        refuse_unknown(connection, run_id, criterion_id)
        judged = read_judged(connection, run_id, None if criterion_id is None else [criterion_id])
        rows = tuple(_calibrate(sample) for sample in samples_of(connection, judged))
        offered = offered_words(connection, run_id, lake.words())
    why_none = None if rows else _why_none(judged, unrated_words(run_id, lake.words(), what="what the judge scored"))
    note = "; ".join(filter(None, (why_none, offered))) or None
    return RunCalibration(run, rows, _next_outputs(judged.table, next_count), note)


def _calibrate(sample: Sample) -> Calibration:
    rated, two_levels = sample.rated, sample.two_levels
    weight = judge_weight(rated)
    if sample.selection is None:
        levels = sample.levels if 1 < len(sample.levels) <= MOST_LEVELS else None
        corrected, alone = corrected_mean(rated, levels, fold_weights(rated)), rated_mean(rated, levels)
        rogan_gladen = (
            rogan_gladen_mean(rated, two_levels)
            if two_levels
            else Estimate(None, None, None, f"it is of two levels, found {len(sample.levels)}")
        )
        more_count, more_reason = ratings_to_halve(rated, corrected, weight)
    else:
        # The judge's scores do not tell which outputs people give no score.
        corrected = Estimate(None, None, None, None) if sample.excused_count else post_stratified_mean(rated)
        alone = Estimate(float(rated.ratings.mean()), None, None, _NOT_RANDOM)
        rogan_gladen = Estimate(None, None, None, _NOT_RANDOM)
        more_count, more_reason = None, _NOT_RANDOM
    return Calibration(
        criterion_id=sample.criterion_id,
        model=sample.model,
        checkpoint=sample.checkpoint,
        n=rated.n,
        unrated_count=int(rated.unrated.size),
        naive=naive_mean(rated),
        rated=alone,
        corrected=corrected,
        rogan_gladen=rogan_gladen,
        weight=weight,
        more_count=more_count,
        more_reason=more_reason,
        note="; ".join(filter(None, (_selection_words(sample.selection, corrected), sample.left_out, sample.note)))
        or None,
        is_random=sample.selection is None,
    )


def _selection_words(selection: str | None, corrected: Estimate) -> str | None:
    if selection is None:
        return None
    if corrected.value is None:
        return f"{selection}: no corrected mean"
    return (
        f"{selection}: the corrected mean weighs the ratings by the judge's scores, and is right only if the outputs "
        "were chosen by these scores alone"
    )


def _why_none(judged: Judged, unrated: str) -> str:
    if judged.unjudged_words:
        return f"nobody rated an output that the judge scored; {judged.unjudged_words}"
    return unrated if judged.table.num_rows else "no verdict of this run is a judge's"


def _next_outputs(judged: pa.Table, count: int) -> tuple[Row, ...]:
    """Outputs to rate next. Scores are averaged over criteria; a rating of any criterion counts as rated."""
    if not count or not judged.num_rows:
        return ()
    keys = ["output_id", "model", "checkpoint", "case_id", "sample_index"]
    outputs = judged.group_by(keys, use_threads=False).aggregate([("score", "mean"), ("rating", "count")])
    outputs = outputs.sort_by("output_id").combine_chunks()
    names = pc.binary_join_element_wise(outputs.column("model"), pc.coalesce(outputs.column("checkpoint"), ""), "\n")
    is_rated = outputs.column("rating_count").to_numpy() > 0
    places = rate_next(outputs.column("score_mean").to_numpy(), is_rated, names.to_numpy(), count)
    chosen = outputs.take(pa.array(places, pa.int64())).drop_columns(["rating_count"])
    rows: list[Row] = chosen.rename_columns([*keys, "score"]).to_pylist()
    return tuple(rows)
