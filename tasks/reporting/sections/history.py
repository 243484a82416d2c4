"""Section "Over time": scores of this and earlier runs, by model and criterion, with the changes between two points."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from markupsafe import Markup

from gradebook.rubrics.text.tables import Table, table_of
from gradebook.rubrics.text.wording import counted, difference_interval_words, interval_words, score_words, signed_words
from gradebook.tasks.lake.rows import Row, model_name
from gradebook.tasks.lake.sql import query
from gradebook.tasks.reporting.charts import Colour, Figure, distinct_labels, draw, labels_of, run_link, shortened
from gradebook.tasks.reporting.report_source import MOST_DRAWN, ReportSource

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
    linked_mean: float | None = (
        None  # the previous mean as this rubric version would give it, by `gradebook rubric link`
    )
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
    numbers, points = _axis_numbers(rows), dict[Key, Point]()
    followed: dict[tuple[str, str], Key] = {}  # latest checkpoint so far, by run and model
    for row in rows:
        point = _point(row, numbers[_key(row)])
        earlier, sibling = _previous(row), followed.get((point.run_id, point.model))
        if earlier is not None and earlier[2] == point.checkpoint and earlier in points:
            before: Key | None = earlier
        else:
            before = sibling or (earlier if earlier in points else None)
            followed[point.run_id, point.model] = point.key
        if before is not None:
            is_same_text = before[0] == point.run_id or bool(row["is_same_rubric"])
            changes = _changes(points[before], point, is_same_text, cases.get(before) == cases.get(point.key))
            point = _linked(replace(point, before=before, changes=changes), points[before], links)
        points[point.key] = point
    return points


def _key(row: Row) -> Key:
    return row["run_id"], row["model"], row["checkpoint"]


def _previous(row: Row) -> Key | None:
    earlier = row["previous_run_id"]
    return None if earlier is None else (earlier, row["model"], row["previous_checkpoint"])


def _axis_numbers(rows: Iterable[Row]) -> dict[Key, int]:
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
    changes = {}
    if not is_same_text:
        changes["rubric"] = f"the rubric from {before.rubric_version} to {now.rubric_version}"
    if before.judge != now.judge:
        changes["judge"] = f"the judge from {before.judge or 'none'} to {now.judge or 'none'}"
    elif None not in (before.judge_epoch, now.judge_epoch) and before.judge_epoch != now.judge_epoch:
        changes["judge"] = f"the judge itself (epoch {before.judge_epoch} to {now.judge_epoch})"
    stopped_at = now.stopped_at if now.stopped_at is not None else before.stopped_at
    if stopped_at is not None:
        whose = "" if now.stopped_at is not None else "the run before "
        changes["cases"] = f"the cases ({whose}stopped after {stopped_at:,})"
    elif not is_same_cases:
        changes["cases"] = "the cases"
    return changes


def _linked(point: Point, before: Point, links: Mapping[tuple[str, str], Row]) -> Point:
    """Point with the link of its rubric version to the one before, if nothing but the version changed."""
    link = links.get((before.rubric_version, point.rubric_version))
    if link is None or set(point.changes) != {"rubric"} or before.mean is None:
        return point
    slope, intercept = link["slope"], link["intercept"]
    expected = before.mean + link["offset_mean"] if slope is None else intercept + slope * before.mean
    interval = difference_interval_words(link["offset_low"], link["offset_high"])
    change = f"{point.changes['rubric']} (linked: {signed_words(link['offset_mean'])}, {interval}, on the same outputs)"
    return replace(point, linked_mean=expected, changes={"rubric": change})


def comparable_series(points: Points, last: Point) -> Sequence[Point]:
    """Unbroken series of comparable points that ends with `last`, oldest first."""
    path = [last]
    while path[-1].is_joined and path[-1].before is not None:
        path.append(points[path[-1].before])
    return path[::-1]


def read_criterion_means(source: ReportSource, points: Points) -> tuple[Row, ...]:
    """Read the rows of criterion_means for the runs of these points."""
    run_ids = sorted({point.run_id for point in points.values()})
    return source.rows(query("reporting/criterion_means"), run_ids=run_ids)


MOST_LABELS = 5
LABEL_LETTERS = 12
DODGE = 0.4  # width over which the models of one run are spread, as a part of a place


@dataclass(frozen=True, slots=True)
class Series:
    """Line of a model. offset: horizontal shift of its dots, so that dots of one run do not hide each other."""

    model: str
    label: str
    colour: Colour
    offset: float


def series_of(source: ReportSource) -> tuple[Series, ...]:
    """Lines of the models that a picture has room for, highest mean first."""
    colours: dict[str, Colour] = {}
    for group in source.drawn_groups:
        colours.setdefault(group.model, group.colour)
    labels, middle = distinct_labels(colours), (len(colours) - 1) / 2
    step = DODGE / max(len(colours), 2)
    return tuple(
        Series(model, label, colour, (number - middle) * step)
        for number, (label, (model, colour)) in enumerate(zip(labels, colours.items(), strict=True))
    )


def draw_history(source: ReportSource, points: Points) -> Markup | None:
    """Draw the means over time; None if no run has one."""
    series = series_of(source)
    by_model = {line.model: line for line in series}
    drawn = [point for point in points.values() if point.mean is not None and point.model in by_model]
    if not drawn:
        return None
    present = [point.place for point in points.values() if point.run_id == source.run_id]
    last = max(point.place for point in points.values()) + 0.5
    return draw(
        "history",
        {
            "rows": [_row(points, point, by_model) for point in drawn],
            "breaks": list(_breaks(points)),
            "labels": _labels(points),
            "present": [{"from": min(present) - 0.5, "to": max(present) + 0.5}],
        },
        last=last,
        **series_values(series),
    )


def series_values(series: Sequence[Series]) -> Row:
    """Values for `$name` in charts of these lines."""
    return {
        "series": [line.label for line in series],
        "colours": [line.colour for line in series],
        "legend": {"title": None, "symbolOpacity": 1} if len(series) > 1 else None,
    }


def _row(points: Points, point: Point, by_model: dict[str, Series]) -> Row:
    line = by_model[point.model]
    before = points[point.before] if point.is_joined and point.before is not None else None
    linked = points[point.before] if point.linked_mean is not None and point.before is not None else None
    interval = "" if point.low is None else f", 95% interval {interval_words(point.low, point.high)}"
    stopped = "" if point.stopped_at is None else f", stopped after {counted(point.stopped_at, 'case')}"
    checkpoint = "" if point.checkpoint is None else f" @ {shortened(point.checkpoint)}"
    return {
        "series": line.label,
        "place": point.place + line.offset,
        "mean": point.mean,
        "low": point.low,
        "high": point.high,
        "place_before": None if before is None else before.place + line.offset,
        "mean_before": None if before is None else before.mean,
        "place_linked": None if linked is None else linked.place + line.offset,
        "mean_linked": point.linked_mean,
        "tip": f"{line.label}{checkpoint} in {shortened(point.run_id)}: {score_words(point.mean)}{interval}{stopped}",
        "href": run_link(point.run_id),
    }


def _breaks(points: Points) -> Iterator[Row]:
    """Marks between two runs at which something else changed, for any of the models."""
    changes_by_place: dict[int, dict[str, None]] = {}
    for point in points.values():
        if point.changes:
            changes_by_place.setdefault(point.place, {}).update(dict.fromkeys(point.changes.values()))
    for place, changes in changes_by_place.items():
        yield {"place": place - 0.5, "tip": f"not comparable: {'; '.join(map(shortened, changes))}"}


def _labels(points: Points) -> list[Row]:
    """Labels of the axis: the first place, the last one and some between, each as lines of text."""
    by_place: dict[int, list[Point]] = {}
    for point in points.values():
        by_place.setdefault(point.place, []).append(point)
    last = max(by_place)
    count = min(MOST_LABELS, last)
    places = sorted({1 + round(number * (last - 1) / max(count - 1, 1)) for number in range(count)})
    return [{"place": place, "lines": _label_lines(by_place[place])} for place in places if place in by_place]


def _label_lines(together: Sequence[Point]) -> list[str]:
    """Lines of a label: the checkpoint if all points have the same one, else the time; then the day."""
    finished_at, checkpoints = together[0].finished_at, {point.checkpoint for point in together}
    checkpoint = checkpoints.pop() if len(checkpoints) == 1 else None
    day = "" if finished_at is None else f"{finished_at.day} {finished_at:%b}"
    time = "" if finished_at is None else f"{finished_at:%H:%M}"
    return [shortened(checkpoint, LABEL_LETTERS) if checkpoint else time, day]


MOST_CRITERIA = 12
LEAST_CHANGE = 0.0005  # smallest change of a mean that shows in three digits
WITHOUT_JUDGE = ("check", "schema")
DOT, SMALL_DOT, MANY_PLACES = 26, 12, 12

Means = Mapping[tuple[Key, str], Row]  # by point and criterion


@dataclass(frozen=True, slots=True)
class _Move:
    """Mean of a criterion in this run and in the run before. earlier: None if the two are not comparable."""

    name: str  # of the model
    criterion_id: str
    mean: float
    earlier: float | None

    @property
    def change(self) -> float | None:
        return None if self.earlier is None else self.mean - self.earlier

    @property
    def size(self) -> float:
        return abs(self.change or 0.0)


def criterion_figure(source: ReportSource, points: Points, rows: Sequence[Row]) -> Figure | None:
    """Draw one small chart per criterion; None if no criterion has a mean in this run."""
    means = {((row["run_id"], row["model"], row["checkpoint"]), row["criterion_id"]): row for row in rows}
    moves = sorted(_moves(source, points, means), key=lambda move: -move.size)
    criteria = list(dict.fromkeys(move.criterion_id for move in moves))
    if not criteria:
        return None
    series, drawn = series_of(source), criteria[:MOST_CRITERIA]
    labels = labels_of(drawn)
    last = max(point.place for point in points.values())
    svg = draw(
        "criterion_history",
        {"rows": list(_rows(points, means, series, labels))},
        criteria=list(labels.values()),
        last=last + 0.5,
        size=DOT if last <= MANY_PLACES else SMALL_DOT,
        **series_values(series),
    )
    title = "Criteria over time" if len(drawn) == len(criteria) else f"The {len(drawn)} criteria that moved most"
    table = table_of(
        "Means of criteria in this run and before, largest change first",
        ("Criterion", "Model"),
        ("Mean", "Before", "Change"),
        ((m.criterion_id, m.name, score_words(m.mean), score_words(m.earlier), signed_words(m.change)) for m in moves),
    )
    return Figure("history-criteria", title, _criterion_sentence(moves, len(criteria)), svg, table)


def _moves(source: ReportSource, points: Points, means: Means) -> Iterator[_Move]:
    """Moves of each criterion and model of this run, in the rubric's order."""
    for criterion in source.criteria:
        for group in source.groups:
            point = points[source.run_id, group.model, group.checkpoint]
            row = means.get((point.key, criterion["criterion_id"]))
            if row is not None and row["mean"] is not None:
                earlier = _before(means, point, row)
                yield _Move(model_name(row), row["criterion_id"], row["mean"], earlier["mean"] if earlier else None)


