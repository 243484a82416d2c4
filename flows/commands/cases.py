"""The commands `gradebook cases`: the choice of cases to evaluate."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from gradebook.flows.commands.options import (
    DEFAULT_LAKE,
    DataOption,
    JsonOption,
    LakeOption,
    MapOption,
    option_of,
    print_json,
)
from gradebook.flows.display.terminal import notes, say, show
from gradebook.rubrics.model.counts import counted
from gradebook.rubrics.statistics.case_shares import ColumnDistance, StratumShare
from gradebook.rubrics.statistics.chance import is_significant
from gradebook.rubrics.text.tables import Cells, table_from
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.operations.case_coverage import Coverage
from gradebook.tasks.runs.request import read_column_map
from gradebook.tasks.system.number_format import interval_words, p_words, price_words, rate_words, score_words

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
    caption = "strata, those that the suite lacks first; difference: suite - traffic, in percentage points"
    beyond = [place for place, row in enumerate(rows) if is_significant(row.p_adjusted)]
    show(table_from(caption, {"stratum": lambda row: f"{row.column} {row.stratum}"}, _STRATUM, rows), bold=beyond)
    if len(found.strata) > len(rows):
        say(f"and {len(found.strata) - len(rows):,} more: --all shows them")
    columns = sorted(found.columns, key=lambda each: each.by_chance - each.distance)
    show(table_from("distance by column", {"column": lambda each: each.column}, _COLUMN, columns))
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


def _points(difference: float | None) -> str:
    """Difference of two shares, in percentage points."""
    return "–" if difference is None else f"{100 * difference:+.1f}"


_STRATUM: Cells[StratumShare] = {
    "suite": lambda row: rate_words(row.suite_share),
    "traffic": lambda row: rate_words(row.traffic_share),
    "difference": lambda row: _points(row.difference),
    "95% interval": lambda row: interval_words(row.low, row.high, _points),
    "p": lambda row: p_words(row.p_adjusted),
}
_COLUMN: Cells[ColumnDistance] = {
    "distance": lambda each: score_words(each.distance),
    "by chance": lambda each: score_words(each.by_chance),
    "p": lambda each: p_words(each.p),
}

app = typer.Typer(help="Compare the cases of a suite with real usage.", no_args_is_help=True, rich_markup_mode=None)

SUITES = (".yaml", ".yml")


@app.command("coverage")
def coverage(  # noqa: PLR0913 - each is an option
    suite: Annotated[str, typer.Argument(help="prompts or outputs: a file, folder or glob; or a suites file")],
    against: Annotated[str, typer.Option("--against", help="prompts of real usage: a file, folder or glob")],
    only: Annotated[list[str] | None, typer.Option("--only", help="a suite's id; may be repeated")] = None,
    column_map: MapOption = None,
    embedder: Annotated[
        str | None,
        typer.Option(
            "--embedder", help="also compare topics: lexical, a folder, an embedder file (YAML) or a model name"
        ),
    ] = None,
    budget_usd: Annotated[float | None, option_of("budget_usd")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="print the number of texts to embed and their price")
    ] = False,
    show_all: Annotated[bool, typer.Option("--all", help="show every stratum, in place of 20")] = False,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show how the cases of a suite differ from real usage.

    Strata are the values of metadata columns that both have, fifths of numbers and of the prompt's length, its language
    and, with an embedder, topics: clusters of prompts. Strata that the suite lacks come first. The distance is the
    share of cases that would have to be in other strata.

    \b
    gradebook cases coverage suite.jsonl --against traffic.parquet
    gradebook cases coverage suites.yaml --only support --against traffic/ \\
        --embedder lexical

    Exit: 0 done, 2 bad input, 3 the embedder did not answer or the budget is reached.
    """
    from gradebook.flows.commands.cases import show_coverage
    from gradebook.tasks.operations.case_coverage import CoverageRequest, measure_coverage, read_sides

    request = CoverageRequest(_places(suite, only), against, read_column_map(column_map or []), embedder, budget_usd)
    found_lake = find_lake(lake, data)
    sides = read_sides(found_lake, request)
    plan = sides.plan
    counts = (len(plan.wanted), plan.request_count, plan.cost_usd) if plan else (0, 0, 0.0)
    price = dict(zip(("text_count", "request_count", "cost_usd"), counts, strict=True))
    words = f"{counted(counts[0], 'text')} to embed, about {price_words(counts[2])}"
    if dry_run:
        print_json(price) if as_json else say(words)
        return
    if counts[0]:
        notes.print(words, markup=False)
    found = measure_coverage(found_lake, request, sides)
    if as_json:
        print_json(found.as_json() | {"embedding": price})
    else:
        show_coverage(found, is_whole=show_all)


def _places(suite: str, only: list[str] | None) -> list[str]:
    """Files of the cases; of a suites file, those of its suites tonight."""
    if not suite.endswith(SUITES):
        return [suite]
    from gradebook.tasks.operations.suites import chosen_suites, read_suites, suite_request

    now = datetime.now(UTC)
    night = now.astimezone().date()
    suites = chosen_suites(read_suites(Path(suite)), only)
    return [suite_request(each, night, now, lake=None, data=None, budget_usd=None).outputs for each in suites]
