"""What people would have given a run's outputs, from their ratings of some and the judge's scores of all."""

import itertools
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rubrics.errors import InputError
from rubrics.statistics.calibration import (
    Estimate,
    Rated,
    corrected_mean,
    judge_weight,
    naive_mean,
    rated_mean,
    ratings_to_halve,
    selection_shift,
)
from rubrics.statistics.rating_next import rate_next
from rubrics.statistics.rogan_gladen import rogan_gladen_mean
from tasks.lake import Lake, connect_up_to_date
from tasks.requirements import Row, model_name
from tasks.run_agreement import find_run, refuse_unknown
from tasks.said import add_said_of_run

MOST_NEXT = 10_000
SUSPICIOUS_SHIFT = 3.0  # standard errors

_JUDGED = """
select
    v.criterion_id,
    o.model,
    o.checkpoint,
    o.case_id,
    o.sample_index,
    v.output_id,
    v.score,
    r.rating,
from agreed_verdicts as v
inner join (from output_scores where run_id = $1) as o on v.output_id = o.output_id
left join (
    select criterion_id, output_id, avg(score) as rating from latest_ratings group by criterion_id, output_id
) as r
    on v.criterion_id = r.criterion_id and v.output_id = r.output_id
where v.status = 'scored' and case when $2 is null then v.method = 'judge' else v.criterion_id = $2 end
    and v.method <> 'ratings'
order by v.criterion_id, o.model, o.checkpoint, v.output_id
"""
_LEVELS = "select score from agreed_levels where criterion_id = ? order by score"


@dataclass(frozen=True, slots=True)
class Calibration:
    """The mean of one model and checkpoint on one criterion, by four estimates; all scores in 0..1.

    n: rated outputs that the judge scored; unrated_count: others that it scored. corrected: PPI++. weight: how far it
    follows the judge, 0..1. more_count: further ratings that would halve its interval; more_reason: why it is None.
    note: where the rated outputs are unlike the others.
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

    @property
    def name(self) -> str:
        """The model with its checkpoint."""
        return model_name({"model": self.model, "checkpoint": self.checkpoint})


@dataclass(frozen=True, slots=True)
class RunCalibration:
    """A run's calibrated means, and the outputs to rate next, the first ones first. note: why there is nothing."""

    run: Row
    rows: tuple[Calibration, ...]
    next_outputs: tuple[Row, ...]
    note: str | None

    def as_json(self) -> dict[str, Any]:
        """One JSON object: what `--json` prints."""
        return {
            "run": self.run,
            "calibration": [asdict(row) for row in self.rows],
            "rate_next": list(self.next_outputs),
            "note": self.note,
        }


def calibrate_run(lake: Lake, run_id: str, *, criterion_id: str | None = None, next_count: int = 0) -> RunCalibration:
    """Calibrate the judge's means of a published run by all ratings that there are now.

    criterion_id: this criterion alone, which may be a check's too; None: those of the judge. next_count: how many
    outputs to name that should be rated next, 0 to `MOST_NEXT`. Raises `InputError` where there
    is no such run or criterion.
    """
    if not 0 <= next_count <= MOST_NEXT:
        raise InputError(f"--rate-next: found {next_count}, expected 0 to {MOST_NEXT:,}")
    with connect_up_to_date(lake) as connection:
        run = find_run(connection, lake, run_id, None)
        refuse_unknown(connection, run_id, criterion_id)
        add_said_of_run(connection, run_id)
        judged = connection.execute(_JUDGED, [run_id, criterion_id]).to_arrow_table().combine_chunks()
        rows = tuple(_calibrations(connection, judged))
    return RunCalibration(run, rows, _next_outputs(judged, next_count), _note(judged, rows))


def _calibrations(connection: duckdb.DuckDBPyConnection, judged: pa.Table) -> Iterator[Calibration]:
    """A row a criterion, model and checkpoint with at least one rated output."""
    for places in _slices(judged, ("criterion_id", "model", "checkpoint")):
        part = judged.slice(places.start, len(places))
        if part.column("rating").null_count == part.num_rows:
            continue
        criterion_id, model, checkpoint = (part.column(name)[0].as_py() for name in part.column_names[:3])
        levels = [row[0] for row in connection.execute(_LEVELS, [criterion_id]).fetchall()]
        yield _calibrate(criterion_id, model, checkpoint, _rated(part), levels)