def _before(means: Means, point: Point, row: Row) -> Row | None:
    """Criterion's row of the previous point, if comparable: same text, same cases and, if judged, same judge."""
    blocking = {"cases"} if row["method"] in WITHOUT_JUDGE else {"cases", "judge"}
    if point.before is None or blocking & point.changes.keys():
        return None
    earlier = means.get((point.before, row["criterion_id"]))
    return earlier if earlier is not None and earlier["digest"] == row["digest"] is not None else None


def _rows(points: Points, means: Means, series: Sequence[Series], labels: Mapping[str, str]) -> Iterator[Row]:
    by_model = {drawn_line.model: drawn_line for drawn_line in series}
    for (key, criterion_id), row in means.items():
        if key not in points or key[1] not in by_model or criterion_id not in labels or row["mean"] is None:
            continue
        point, line = points[key], by_model[key[1]]
        earlier = _before(means, point, row)
        yield {
            "criterion": labels[criterion_id],
            "series": line.label,
            "place": point.place,
            "mean": row["mean"],
            "place_before": points[point.before].place if earlier is not None and point.before else None,
            "mean_before": None if earlier is None else earlier["mean"],
            "tip": f"{labels[criterion_id]}, {line.label} in {shortened(key[0])}: {score_words(row['mean'])}",
            "href": run_link(key[0]),
        }


