"""Section "Spread": box plots, levels, slices and outliers of scores."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from markupsafe import Markup

from gradebook.rubrics.files.versions import rubric_from_body
from gradebook.rubrics.model.errors import RubricError
from gradebook.rubrics.model.rubric import NO_CATEGORY, Rubric
from gradebook.rubrics.text.tables import table_of
from gradebook.rubrics.text.wording import counted, rate_words, score_words, share_words
from gradebook.tasks.lake.rows import Row
from gradebook.tasks.lake.sql import query
from gradebook.tasks.reporting.charts import Figure, anchor_of, cases_link, shortened
from gradebook.tasks.reporting.lanes import Lanes, by_group, lane_names, short_names
from gradebook.tasks.reporting.report_source import Group, ReportSource
from gradebook.tasks.reporting.sections.thresholds import Thresholds, read_thresholds

OVERALL = "Overall"
MOST_BOXES = 48  # in one picture
NUMBERS = ("Mean", "5%", "25%", "Median", "75%", "95%", "Outputs")
_SPREADS = """
select {category} as category, model, checkpoint, n, mean, [p05, p25, p50, p75, p95] as spread
from {mart} where run_id = ? and p50 is not null
"""
_HOW_TO_READ = (
    "A box covers the middle half of the outputs, with the median as a vertical line; the thin line runs from the 5% "
    "to the 95% quantile, and the diamond is the mean."
)


@dataclass(frozen=True, slots=True)
class Block:
    """Boxes of one category, or of the overall scores. boxes: rows of `_SPREADS` by group."""

    name: str
    boxes: Mapping[Group, Row]

    @property
    def mean(self) -> float:
        """Mean over all models' outputs."""
        rows = self.boxes.values()
        return float(sum(row["mean"] * row["n"] for row in rows) / sum(row["n"] for row in rows))


