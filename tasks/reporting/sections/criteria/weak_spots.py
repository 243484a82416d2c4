"""Weak spots: slices of the outputs with lower scores than the rest, largest possible gain first."""

from collections.abc import Mapping
from dataclasses import dataclass

from gradebook.tasks.lake.rows import Row, model_name
from gradebook.tasks.reporting.drawing.charts import shortened
from gradebook.tasks.reporting.drawing.figures import anchor_of
from gradebook.tasks.reporting.source.report_source import ReportSource
from gradebook.tasks.system.number_format import counted, interval_words, score_words, signed_words

MOST_SPOTS = 20
_SPOTS = f"""
select * exclude (run_id) from weak_spots where run_id = ?
order by gain desc nulls last, lift, criterion_id, model, checkpoint, slice_key, slice_value limit {MOST_SPOTS}
"""
_CASES = "select output_id, case_id from output_scores where run_id = ? and list_contains(?, output_id)"
_COUNT = "select count(*) as spot_count from weak_spots where run_id = ?"


@dataclass(frozen=True, slots=True)
class WeakSpot:
    """Slice of a model's outputs on a criterion. cells: numbers as text; examples: pairs of anchor and case."""

    name: str
    criterion_id: str
    place: str
    cells: tuple[str, ...]
    examples: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class WeakSpots:
    """Weak spots with the largest possible gains, and sentences about them."""

    reading: str
    headings: tuple[str, ...]
    spots: tuple[WeakSpot, ...]


def read_weak_spots(source: ReportSource) -> WeakSpots | None:
    """Read the run's weak spots; None if it has none."""
    rows = source.rows(_SPOTS, source.run_id)
    if not rows:
        return None
    headings = ("Outputs", "Mean", "95% interval", "Elsewhere", "Difference", "Possible gain")
    ids = [output_id for row in rows for output_id in row["example_ids"] or ()]
    cases = {row["output_id"]: row["case_id"] for row in source.rows(_CASES, source.run_id, ids)}
    (found,) = source.rows(_COUNT, source.run_id)
    return WeakSpots(_reading(rows[0], found["spot_count"]), headings, tuple(_spot(row, cases) for row in rows))


def _spot(row: Row, cases: Mapping[str, str]) -> WeakSpot:
    return WeakSpot(
        model_name(row),
        row["criterion_id"],
        _slice_of(row),
        (
            f"{row['n']:,}",
            score_words(row["mean"]),
            interval_words(row["ci_low"], row["ci_high"]),
            score_words(row["rest_mean"]),
            signed_words(row["lift"]),
            "gate" if row["gain"] is None else signed_words(row["gain"]),
        ),
        tuple((anchor_of(name), shortened(cases[name])) for name in row["example_ids"] or ()),
    )


def _reading(row: Row, count: int) -> str:
    """Sentences with the meaning of the first spot and the number of spots."""
    sentence = (
        f"{model_name(row)} has a mean of {score_words(row['mean'])} on {row['criterion_id']} where {_slice_of(row)}, "
        f"and {score_words(row['rest_mean'])} elsewhere"
    )
    if row["gain"] is not None:
        sentence += f"; at the level of the other outputs it would add {score_words(row['gain'])} to the model's mean"
    spots = f" The table shows the first {MOST_SPOTS} of {count:,}." if count > MOST_SPOTS else ""
    slices = counted(count, "slice")
    return f"{sentence}. Some of {slices} with lower scores may be due to chance: see the intervals.{spots}"


def _slice_of(row: Row) -> str:
    return f"{shortened(row['slice_key'])} is {shortened(row['slice_value'])}"