def _criterion_sentence(moves: Sequence[_Move], count: int) -> str:
    """Sentence with the criterion that changed most since the run before."""
    first = moves[0]
    if all(move.change is None for move in moves):
        return "No criterion can be compared with the run before."
    if first.change is None or first.size < LEAST_CHANGE:
        return "No criterion's mean moved since the run before."
    of = "" if count == 1 else f" of {count} criteria"
    way = "rose" if first.change > 0 else "fell"
    start, end = score_words(first.earlier), score_words(first.mean)
    # Means that differ by 0.0007 may have the same three digits.
    path = f"by {score_words(first.size)} to {end}" if start == end else f"from {start} to {end}"
    return f"Since the run before, {first.criterion_id} moved most{of}: for {first.name} it {way} {path}."


MOST_NAMED = 3  # models in a sentence


@dataclass(frozen=True, slots=True)
class HistoryContents:
    """Charts of the means over time: overall and by criterion."""

    figures: tuple[Figure, ...]


def read_history(source: ReportSource) -> HistoryContents | None:
    """Read the history of the run's models; None if no model has an earlier point."""
    points = read_points(source)
    if not any(point.before for point in points.values()):
        return None
    svg = draw_history(source, points)
    figures = (
        None
        if svg is None
        else Figure("history-means", "Mean score over time", _means_sentence(source, points), svg, _table(points)),
        criterion_figure(source, points, read_criterion_means(source, points)),
    )
    return HistoryContents(tuple(figure for figure in figures if figure is not None))


