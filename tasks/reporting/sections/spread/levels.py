"""Detailed view of a category: shares of outputs at each level of its criteria."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gradebook.rubrics.model.counts import counted
from gradebook.tasks.lake.rows import Row
from gradebook.tasks.lake.sql import query
from gradebook.tasks.reporting.drawing.figures import Figure, table_of
from gradebook.tasks.reporting.sections.spread.box_plots import category_names
from gradebook.tasks.reporting.sections.spread.slices import Scale, Segment, read_scale
from gradebook.tasks.reporting.source.report_source import Group, ReportSource
from gradebook.tasks.reporting.source.rows_layout import Lanes, by_group, lane_names, short_names
from gradebook.tasks.system.number_format import rate_words, share_words

UNSCORED = "unscored"
MOST_LANES = 40  # in one picture
MOST_OWN = 12  # per-case criteria
PLOT_UNITS = 210
LETTER_UNITS = 5.6
FAINTEST, STRONGEST = 0.06, 0.5  # strength of the colour at the lowest and at the highest level
_CATEGORIES = """
select category, sum(mean * n) / sum(n) as mean from category_scores where run_id = ? and n > 0 group by category
"""


@dataclass(frozen=True, slots=True)
class CategoryLevels:
    """Detailed view of one category. name: display name; figure: levels of its criteria."""

    name: str
    figure: Figure


@dataclass(frozen=True, slots=True)
class _Shares:
    """Levels of a model's outputs on a criterion. row: of criterion_scores; counts: scored outputs by segment."""

    row: Row
    counts: Mapping[Segment, int]

    @property
    def unscored(self) -> int:
        return int(self.row["output_count"] - self.row["n"])

    @property
    def parts(self) -> Iterator[tuple[str, int]]:
        """Name and count of each non-empty part, unscored outputs last."""
        yield from ((segment.name, count) for segment, count in self.counts.items() if count)
        if self.unscored:
            yield UNSCORED, self.unscored

    def share(self, count: int) -> float:
        return count / int(self.row["output_count"])


@dataclass(frozen=True, slots=True)
class _Criterion:
    """Criterion with its levels by model. is_penalty: whether a high score is bad."""

    id: str
    category: str
    scale: Scale
    is_penalty: bool
    shares: Mapping[Group, _Shares]

    @property
    def badness(self) -> float:
        """Distance of the mean over all models' outputs from the best score; -1 without scores."""
        scored = [shares.row for shares in self.shares.values() if shares.row["n"]]
        if not scored:
            return -1.0
        mean = float(sum(row["mean"] * row["n"] for row in scored) / sum(row["n"] for row in scored))
        return mean if self.is_penalty else 1 - mean


def read_levels(source: ReportSource) -> tuple[CategoryLevels, ...]:
    """Read the categories, weakest first, those without a score last."""
    criteria = list(_read_criteria(source))
    means = {row["category"]: row["mean"] for row in source.rows(_CATEGORIES, source.run_id)}
    names = category_names(source)
    categories = sorted({each.category for each in criteria}, key=lambda name: (means.get(name, float("inf")), name))
    return tuple(
        CategoryLevels(names.get(name, name), _figure(source, number, names.get(name, name), found))
        for number, name in enumerate(categories, start=1)
        if (found := sorted((c for c in criteria if c.category == name), key=lambda c: (-c.badness, c.id)))
    )


def left_out_words(source: ReportSource) -> str | None:
    """Sentence with the number of per-case criteria that are not shown; None if all are shown."""
    count = len(_own_ids(source)) - MOST_OWN
    more = counted(count, "more per-case criterion is", "more per-case criteria are")
    return f"{more} not shown." if count > 0 else None


def _own_ids(source: ReportSource) -> list[str]:
    """Ids of the per-case criteria, those of the most outputs first."""
    known = {row["criterion_id"] for row in source.criteria}
    counts: dict[str, int] = {}
    for row in source.summary.criteria:
        if row["criterion_id"] not in known:
            counts[row["criterion_id"]] = counts.get(row["criterion_id"], 0) + row["output_count"]
    return sorted(counts, key=lambda name: (-counts[name], name))


