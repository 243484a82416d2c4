"""Tables of a suite's cases beside real usage, on stdout."""

from rich.markup import escape

from gradebook.flows.display.terminal import people, plain, say, table_titled
from gradebook.rubrics.model.counts import counted
from gradebook.rubrics.statistics.case_shares import StratumShare
from gradebook.rubrics.statistics.chance import is_significant
from gradebook.tasks.operations.case_coverage import Coverage
from gradebook.tasks.system.number_format import interval_words, p_words, rate_words, score_words

MOST_ROWS = 20


def show_coverage(found: Coverage, *, is_whole: bool = False) -> None:
    """Print the distance, the strata, missing ones first, and the columns. is_whole: all strata."""
    say(
        f"suite: {counted(found.suite_count, 'case')}; traffic: {counted(found.traffic_count, 'case')}",
        f"distance {score_words(found.distance)}, {score_words(found.by_chance)} by chance: share of cases in other "
        f"strata, a mean over {counted(len(found.columns), 'column')}",
        _missing_words(found),
    )
    rows = found.strata if is_whole else found.strata[:MOST_ROWS]
    table = table_titled(
        "strata, those that the suite lacks first; difference: suite - traffic, in percentage points",
        "stratum",
        right=("suite", "traffic", "difference", "95% interval", "p"),
    )
    for row in rows:
        table.add_row(*map(_cell, _cells(row)), style="bold" if is_significant(row.p_adjusted) else None)
    people.print(table)
    if len(found.strata) > len(rows):
        say(f"and {len(found.strata) - len(rows):,} more: --all shows them")
    table = table_titled("distance by column", "column", right=("distance", "by chance", "p"))
    for each in sorted(found.columns, key=lambda each: each.by_chance - each.distance):
        cells = (each.column, score_words(each.distance), score_words(each.by_chance), p_words(each.p))
        table.add_row(*map(_cell, cells))
    people.print(table)
    say(
        "bold: beyond chance; p of strata is adjusted for all of them (Benjamini and Hochberg), that of columns is not",
        *(f"note: {note}" for note in found.notes),
    )


def _missing_words(found: Coverage) -> str:
    missing = found.missing
    beyond = [row for row in missing if is_significant(row.p_adjusted)]
    if not missing:
        return "the suite has every stratum of the traffic"
    words = (
        f"the suite lacks {counted(len(missing), 'stratum', 'strata')} of the traffic, {len(beyond):,} beyond chance"
    )
    return f"{words}: {', '.join(f'{row.column} {row.stratum}' for row in beyond[:5])}" if beyond else words


def _cells(row: StratumShare) -> tuple[str, ...]:
    interval = interval_words(row.low, row.high, _points)
    shares = rate_words(row.suite_share), rate_words(row.traffic_share)
    return f"{row.column} {row.stratum}", *shares, _points(row.difference), interval, p_words(row.p_adjusted)


def _points(difference: float | None) -> str:
    """Difference of two shares, in percentage points."""
    return "–" if difference is None else f"{100 * difference:+.1f}"


def _cell(text: str) -> str:
    return escape(plain(text))
