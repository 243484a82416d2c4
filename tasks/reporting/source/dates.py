"""The means of a run's models over the runs before it: which follows which, and what changed between the two."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from gradebook.tasks.lake.rows import Row
from gradebook.tasks.lake.sql import query
from gradebook.tasks.reporting.source.report_source import ReportSource

MOST_RUNS = 30

Key = tuple[str, str, str | None]  # a run, a model and its checkpoint

# By case, as comparisons pair outputs: the files of two checkpoints never hold the same bytes.
_CASES = """
select run_id, model, checkpoint, bit_xor(distinct hash(case_id)) as cases
from output_scores where list_contains(?, run_id) group by all
"""


@dataclass(frozen=True, slots=True)
class Moment:
    """A model's mean in a run. place: the run's on the axis, from 1; low, high: the mean's 95% interval.

    before: the key of the moment before it, None where there is none on the page; changes: what else is not the same as
    there, rubric, judge or cases, each in words: the two means can be compared where there is nothing.
    """

    run_id: str
    model: str
    checkpoint: str | None
    finished_at: datetime | None
    rubric_version: str
    judge: str | None
    n: int
    mean: float | None
    low: float | None
    high: float | None
    place: int
    before: Key | None = None
    changes: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> Key:
        """Which one it is."""
        return self.run_id, self.model, self.checkpoint

    @property
    def is_joined(self) -> bool:
        """Whether it can be compared with the one before it."""
        return self.before is not None and not self.changes


Moments = Mapping[Key, Moment]  # the oldest first


def read_moments(source: ReportSource) -> Moments:
    """The last moments of the run's models, up to this run; those of a run in the order of their steps."""
    run, models = source.summary.run, sorted({group.model for group in source.groups})
    of_rubric = {"rubric_id": run["rubric_id"], "version": run["version"]}
    rows = source.rows(query("reporting/history"), **of_rubric, models=models, most_runs=MOST_RUNS)
    cases = {_key(row): row["cases"] for row in source.rows(_CASES, sorted({row["run_id"] for row in rows}))}
    places, found = _places(rows), dict[Key, Moment]()
    followed: dict[tuple[str, str], Key] = {}  # by run and model: the checkpoint that the next one comes after
    for row in rows:
        moment = _moment(row, places[_key(row)])
        earlier, sibling = _previous(row), followed.get((moment.run_id, moment.model))
        if earlier is not None and earlier[2] == moment.checkpoint and earlier in found:
            before: Key | None = earlier
        else:
            before = sibling or (earlier if earlier in found else None)
            followed[moment.run_id, moment.model] = moment.key
        if before is not None:
            is_same_text = before[0] == moment.run_id or bool(row["is_same_rubric"])
            changes = _changes(found[before], moment, is_same_text, cases.get(before) == cases.get(moment.key))
            moment = replace(moment, before=before, changes=changes)
        found[moment.key] = moment
    return found


def _key(row: Row) -> Key:
    return row["run_id"], row["model"], row["checkpoint"]


def _previous(row: Row) -> Key | None:
    earlier = row["previous_run_id"]
    return None if earlier is None else (earlier, row["model"], row["previous_checkpoint"])


def _places(rows: Iterable[Row]) -> dict[Key, int]:
    """Where each stands on the axis: models side by side, the checkpoints of one run one after the other."""
    ranks: dict[tuple[str, str], int] = {}
    slots: dict[Key, tuple[int, int]] = {}
    for row in rows:
        rank = ranks[row["run_id"], row["model"]] = ranks.get((row["run_id"], row["model"]), 0) + 1
        slots[_key(row)] = (row["version"], rank)
    numbers = {slot: number for number, slot in enumerate(sorted(set(slots.values())), 1)}
    return {key: numbers[slot] for key, slot in slots.items()}


def _moment(row: Row, place: int) -> Moment:
    return Moment(
        row["run_id"],
        row["model"],
        row["checkpoint"],
        row["finished_at"],
        row["rubric_version"],
        row["judge"],
        row["n"],
        row["mean"],
        row["ci_low"],
        row["ci_high"],
        place,
    )


def _changes(before: Moment, now: Moment, is_same_text: bool, is_same_cases: bool) -> dict[str, str]:
    found = {}
    if not is_same_text:
        found["rubric"] = f"the rubric from {before.rubric_version} to {now.rubric_version}"
    if before.judge != now.judge:
        found["judge"] = f"the judge from {before.judge or 'none'} to {now.judge or 'none'}"
    if not is_same_cases:
        found["cases"] = "the cases"
    return found


def stretch(moments: Moments, last: Moment) -> Sequence[Moment]:
    """The moments that one can be compared with, the oldest first, and itself."""
    found = [last]
    while found[-1].is_joined and found[-1].before is not None:
        found.append(moments[found[-1].before])
    return found[::-1]


def read_criterion_means(source: ReportSource, moments: Moments) -> tuple[Row, ...]:
    """The rows of criterion_means in the runs of these moments."""
    run_ids = sorted({moment.run_id for moment in moments.values()})
    return source.rows(query("reporting/criterion_means"), run_ids=run_ids)
