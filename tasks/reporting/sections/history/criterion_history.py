"""Means of each criterion over time, largest change first."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gradebook.tasks.lake.rows import Row, model_name
from gradebook.tasks.reporting.drawing.charts import draw, labels_of, shortened
from gradebook.tasks.reporting.drawing.figures import Figure, table_of
from gradebook.tasks.reporting.sections.history.history_figures import Series, named, series_of
from gradebook.tasks.reporting.source.dates import Key, Point, Points
from gradebook.tasks.reporting.source.report_source import ReportSource
from gradebook.tasks.system.number_format import score_words, signed_words

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
    series, shown = series_of(source), criteria[:MOST_CRITERIA]
    labels = labels_of(shown)
    last = max(point.place for point in points.values())
    svg = draw(
        "criterion_history",
        {"rows": list(_rows(points, means, series, labels))},
        criteria=list(labels.values()),
        last=last + 0.5,
        size=DOT if last <= MANY_PLACES else SMALL_DOT,
        **named(series),
    )
    title = "Criteria over time" if len(shown) == len(criteria) else f"The {len(shown)} criteria that moved most"
    table = table_of(
        "Means of criteria in this run and before, largest change first",
        ("Criterion", "Model"),
        ("Mean", "Before", "Change"),
        ((m.criterion_id, m.name, score_words(m.mean), score_words(m.earlier), signed_words(m.change)) for m in moves),
    )
    return Figure("history-criteria", title, _reading(moves, len(criteria)), svg, table)


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
    others = {"cases"} if row["method"] in WITHOUT_JUDGE else {"cases", "judge"}
    if point.before is None or others & point.changes.keys():
        return None
    earlier = means.get((point.before, row["criterion_id"]))
    return earlier if earlier is not None and earlier["digest"] == row["digest"] is not None else None


def _rows(points: Points, means: Means, series: Sequence[Series], labels: Mapping[str, str]) -> Iterator[Row]:
    by_model = {each.model: each for each in series}
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
        }


def _reading(moves: Sequence[_Move], count: int) -> str:
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