def read_boxes(source: ReportSource) -> Figure | None:
    """Draw the box plots: overall scores, then categories, weakest first; None without scores.

    Also None for a run of an earlier version of gradebook, whose marts lack the quantiles.
    """
    rows = source.rows(_SPREADS.format(category="?", mart="run_scores"), OVERALL, source.run_id)
    overall = _blocks(source, rows, {})
    category_rows = source.rows(_SPREADS.format(category="category", mart="category_scores"), source.run_id)
    has_categories = {row["category"] for row in category_rows} - {NO_CATEGORY}
    categories = _blocks(source, category_rows, category_names(source)) if has_categories else []
    blocks = [*overall, *sorted(categories, key=lambda block: (block.mean, block.name))]
    if not blocks:
        return None
    drawn = blocks[: max(MOST_BOXES // len(source.drawn_groups), 1)]
    table = table_of(
        "Spread of scores by category and model",
        ("Category", "Model"),
        NUMBERS,
        ((block.name, *_cells(group, row)) for block in blocks for group, row in block.boxes.items()),
    )
    title = "Spread of scores by category" if categories else "Spread of scores"
    return Figure("boxes", title, _box_sentence(source, blocks, drawn, len(overall)), _drawn(source, drawn), table)


def category_names(source: ReportSource) -> dict[str, str]:
    """Display name of each category of the run, with the names of its enclosing categories before it."""
    return {category: " / ".join(_path_of(category, source.category_parents)) for category in source.category_parents}


def _path_of(category: str, parents: Mapping[str, str | None]) -> Sequence[str]:
    outer = parents.get(category)
    name = "without a category" if category == NO_CATEGORY else category
    return [name] if outer is None else [*_path_of(outer, parents), name]


def _blocks(source: ReportSource, rows: Iterable[Row], names: Mapping[str, str]) -> list[Block]:
    by_category: dict[str, list[Row]] = {}
    for row in rows:
        by_category.setdefault(row["category"], []).append(row)
    return [Block(names.get(name, name), by_group(source, members)) for name, members in by_category.items()]


def _cells(group: Group, row: Row) -> tuple[str, ...]:
    return group.name, score_words(row["mean"]), *(score_words(score) for score in row["spread"]), f"{row['n']:,}"


def _drawn(source: ReportSource, blocks: Sequence[Block]) -> Markup:
    lanes = Lanes(lane_names(source.drawn_groups))
    for block in blocks:
        lanes.head(block.name)
        for group in source.drawn_groups:
            if group in block.boxes:
                lanes.add(group, [_mark(block, group, block.boxes[group])])
    spreads = [row["spread"] for block in blocks for row in block.boxes.values()]
    ends = [min(0.0, *(spread[0] for spread in spreads)), max(1.0, *(spread[-1] for spread in spreads))]
    return lanes.drawn("boxes", ends=ends)


def _mark(block: Block, group: Group, row: Row) -> Row:
    quantiles = dict(zip(("low", "lower", "median", "upper", "high"), row["spread"], strict=True))
    words = {name: score_words(score) for name, score in quantiles.items()}
    tip = (
        f"{block.name}, {group.label}: median {words['median']}, middle half {words['lower']} to {words['upper']}, "
        f"5% to 95% {words['low']} to {words['high']}, mean {score_words(row['mean'])}"
    )
    link = cases_link(grid="criteria", model=group.name)
    return {**quantiles, "mean": row["mean"], "tip": tip, "href": link}


def _box_sentence(source: ReportSource, blocks: Sequence[Block], drawn: Sequence[Block], overall_count: int) -> str:
    """Sentences on the widest spread. overall_count: number of blocks that are not a category."""
    widest, group = max(
        ((block, group) for block in blocks for group in block.boxes),
        key=lambda entry: _middle(entry[0].boxes[entry[1]]),
    )
    spread, name = widest.boxes[group]["spread"], short_names(source.groups)[group]
    where = "overall" if widest.name == OVERALL else f"in {widest.name}"
    if _middle(widest.boxes[group]) == 0:
        sentence = (
            f"Scores hardly differ: at least half of each model's outputs have the same score; the median {where}"
        )
        sentence += f" of {name} is {score_words(spread[2])}."
    else:
        sentence = f"The spread is largest {where} for {name}: the middle half of its outputs scores "
        sentence += f"{score_words(spread[1])} to {score_words(spread[3])}."
    if len(drawn) < len(blocks):
        first = "the overall scores and " if overall_count else ""
        shown_count, category_count = len(drawn) - overall_count, len(blocks) - overall_count
        sentence += f" The picture shows {first}the {shown_count} weakest of {category_count} categories."
    if len(source.groups) > len(source.drawn_groups):
        sentence += f" The picture shows {len(source.drawn_groups)} of {len(source.groups)} models, the table all."
    return f"{sentence} {_HOW_TO_READ}"


def _middle(row: Row) -> float:
    return float(row["spread"][3] - row["spread"][1])


BAND_COUNT = 5


@dataclass(frozen=True, slots=True)
class Segment:
    """Part of a criterion's scale. position: 0 for the lowest level or band, 1 for the next, 0.5 between both."""

    name: str
    position: float


@dataclass(frozen=True, slots=True)
class Scale:
    """Scale of a criterion's verdicts: its levels or, if `levels` is empty, bands of scores.

    levels: ids, lowest score first. segments: in the same order, including empty ones.
    """

    levels: tuple[str, ...]
    segments: tuple[Segment, ...]

    @property
    def level_names(self) -> tuple[str, ...]:
        """Display names of the levels or bands, lowest score first, without the gaps between levels."""
        return tuple(segment.name for segment in self.segments if segment.position in range(self.step_count + 1))

    @property
    def step_count(self) -> int:
        """Place of the highest level or band."""
        return (len(self.levels) or BAND_COUNT) - 1

    def counts(self, rows: Iterable[Row]) -> dict[Segment, int]:
        """Count of outputs in each segment. rows: of one model, from sql/queries/reporting/level_counts.sql."""
        tally: Counter[float] = Counter()
        for row in rows:
            tally[_position_of(row, self.levels)] += row["n"]
        return {segment: tally[segment.position] for segment in self.segments}


def read_scale(levels: Sequence[Row], rows: Sequence[Row]) -> Scale:
    """Scale of a criterion. levels: its rows of `levels`, worst first; if empty, the levels of its verdicts are used.

    rows: of all models, from sql/queries/reporting/level_counts.sql. If most verdicts have no level, bands are used.
    """
    names = {level["level_id"]: level["label"] or level["level_id"] for level in levels} or _levels_of_verdicts(rows)
    with_level = sum(row["n"] for row in rows if row["level_id"] in names)
    if not names or 2 * with_level < sum(row["n"] for row in rows):
        return Scale((), tuple(Segment(_band_name(band), band) for band in range(BAND_COUNT)))
    ids = tuple(names)
    positions = {*range(len(ids)), *(_position_of(row, ids) for row in rows)}
    return Scale(
        ids, tuple(Segment(_name(position, tuple(names.values())), position) for position in sorted(positions))
    )


def _levels_of_verdicts(rows: Sequence[Row]) -> dict[str, str]:
    """Levels named by verdicts, ordered by score: the levels of per-case criteria are not in the table `levels`."""
    scores: dict[str, float] = {}
    for row in rows:
        if row["level_id"] is not None:
            scores[row["level_id"]] = min(row["score"], scores.get(row["level_id"], row["score"]))
    return {level: level for level in sorted(scores, key=lambda level: (scores[level], level))}


def _position_of(row: Row, ids: tuple[str, ...]) -> float:
    if not ids:
        return float(row["band"])
    if row["level_id"] in ids:
        return float(ids.index(row["level_id"]))
    is_known = row["level_id"] is None and row["place"] is not None
    return float(row["place"]) if is_known else float(len(ids))  # above all other levels


def _name(position: float, names: tuple[str, ...]) -> str:
    if position == len(names):
        return "another level"
    if position < 0:
        return f"below {names[0]}"
    if position > len(names) - 1:
        return f"above {names[-1]}"
    index = int(position)
    return names[index] if position == index else f"between {names[index]} and {names[index + 1]}"


def _band_name(band: int) -> str:
    return f"{band / BAND_COUNT:g} to {(band + 1) / BAND_COUNT:g}"


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
    categories = sorted(
        {criterion.category for criterion in criteria}, key=lambda name: (means.get(name, float("inf")), name)
    )
    return tuple(
        CategoryLevels(names.get(name, name), _figure(source, number, names.get(name, name), members))
        for number, name in enumerate(categories, start=1)
        if (members := sorted((c for c in criteria if c.category == name), key=lambda c: (-c.badness, c.id)))
    )


def left_out_words(source: ReportSource) -> str | None:
    """Sentence with the number of per-case criteria that are not shown; None if all are shown."""
    count = len(_own_ids(source)) - MOST_OWN
    more = counted(count, "more per-case criterion is", "more per-case criteria are")
    return f"{more} not shown." if count > 0 else None


def _own_ids(source: ReportSource) -> list[str]:
    """Ids of the per-case criteria, those of the most outputs first."""
    rubric_ids = {row["criterion_id"] for row in source.criteria}
    counts: dict[str, int] = {}
    for row in source.summary.criteria:
        if row["criterion_id"] not in rubric_ids:
            counts[row["criterion_id"]] = counts.get(row["criterion_id"], 0) + row["output_count"]
    return sorted(counts, key=lambda name: (-counts[name], name))


def _read_criteria(source: ReportSource) -> Iterator[_Criterion]:
    shown_ids = {*(row["criterion_id"] for row in source.criteria), *_own_ids(source)[:MOST_OWN]}
    scores: dict[str, list[Row]] = {}
    for row in source.summary.criteria:
        if row["criterion_id"] in shown_ids:
            scores.setdefault(row["criterion_id"], []).append(row)
    counts: dict[str, list[Row]] = {name: [] for name in scores}
    for row in source.rows(query("reporting/level_counts"), run_id=source.run_id, criterion_ids=list(scores)):
        counts[row["criterion_id"]].append(row)
    groups = source.groups
    for name, rows in scores.items():
        of_groups: dict[Group, list[Row]] = {group: [] for group in groups}
        for count_row in counts[name]:
            of_groups[source.group_of(count_row)].append(count_row)
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
        _levels_sentence(source, criteria, drawn),
        lanes.drawn("levels"),
        table,
    )


def _marks(criterion: _Criterion, group: Group) -> Iterator[Row]:
    """Segments of one lane, lowest score first, unscored outputs last."""
    shares, start = criterion.shares[group], 0.0
    positions = {segment.name: segment.position for segment in shares.counts}
    for name, count in shares.parts:
        share = shares.share(count)
        position = min(max(positions.get(name, 0.0) / max(criterion.scale.step_count, 1), 0.0), 1.0)
        is_level = name in criterion.scale.levels
        yield {
            "href": cases_link(
                grid="criteria",
                model=group.name,
                criterion=criterion.id,
                level=name if is_level else "",
                missing="1" if name == UNSCORED else "",
            ),
            "start": start,
            "end": start + share,
            "middle": start + share / 2,
            "strength": 0.0 if name == UNSCORED else FAINTEST + (STRONGEST - FAINTEST) * position,
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


def _levels_sentence(source: ReportSource, criteria: Sequence[_Criterion], drawn: Sequence[_Criterion]) -> str:
    """Sentences on the criterion furthest from its best score, with the levels of the model that is worst on it.

    No weight counts here, so another criterion may cost most score.
    """
    weakest = criteria[0]
    scored = {group: shares for group, shares in weakest.shares.items() if shares.row["n"]}
    if not scored:
        sentence = "No output has a score on any of its criteria."
    else:
        sign = 1 if weakest.is_penalty else -1
        group, shares = max(scored.items(), key=lambda entry: sign * entry[1].row["mean"])
        level_words = ", ".join(f"{name} {rate_words(shares.share(count))}" for name, count in shares.parts)
        is_one = len(criteria) == 1
        name = short_names(source.groups)[group]
        sentence = (
            f"{weakest.id}{' is' * (len(scored) > 1)}" if is_one else f"Furthest from its best score is {weakest.id},"
        )
        sentence += f" worst for {name}: {level_words}." if len(scored) > 1 else f" for {name}: {level_words}."
    if len(drawn) < len(criteria):
        sentence += f" The picture shows the first {len(drawn)} of {len(criteria)} criteria, the table all."
    if len(source.groups) > len(source.drawn_groups):
        sentence += f" The picture shows {len(source.drawn_groups)} of {len(source.groups)} models, the table all."
    return sentence


MOST_OUTLIERS = 8  # named of a model


@dataclass(frozen=True, slots=True)
class Outliers:
    """Outliers of a model: their number, and the farthest as anchor, case as shown, score and id of the case."""

    words: str
    outputs: tuple[tuple[str, str, str, str], ...]


def read_outliers(source: ReportSource) -> tuple[Outliers, ...]:
    """Outliers by model, those of the best model first."""
    rows_by_group: dict[Group, list[Row]] = {}
    for row in source.rows(query("reporting/outliers"), run_id=source.run_id, most_count=MOST_OUTLIERS):
        rows_by_group.setdefault(source.group_of(row), []).append(row)
    names = short_names(source.groups)
    return tuple(
        Outliers(
            f"{names[group]}: {counted(rows_by_group[group][0]['outlier_count'], 'outlier')}",
            tuple(
                (anchor_of(row["output_id"]), shortened(row["case_id"]), score_words(row["score"]), row["case_id"])
                for row in rows_by_group[group]
            ),
        )
        for group in source.groups
        if group in rows_by_group
    )


@dataclass(frozen=True, slots=True)
class SpreadContents:
    """Contents of the section; a part is None or empty if there is nothing to show. boxes: box plots by category.

    levels: detailed views of the categories, weakest first. left_out: sentence about criteria that are not shown.
    """

    thresholds: Thresholds | None
    boxes: Figure | None
    outliers: tuple[Outliers, ...]
    levels: tuple[CategoryLevels, ...]
    left_out: str | None


def read_spread(source: ReportSource) -> SpreadContents | None:
    """Read the spread of scores; None without scores."""
    rubric = _read_rubric(source)
    thresholds, boxes, levels = read_thresholds(source, rubric), read_boxes(source), read_levels(source)
    if not thresholds and not boxes and not levels:
        return None
    return SpreadContents(thresholds, boxes, read_outliers(source), levels, left_out_words(source))


def _read_rubric(source: ReportSource) -> Rubric | None:
    """Read the run's rubric; None if the lake lacks it or this version of gradebook can't read it."""
    with suppress(RubricError):
        return None if source.rubric_body is None else rubric_from_body(source.rubric_body)
    return None
