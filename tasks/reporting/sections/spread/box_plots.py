"""Box plots: spread of the outputs' scores, overall and by category."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from gradebook.rubrics.model.rubric import NO_CATEGORY
from gradebook.tasks.lake.rows import Row
from gradebook.tasks.reporting.drawing.figures import Figure, table_of
from gradebook.tasks.reporting.source.report_source import Group, ReportSource
from gradebook.tasks.reporting.source.rows_layout import Lanes, by_group, lane_names, short_names
from gradebook.tasks.system.number_format import score_words

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
    found = source.rows(_SPREADS.format(category="category", mart="category_scores"), source.run_id)
    has_categories = {row["category"] for row in found} - {NO_CATEGORY}
    categories = _blocks(source, found, category_names(source)) if has_categories else []
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
    return Figure("boxes", title, _reading(source, blocks, drawn, len(overall)), _drawn(source, drawn), table)


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
    return [Block(names.get(name, name), by_group(source, found)) for name, found in by_category.items()]


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
    named = dict(zip(("low", "lower", "median", "upper", "high"), row["spread"], strict=True))
    words = {name: score_words(score) for name, score in named.items()}
    tip = (
        f"{block.name}, {group.label}: median {words['median']}, middle half {words['lower']} to {words['upper']}, "
        f"5% to 95% {words['low']} to {words['high']}, mean {score_words(row['mean'])}"
    )
    return {**named, "mean": row["mean"], "tip": tip}


def _reading(source: ReportSource, blocks: Sequence[Block], drawn: Sequence[Block], overall_count: int) -> str:
    """Sentences on the widest spread. overall_count: number of blocks that are not a category."""
    widest, group = max(
        ((block, group) for block in blocks for group in block.boxes),
        key=lambda found: _middle(found[0].boxes[found[1]]),
    )
    spread, name = widest.boxes[group]["spread"], short_names(source.groups)[group]
    where = "overall" if widest.name == OVERALL else f"in {widest.name}"
    if _middle(widest.boxes[group]) == 0:
        words = f"Scores hardly differ: at least half of each model's outputs have the same score; the median {where}"
        words += f" of {name} is {score_words(spread[2])}."
    else:
        words = f"The spread is largest {where} for {name}: the middle half of its outputs scores "
        words += f"{score_words(spread[1])} to {score_words(spread[3])}."
    if len(drawn) < len(blocks):
        first = "the overall scores and " if overall_count else ""
        shown, every = len(drawn) - overall_count, len(blocks) - overall_count
        words += f" The picture shows {first}the {shown} weakest of {every} categories."
    if len(source.groups) > len(source.drawn_groups):
        words += f" The picture shows {len(source.drawn_groups)} of {len(source.groups)} models, the table all."
    return f"{words} {_HOW_TO_READ}"


def _middle(row: Row) -> float:
    return float(row["spread"][3] - row["spread"][1])