def _means_sentence(source: ReportSource, points: Points) -> str:
    """Sentences on the changes of the models with the highest means, and on the breaks between comparable runs."""
    present = [points[source.run_id, group.model, group.checkpoint] for group in source.groups]
    scored = [point for point in present if point.mean is not None]
    sentences = [
        _path_words(comparable_series(points, point), _is_one_checkpoint(scored, point))
        for point in scored[:MOST_NAMED]
    ]
    if len(scored) > MOST_NAMED:
        sentences.append(f"The table has {len(scored) - MOST_NAMED:,} more.")
    if len(series_of(source)) < len({group.model for group in source.groups}):
        sentences.append(f"The picture shows the {MOST_DRAWN} models with the highest means.")
    return " ".join([*sentences, *_break_words(points)]) or "No run has a mean."


def _is_one_checkpoint(points: Sequence[Point], wanted: Point) -> bool:
    """Whether the run has only one checkpoint of the model."""
    return sum(point.model == wanted.model for point in points) == 1


def _path_words(path: Sequence[Point], is_one_checkpoint: bool) -> str:
    """Sentence on a model's change from its oldest comparable mean to its last."""
    last, scored = path[-1], [point for point in path if point.mean is not None]
    name = last.model if is_one_checkpoint or last.checkpoint is None else f"{last.model} @ {last.checkpoint}"
    mean = score_words(last.mean)
    if len(scored) < 2 or last.mean is None:
        return f"{name} has a mean of {mean}; no earlier run is comparable."
    first, before = scored[0], scored[-2]
    change, begin = last.mean - (first.mean or 0.0), score_words(first.mean)
    is_still = begin == mean or abs(change) < LEAST_CHANGE
    way = "stayed at" if is_still else "rose from" if change > 0 else "fell from"
    sentence = f"{name} {way} {begin} ({_when(first, last)})"
    sentence += "" if is_still else f" to {mean} ({_when(last, first)})"
    if len(scored) == 2:
        return f"{sentence}."
    return f"{sentence}; the last change is {signed_words(last.mean - (before.mean or 0.0))}."


def _when(point: Point, other: Point) -> str:
    """Name of a point: its run, or its checkpoint if both points are of one run."""
    return point.run_id if point.run_id != other.run_id else point.checkpoint or point.run_id


def _break_words(points: Points) -> Iterator[str]:
    """Sentence on the breaks, newest first; a change shared by several models appears once."""
    newest_first = reversed(list(points.values()))
    breaks = dict.fromkeys((point.run_id, _change_words(point)) for point in newest_first if point.changes)
    break_words = [f"{words} at {run_id}" for run_id, words in list(breaks)[:MOST_NAMED]]
    if break_words:
        more = f", and at {len(breaks) - MOST_NAMED} more" if len(breaks) > MOST_NAMED else ""
        yield f"Not joined where something else changed: {'; '.join(break_words)}{more}."


def _change_words(point: Point) -> str:
    return " and ".join(point.changes.values())


def _table(points: Points) -> Table:
    """Table of all points, newest first."""
    return table_of(
        "Means over time, newest first; change: since the run before, if the two are comparable",
        ("Run", "Finished, UTC", "Model", "Checkpoint", "Rubric", "Judge", "What else changed"),
        ("Mean", "95% interval", "Change", "Scored"),
        (_cells(points, point) for point in reversed(list(points.values()))),
    )


def _cells(points: Points, point: Point) -> tuple[str, ...]:
    earlier = None if point.before is None or point.changes else points[point.before].mean
    change = None if point.mean is None or earlier is None else point.mean - earlier
    interval = interval_words(point.low, point.high)
    return (
        point.run_id,
        "" if point.finished_at is None else point.finished_at.strftime("%Y-%m-%d %H:%M"),
        point.model,
        point.checkpoint or "",
        point.rubric_version,
        point.judge or "none",
        _change_words(point),
        score_words(point.mean),
        interval,
        signed_words(change),
        f"{point.n:,}",
    )
