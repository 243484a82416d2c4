"""Points of a history: means of a run's models in this and earlier runs, with the changes between two points."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from gradebook.tasks.lake.rows import Row
from gradebook.tasks.lake.sql import query
from gradebook.tasks.reporting.source.report_source import ReportSource
from gradebook.tasks.system.number_format import difference_interval_words, signed_words

MOST_RUNS = 30

Key = tuple[str, str, str | None]  # run, model, checkpoint

# By case, as comparisons pair outputs: the files of two checkpoints are never the same bytes.
_CASES = """
select run_id, model, checkpoint, bit_xor(distinct hash(case_id)) as cases
from output_scores where list_contains(?, run_id) group by all
"""
_LINKS = """
select * from rubric_links where rubric_id = ? and scope = 'overall' and (judge is null or judge = ?) order by made_at
"""


@dataclass(frozen=True, slots=True)
class Point:
    """Mean of a model in a run. place: the run's place on the axis, from 1; low, high: 95% interval of the mean.

    before: key of the previous point, None if there is none on the page. changes: differences in rubric, judge or cases
    from the previous point, as text; the two means are comparable if it is empty. stopped_at: cases of a stopped run.
    """

    run_id: str
    model: str
    checkpoint: str | None
    finished_at: datetime | None
    rubric_version: str
    judge: str | None
    judge_epoch: int | None
    stopped_at: int | None
    n: int
    mean: float | None
    low: float | None
    high: float | None
    place: int
    before: Key | None = None
    linked_mean: float | None = None  # the previous mean as this rubric version would give it, by `gradebook link`
    changes: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> Key:
        return self.run_id, self.model, self.checkpoint

    @property
    def is_joined(self) -> bool:
        """Whether it is comparable with the previous point."""
        return self.before is not None and not self.changes


Points = Mapping[Key, Point]  # oldest first


def read_points(source: ReportSource) -> Points:
    """Read the last points of the run's models, up to this run; points of one run are in the order of their steps."""
    run, models = source.summary.run, sorted({group.model for group in source.groups})
    of_rubric = {"rubric_id": run["rubric_id"], "version": run["version"]}
    rows = source.rows(query("reporting/history"), **of_rubric, models=models, most_runs=MOST_RUNS)
    cases = {_key(row): row["cases"] for row in source.rows(_CASES, sorted({row["run_id"] for row in rows}))}
    links = {
        (row["old_version"], row["new_version"]): row for row in source.rows(_LINKS, run["rubric_id"], run["judge"])
    }
    places, found = _places(rows), dict[Key, Point]()
    followed: dict[tuple[str, str], Key] = {}  # latest checkpoint so far, by run and model
    for row in rows:
        point = _point(row, places[_key(row)])
        earlier, sibling = _previous(row), followed.get((point.run_id, point.model))
        if earlier is not None and earlier[2] == point.checkpoint and earlier in found:
            before: Key | None = earlier
        else:
            before = sibling or (earlier if earlier in found else None)
            followed[point.run_id, point.model] = point.key
        if before is not None:
            is_same_text = before[0] == point.run_id or bool(row["is_same_rubric"])
            changes = _changes(found[before], point, is_same_text, cases.get(before) == cases.get(point.key))
            point = _linked(replace(point, before=before, changes=changes), found[before], links)
        found[point.key] = point
    return found


def _key(row: Row) -> Key:
    return row["run_id"], row["model"], row["checkpoint"]


def _previous(row: Row) -> Key | None:
    earlier = row["previous_run_id"]
    return None if earlier is None else (earlier, row["model"], row["previous_checkpoint"])


def _places(rows: Iterable[Row]) -> dict[Key, int]:
    """Place of each point on the axis: models of a run share places, its checkpoints follow each other."""
    ranks: dict[tuple[str, str], int] = {}
    slots: dict[Key, tuple[int, int]] = {}
    for row in rows:
        rank = ranks[row["run_id"], row["model"]] = ranks.get((row["run_id"], row["model"]), 0) + 1
        slots[_key(row)] = (row["version"], rank)
    numbers = {slot: number for number, slot in enumerate(sorted(set(slots.values())), 1)}
    return {key: numbers[slot] for key, slot in slots.items()}


def _point(row: Row, place: int) -> Point:
    return Point(
        row["run_id"],
        row["model"],
        row["checkpoint"],
        row["finished_at"],
        row["rubric_version"],
        row["judge"],
        row["judge_epoch"],
        row["stopped_at"],
        row["n"],
        row["mean"],
        row["ci_low"],
        row["ci_high"],
        place,
    )


def _changes(before: Point, now: Point, is_same_text: bool, is_same_cases: bool) -> dict[str, str]:
    found = {}
    if not is_same_text:
        found["rubric"] = f"the rubric from {before.rubric_version} to {now.rubric_version}"
    if before.judge != now.judge:
        found["judge"] = f"the judge from {before.judge or 'none'} to {now.judge or 'none'}"
    elif None not in (before.judge_epoch, now.judge_epoch) and before.judge_epoch != now.judge_epoch:
        found["judge"] = f"the judge itself (epoch {before.judge_epoch} to {now.judge_epoch})"
    stopped_at = now.stopped_at if now.stopped_at is not None else before.stopped_at
    if stopped_at is not None:
        whose = "" if now.stopped_at is not None else "the run before "
        found["cases"] = f"the cases ({whose}stopped after {stopped_at:,})"
    elif not is_same_cases:
        found["cases"] = "the cases"
    return found


def _linked(point: Point, before: Point, links: Mapping[tuple[str, str], Row]) -> Point:
    """Point with the link of its rubric version to the one before, if nothing but the version changed."""
    link = links.get((before.rubric_version, point.rubric_version))
    if link is None or set(point.changes) != {"rubric"} or before.mean is None:
        return point
    slope, intercept = link["slope"], link["intercept"]
    expected = before.mean + link["offset_mean"] if slope is None else intercept + slope * before.mean
    interval = difference_interval_words(link["offset_low"], link["offset_high"])
    words = f"{point.changes['rubric']} (linked: {signed_words(link['offset_mean'])}, {interval}, on the same outputs)"
    return replace(point, linked_mean=expected, changes={"rubric": words})


def stretch(points: Points, last: Point) -> Sequence[Point]:
    """Unbroken series of comparable points that ends with `last`, oldest first."""
    found = [last]
    while found[-1].is_joined and found[-1].before is not None:
        found.append(points[found[-1].before])
    return found[::-1]


def read_criterion_means(source: ReportSource, points: Points) -> tuple[Row, ...]:
    """Read the rows of criterion_means for the runs of these points."""
    run_ids = sorted({point.run_id for point in points.values()})
    return source.rows(query("reporting/criterion_means"), run_ids=run_ids)