def _calibrate(criterion_id: str, model: str, checkpoint: str | None, rated: Rated, levels: list[float]) -> Calibration:
    two_levels = (levels[0], levels[1]) if len(levels) == 2 and levels[0] < levels[1] else None
    weight = judge_weight(rated)
    corrected = corrected_mean(rated, two_levels, weight)
    more_count, more_reason = ratings_to_halve(rated, corrected, weight)
    return Calibration(
        criterion_id=criterion_id,
        model=model,
        checkpoint=checkpoint,
        n=rated.n,
        unrated_count=int(rated.unrated.size),
        naive=naive_mean(rated),
        rated=rated_mean(rated, two_levels),
        corrected=corrected,
        rogan_gladen=rogan_gladen_mean(rated, two_levels)
        if two_levels
        else Estimate(None, None, None, f"it is of two levels, found {len(levels)}"),
        weight=weight,
        more_count=more_count,
        more_reason=more_reason,
        note=_shift_note(rated),
    )


def _rated(part: pa.Table) -> Rated:
    ratings, scores = (part.column(name).to_numpy() for name in ("rating", "score"))
    cases = part.column("case_id").combine_chunks().dictionary_encode().indices.to_numpy()
    is_rated = ~np.isnan(ratings)
    has_clusters = np.unique(cases).size < cases.size
    return Rated(
        ratings[is_rated],
        scores[is_rated],
        scores[~is_rated],
        cases[is_rated] if has_clusters else None,
        cases[~is_rated] if has_clusters else None,
    )


def _shift_note(rated: Rated) -> str | None:
    shift = selection_shift(rated)
    if shift is None or abs(shift) < SUSPICIOUS_SHIFT:
        return None
    return (
        f"the rated outputs are no random part: the judge gave them {rated.judged.mean():.3f} on average, "
        f"the others {rated.unrated.mean():.3f}, {abs(shift):.1f} standard errors apart"
    )


def _note(judged: pa.Table, rows: tuple[Calibration, ...]) -> str | None:
    if not judged.num_rows:
        return "no verdict of it is a judge's: there is nothing to calibrate"
    return None if rows else "nobody rated an output that the judge scored"


def _next_outputs(judged: pa.Table, count: int) -> tuple[Row, ...]:
    """Of several criteria an output's scores are averaged, and a rating of any of them counts."""
    if not count or not judged.num_rows:
        return ()
    keys = ["output_id", "model", "checkpoint", "case_id", "sample_index"]
    outputs = judged.group_by(keys, use_threads=False).aggregate([("score", "mean"), ("rating", "count")])
    outputs = outputs.sort_by("output_id").combine_chunks()
    names = pc.binary_join_element_wise(outputs.column("model"), pc.coalesce(outputs.column("checkpoint"), ""), "\n")
    is_rated = outputs.column("rating_count").to_numpy() > 0
    places = rate_next(outputs.column("score_mean").to_numpy(), is_rated, names.to_numpy(), count)
    chosen = outputs.take(places).drop_columns(["rating_count"])
    rows: list[Row] = chosen.rename_columns([*keys, "score"]).to_pylist()
    return tuple(rows)


def _slices(table: pa.Table, keys: tuple[str, ...]) -> Iterator[range]:
    """The runs of rows that share the keys, of a table ordered by them."""
    if not table.num_rows:
        return
    is_new: NDArray[np.bool_] = np.zeros(table.num_rows, dtype=np.bool_)
    is_new[0] = True
    for key in keys:
        codes = table.column(key).combine_chunks().dictionary_encode().indices.fill_null(-1).to_numpy()
        is_new[1:] |= np.diff(codes) != 0
    starts = [*np.flatnonzero(is_new).tolist(), table.num_rows]
    yield from (range(start, stop) for start, stop in itertools.pairwise(starts))
