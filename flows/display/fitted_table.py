"""Table that fits the width of its console: cells are cut in the middle, and columns left out from the right."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Column, Table
from rich.text import Text

from gradebook.flows.display.wrapping import filled

GAP = 2  # between two columns
LEAST_WIDTH = 17  # of a column of names: eight letters on each side of the ellipsis
LEAST_CRITERION_WIDTH = 28
LEAST_SENTENCE_WIDTH = 24
MOST_LINES = 3  # of a sentence in a cell
ELLIPSIS = "…"


@dataclass(slots=True)
class _Fitted:
    """One column on its way to the console.

    least: width below which nothing readable is left. is_key: names the row, so the column is never left out.
    """

    column: Column
    cells: list[Text]
    width: int
    least: int
    is_key: bool


class FittedTable(Table):
    """Table whose columns are ordered by importance.

    A run's id, a number and an interval are never cut. A longer name is cut in the middle, a sentence at its end,
    after three lines, and columns that still do not fit are left out from the right and named below the table: a run's
    id only where it is the last column.

    is_whole: sentences wrap over as many lines as they need.
    """

    is_whole = False

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        columns = [_measured(column, place, len(self.columns), console) for place, column in enumerate(self.columns)]
        shown = _that_fit(columns, options.max_width)
        _shrink(shown, options.max_width)
        for each in shown:
            each.cells = [filled(cell, each.width) for cell in each.cells]
        table = Table(title=self.title, title_justify="left", title_style="bold", caption_justify="left", **LOOK)
        for each in shown:
            table.add_column(each.column.header, justify=each.column.justify, width=each.width, overflow="fold")
        is_cut = False
        for index, row in enumerate(self.rows):
            cells = [_cut(each, index, console, is_whole=self.is_whole) for each in shown]
            is_cut = is_cut or any(cell is not each.cells[index] for cell, each in zip(cells, shown, strict=True))
            table.add_row(*cells, style=row.style)
        omitted = ", ".join(str(each.column.header) for each in columns if each not in shown)
        if omitted:
            table.caption = f"not shown: {omitted}; --wide shows all"
        elif is_cut:
            table.caption = "shortened (…); --wide shows all"
        yield from Table.__rich_console__(table, console, options)


LOOK: dict[str, Any] = {"box": SIMPLE_HEAD, "pad_edge": False, "show_edge": False, "collapse_padding": True}


def _measured(column: Column, place: int, count: int, console: Console) -> _Fitted:
    cells = [
        cell if isinstance(cell, Text) else console.render_str(str(cell), highlight=False) for cell in column.cells
    ]
    heading = str(column.header)
    width = max(map(_width, [Text(heading), *cells]))
    is_key = place == 0 or (_is_run(heading) and place < count - 1) or _is_criterion(heading)
    return _Fitted(column, cells, width, min(width, _least(heading, column, cells)), is_key)


def _least(heading: str, column: Column, cells: Sequence[Text]) -> int:
    """Least width that leaves a column readable."""
    has_words = any(letter.isalpha() for cell in cells for letter in cell.plain.replace(" to ", ""))
    if _is_run(heading) or column.no_wrap or column.justify == "right" or not has_words:
        return max(map(_width, [*map(Text, heading.split()), *cells]), default=0)  # a heading may wrap
    if any(" " in cell.plain for cell in cells):
        return max(LEAST_SENTENCE_WIDTH, len(heading))
    return max(LEAST_CRITERION_WIDTH if _is_criterion(heading) else LEAST_WIDTH, len(heading))


def _is_run(heading: str) -> bool:
    return heading.casefold() == "run" or heading.casefold().endswith("run_id")


def _is_criterion(heading: str) -> bool:
    return heading.casefold() in ("criterion", "criterion_id")


def _that_fit(columns: list[_Fitted], width: int) -> list[_Fitted]:
    """Leave out columns from the right until the others fit at their least widths; those that name a row go last."""
    shown = list(columns)
    for is_key in (False, True):
        for each in reversed(columns[1:]):
            if _needed(shown, (column.least for column in shown)) > width and each.is_key is is_key:
                shown.remove(each)
    return shown


def _shrink(shown: list[_Fitted], width: int) -> None:
    """Narrow the widest columns, one cell at a time, until all fit."""
    for each in shown:
        each.width = min(each.width, width)
    excess = max(0, _needed(shown, (each.width for each in shown)) - width)
    for _ in range(excess):
        widest = max(shown, key=lambda each: (each.width > each.least, each.width))
        widest.width = max(1, widest.width - 1)


def _needed(columns: Sequence[_Fitted], widths: Iterable[int]) -> int:
    return sum(widths) + GAP * (len(columns) - 1)


def _width(text: Text) -> int:
    return max((line.cell_len for line in text.split(allow_blank=True)), default=0)


def _cut(column: _Fitted, index: int, console: Console, *, is_whole: bool) -> Text:
    """Cut a cell: a name in the middle, to one line, a sentence at its end, to three lines; a run's id stays whole."""
    cell, width = column.cells[index], column.width
    if " " in cell.plain:
        return cell if is_whole else _sentence_cut(cell, width, console)
    if _width(cell) <= width or _is_run(str(column.column.header)):
        return cell
    kept = max(width - 1, 1)
    tail = kept // 2
    return Text.assemble(cell[: kept - tail], ELLIPSIS, cell[len(cell) - tail :])


def _sentence_cut(cell: Text, width: int, console: Console) -> Text:
    lines = cell.wrap(console, width, overflow="fold")
    if len(lines) <= MOST_LINES:
        return cell
    *first, last = lines[:MOST_LINES]
    if last.cell_len >= width:
        last.truncate(max(last.plain.rfind(" "), 0) or width - 1)
    return Text("\n").join([*first, Text(f"{last.plain.rstrip(' ,;:.…')}{ELLIPSIS}", last.style)])
