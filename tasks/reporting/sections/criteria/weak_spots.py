"""Weak spots: slices of the outputs that do worse than the rest beyond chance, largest possible gain first."""

from collections.abc import Mapping
from dataclasses import dataclass

from gradebook.rubrics.model.counts import counted
from gradebook.tasks.lake.rows import Row, model_name
from gradebook.tasks.reporting.drawing.charts import shortened
from gradebook.tasks.reporting.drawing.figures import anchor_of
from gradebook.tasks.reporting.source.report_source import ReportSource
from gradebook.tasks.system.number_format import interval_words, score_words, signed_words

MOST_SPOTS = 20
MOST_P = 0.05
_SPOTS = f"""
select * exclude (run_id) from weak_spots where run_id = ? and p_adjusted <= {MOST_P}
order by gain desc nulls last, lift, criterion_id, model, checkpoint, slice_key, slice_value limit {MOST_SPOTS}
"""
_CASES = "select output_id, case_id from output_scores where run_id = ? and list_contains(?, output_id)"
_COUNTS = f"""
select count(*) filter (p_adjusted <= {MOST_P}) as spot_count, max(searched_count) as searched_count
from weak_spots where run_id = ?
"""


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
    """Weak spots with the largest possible gains, perhaps none, and sentences about the search."""

    reading: str
    headings: tuple[str, ...]
    spots: tuple[WeakSpot, ...]


def read_weak_spots(source: ReportSource) -> WeakSpots | None:
    """Read the run's weak spots; None if nothing was searched, or by a version that did not test what it found."""
    (counts,) = source.rows(_COUNTS, source.run_id)
    if counts["searched_count"] is None:
        return None
    rows = source.rows(_SPOTS, source.run_id)
    headings = ("Outputs", "Mean", "Interval", "Elsewhere", "Difference", "Estimate", "Possible gain")
    ids = [output_id for row in rows for output_id in row["example_ids"] or ()]
    cases = {row["output_id"]: row["case_id"] for row in source.rows(_CASES, source.run_id, ids)}
    reading = _reading(rows[0] if rows else None, counts["spot_count"], counts["searched_count"])
    return WeakSpots(reading, headings, tuple(_spot(row, cases) for row in rows))


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
            signed_words(row["shrunk_lift"]),
            "gate" if row["gain"] is None else signed_words(row["gain"]),
        ),
        tuple((anchor_of(name), shortened(cases[name])) for name in row["example_ids"] or ()),
    )


def _reading(row: Row | None, count: int, searched_count: int) -> str:
    """Sentences with the meaning of the first spot, if any, and the size of the search."""
    searched = f"{counted(searched_count, 'combination')} of a slice and a criterion"
    if row is None:
        return f"No slice does worse than the other outputs beyond chance. {searched} were compared."
    sentence = (
        f"{model_name(row)} has a mean of {score_words(row['mean'])} on {row['criterion_id']} where {_slice_of(row)}, "
        f"and {score_words(row['rest_mean'])} elsewhere"
    )
    if row["gain"] is not None:
        sentence += f"; without the estimated difference the model's mean would be {score_words(row['gain'])} higher"
    spots = f" The table shows the first {MOST_SPOTS}." if count > MOST_SPOTS else ""
    return (
        f"{sentence}. {searched} were compared, and {count:,} found worse beyond chance: at most 5% of such findings "
        f"are due to chance on average. The estimates and intervals allow for the choice.{spots}"
    )


def _slice_of(row: Row) -> str:
    return f"{shortened(row['slice_key'])} is {shortened(row['slice_value'])}"