def _read_criteria(source: ReportSource) -> Iterator[_Criterion]:
    shown = {*(row["criterion_id"] for row in source.criteria), *_own_ids(source)[:MOST_OWN]}
    scores: dict[str, list[Row]] = {}
    for row in source.summary.criteria:
        if row["criterion_id"] in shown:
            scores.setdefault(row["criterion_id"], []).append(row)
    counts: dict[str, list[Row]] = {name: [] for name in scores}
    for row in source.rows(query("reporting/level_counts"), run_id=source.run_id, criterion_ids=list(scores)):
        counts[row["criterion_id"]].append(row)
    groups = source.groups
    for name, rows in scores.items():
        of_groups: dict[Group, list[Row]] = {group: [] for group in groups}
        for each in counts[name]:
            of_groups[source.group_of(each)].append(each)
        scale = read_scale([level for level in source.levels if level["criterion_id"] == name], counts[name])
        shares = {group: _Shares(row, scale.counts(of_groups[group])) for group, row in by_group(source, rows).items()}
        yield _Criterion(name, rows[0]["category"] or "", scale, (rows[0]["weight"] or 0) < 0, shares)


def _figure(source: ReportSource, number: int, name: str, criteria: Sequence[_Criterion]) -> Figure:
    groups = source.drawn_groups
    drawn = criteria[: max(MOST_LANES // len(groups), 1)]
    lanes = Lanes(lane_names(groups))
    for criterion in drawn:
        lanes.head(
            criterion.id, " < ".join(criterion.scale.level_names) if criterion.scale.levels else "fifths of 0 to 1"
        )
        for group in groups:
            if group in criterion.shares:
                lanes.add(group, _marks(criterion, group))
    table = table_of(
        f"Shares of outputs by level: {name}",
        ("Criterion", "Model", "Level"),
        ("Share", "Outputs"),
        (
            (criterion.id, group.name, part, rate_words(shares.share(count)), f"{count:,}")
            for criterion in criteria
            for group, shares in criterion.shares.items()
            for part, count in shares.parts
        ),
    )
    return Figure(
        f"levels-{number}",
        f"{name}: each criterion by level",
        _reading(source, criteria, drawn),
        lanes.drawn("levels"),
        table,
    )


def _marks(criterion: _Criterion, group: Group) -> Iterator[Row]:
    """Segments of one lane, lowest score first, unscored outputs last."""
    shares, start = criterion.shares[group], 0.0
    places = {segment.name: segment.place for segment in shares.counts}
    for name, count in shares.parts:
        share = shares.share(count)
        place = min(max(places.get(name, 0.0) / max(criterion.scale.step_count, 1), 0.0), 1.0)
        yield {
            "start": start,
            "end": start + share,
            "middle": start + share / 2,
            "strength": 0.0 if name == UNSCORED else FAINTEST + (STRONGEST - FAINTEST) * place,
            "kind": UNSCORED if name == UNSCORED else "scored",
            "label": _label(name, count, shares.row["output_count"]),
            "tip": f"{criterion.id}, {group.label}: {name} {rate_words(share)} ({counted(count, 'output')})",
        }
        start += share


def _label(name: str, count: int, total: int) -> str:
    """Label that fits into a segment: name and share, only the share, or nothing."""
    share = count / total
    percent = f"{100 * share:.0f}%"
    if percent in ("0%", "100%"):  # exact only for none and all
        percent = share_words(count, total)
    fitting = (words for words in (f"{name} {percent}", percent) if len(words) * LETTER_UNITS < share * PLOT_UNITS - 4)
    return next(fitting, "")


def _reading(source: ReportSource, criteria: Sequence[_Criterion], drawn: Sequence[_Criterion]) -> str:
    """Sentences on the criterion furthest from its best score, with the levels of the model that is worst on it.

    No weight counts here, so another criterion may cost most score.
    """
    weakest = criteria[0]
    scored = {group: shares for group, shares in weakest.shares.items() if shares.row["n"]}
    if not scored:
        words = "No output has a score on any of its criteria."
    else:
        sign = 1 if weakest.is_penalty else -1
        group, shares = max(scored.items(), key=lambda found: sign * found[1].row["mean"])
        parts = ", ".join(f"{name} {rate_words(shares.share(count))}" for name, count in shares.parts)
        is_one = len(criteria) == 1
        name = short_names(source.groups)[group]
        words = (
            f"{weakest.id}{' is' * (len(scored) > 1)}" if is_one else f"Furthest from its best score is {weakest.id},"
        )
        words += f" worst for {name}: {parts}." if len(scored) > 1 else f" for {name}: {parts}."
    if len(drawn) < len(criteria):
        words += f" The picture shows the first {len(drawn)} of {len(criteria)} criteria, the table all."
    if len(source.groups) > len(source.drawn_groups):
        words += f" The picture shows {len(source.drawn_groups)} of {len(source.groups)} models, the table all."
    return words
