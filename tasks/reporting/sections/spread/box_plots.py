"""Box plots: how the outputs' scores spread, overall and in each category."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from gradebook.rubrics.model.rubric import NO_CATEGORY
from gradebook.tasks.lake.rows import Row
from gradebook.tasks.reporting.drawing.figures import Figure, table_of
from gradebook.tasks.reporting.source.report_source import Group, ReportSource
from gradebook.tasks.reporting.source.rows_layout import Lanes, by_group, lane_names, told_names
from gradebook.tasks.system.number_format import score_words

OVERALL = "Overall"
MOST_BOXES = 48  # in one picture
NUMBERS = ("Mean", "5%", "25%", "Median", "75%", "95%", "Outputs")
_SPREADS = """
select {category} as category, model, checkpoint, n, mean, [p05, p25, p50, p75, p95] as spread
from {mart} where run_id = ? and p50 is not null
"""
_HOW_TO_READ = (
    "A box holds the middle half of the outputs, its upright line is the median; the thin line reaches from the score "
    "that 5% stay below to the one that 95% do, and the diamond is the mean."
)


@dataclass(frozen=True, slots=True)
class Block:
    """The boxes of one category, or of the overall scores. boxes: by group its row of `_SPREADS`."""

    name: str
    boxes: Mapping[Group, Row]

    @property
    def mean(self) -> float:
        """The mean over all models' outputs."""
        rows = self.boxes.values()
        return float(sum(row["mean"] * row["n"] for row in rows) / sum(row["n"] for row in rows))


def read_boxes(source: ReportSource) -> Figure | None:
    """The box plots, the overall scores first and then the categories, the weakest first; None without any score.

    None as well for a run of an earlier gradebook, whose marts don't have them.
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
        "How scores spread by category and model",
        ("Category", "Model"),
        NUMBERS,
        ((block.name, *_cells(group, row)) for block in blocks for group, row in block.boxes.items()),
    )
    title = "How scores spread, by category" if categories else "How scores spread"
    return Figure("boxes", title, _reading(source, blocks, drawn, len(overall)), _drawn(source, drawn), table)


def category_names(source: ReportSource) -> dict[str, str]:
    """What people read for each category of the run: one within another has the outer one's name before it."""
    return {category: " / ".join(_way_down(category, source.category_parents)) for category in source.category_parents}


def _way_down(category: str, parents: Mapping[str, str | None]) -> Sequence[str]:
    outer = parents.get(category)
    name = "without a category" if category == NO_CATEGORY else category
    return [name] if outer is None else [*_way_down(outer, parents), name]


def _blocks(source: ReportSource, rows: Iterable[Row], names: Mapping[str, str]) -> list[Block]:
    by_category: dict[str, list[Row]] = {}
    for row in rows:
        by_category.setdefault(row["category"], []).append(row)
    return [Block(names.get(name, name), by_group(source, held)) for name, held in by_category.items()]


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
    """Where scores differ the most from output to output. overall_count: how many of the blocks are no category."""
    widest, group = max(
        ((block, group) for block in blocks for group in block.boxes),
        key=lambda found: _middle(found[0].boxes[found[1]]),
    )
    spread, name = widest.boxes[group]["spread"], told_names(source.groups)[group]
    where = "overall" if widest.name == OVERALL else f"in {widest.name}"
    if _middle(widest.boxes[group]) == 0:
        words = f"Outputs hardly differ: half or more of each model's have one score; {name}'s"
        words += f" median {where} is {score_words(spread[2])}."
    else:
        words = f"Outputs differ the most {where} with {name}: the middle half of them scores "
        words += f"{score_words(spread[1])} to {score_words(spread[3])}."
    if len(drawn) < len(blocks):
        first = "the overall scores and " if overall_count else ""
        shown, every = len(drawn) - overall_count, len(blocks) - overall_count
        words += f" Drawn are {first}the {shown} weakest of {every} categories."
    if len(source.groups) > len(source.drawn_groups):
        words += f" Drawn are {len(source.drawn_groups)} of {len(source.groups)} models; the table has all."
    return f"{words} {_HOW_TO_READ}"


def _middle(row: Row) -> float:
    return float(row["spread"][3] - row["spread"][1])
