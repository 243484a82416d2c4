"""The commands `gradebook suite cases`: the choice of cases to evaluate."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

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
from gradebook.flows.display.terminal import say, show, stderr
from gradebook.rubrics.statistics.significance import is_significant
from gradebook.rubrics.statistics.suite import ColumnDistance, StratumShare
from gradebook.rubrics.text.tables import Cells, table_from
from gradebook.rubrics.text.wording import counted, interval_words, p_words, price_words, rate_words, score_words
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.operations.suite_cases import Coverage, CoverageRequest, measure_coverage, read_sides, suite_items
from gradebook.tasks.runs.request import read_column_map

MOST_ROWS = 20


def show_coverage(measured: Coverage, *, is_whole: bool = False) -> None:
    """Print the distance, the strata, missing ones first, and the columns. is_whole: all strata."""
    say(
        f"suite: {counted(measured.suite_count, 'case')}; traffic: {counted(measured.traffic_count, 'case')}",
        f"distance {score_words(measured.distance)}, {score_words(measured.by_chance)} by chance: share of cases in "
        f"other strata, a mean over {counted(len(measured.columns), 'column')}",
        _missing_words(measured),
    )
    rows = measured.strata if is_whole else measured.strata[:MOST_ROWS]
    caption = "strata, those that the suite lacks first; difference: suite - traffic, in percentage points"
    beyond = [index for index, row in enumerate(rows) if is_significant(row.p_adjusted)]
    show(table_from(caption, {"stratum": lambda row: f"{row.column} {row.stratum}"}, _STRATUM, rows), bold=beyond)
    if len(measured.strata) > len(rows):
        say(f"and {len(measured.strata) - len(rows):,} more: --all shows them")
    columns = sorted(measured.columns, key=lambda column: column.by_chance - column.distance)
    show(table_from("distance by column", {"column": lambda column: column.column}, _COLUMN, columns))
    say(
        "bold: beyond chance; p of strata is adjusted for all of them (Benjamini and Hochberg), that of columns is not",
        *(f"note: {note}" for note in measured.notes),
    )


def _missing_words(measured: Coverage) -> str:
    missing = measured.missing
    beyond = [row for row in missing if is_significant(row.p_adjusted)]
    if not missing:
        return "the suite has every stratum of the traffic"
    sentence = (
        f"the suite lacks {counted(len(missing), 'stratum', 'strata')} of the traffic, {len(beyond):,} beyond chance"
    )
    return f"{sentence}: {', '.join(f'{row.column} {row.stratum}' for row in beyond[:5])}" if beyond else sentence


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
    "distance": lambda row: score_words(row.distance),
    "by chance": lambda row: score_words(row.by_chance),
    "p": lambda row: p_words(row.p),
}

_ITEM: Cells[Any] = {
    "mean": lambda row: score_words(row.mean),
    "discrimination": lambda row: score_words(row.discrimination),
    "95% interval": lambda row: interval_words(row.low, row.high),
    "p": lambda row: p_words(row.p_adjusted),
    "share": lambda row: rate_words(row.share),
}


SUITES = (".yaml", ".yml")


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
    gradebook suite cases coverage suite.jsonl --against traffic.parquet
    gradebook suite cases coverage suites.yaml --only support --against traffic/ \\
        --embedder lexical

    Exit: 0 done, 2 bad input, 3 the embedder did not answer or the budget is reached.
    """
    request = CoverageRequest(
        _case_files(suite, only), against, read_column_map(column_map or []), embedder, budget_usd
    )
    found_lake = find_lake(lake, data)
    sides = read_sides(found_lake, request)
    plan = sides.plan
    counts = (len(plan.wanted), plan.request_count, plan.cost_usd) if plan else (0, 0, 0.0)
    price = dict(zip(("text_count", "request_count", "cost_usd"), counts, strict=True))
    sentence = f"{counted(counts[0], 'text')} to embed, about {price_words(counts[2])}"
    if dry_run:
        print_json(price) if as_json else say(sentence)
        return
    if counts[0]:
        stderr.print(sentence, markup=False)
    measured = measure_coverage(found_lake, request, sides)
    if as_json:
        print_json(measured.as_json() | {"embedding": price})
    else:
        show_coverage(measured, is_whole=show_all)


def items(
    suite: Annotated[str, typer.Argument(help="a suite, or a rubric, with published runs of five models or more")],
    show_all: Annotated[bool, typer.Option("--all", help="show every case, in place of 20")] = False,
    only_enough: Annotated[
        bool, typer.Option("--enough", help="print the ids of the fewest cases that carry 95%, one a line")
    ] = False,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show which cases and criteria tell better models from worse ones, over past runs.

    Discrimination is the correlation of a case's score with that of all other cases, over the last run of each model
    and checkpoint. Cases with a negative one are failed by better models: read them, their reference or criterion may
    be wrong.

    \b
    gradebook suite cases items support
    gradebook suite cases items support --enough > shorter.txt

    Exit: 0 done, 2 bad input.
    """
    discrimination = suite_items(find_lake(lake, data), suite)
    if as_json:
        print_json(discrimination.as_json())
        return
    if only_enough:
        say(*(item.name for item in discrimination.items if item.kind == "case" and item.is_enough))
        return
    say(f"over {counted(discrimination.model_count, 'model or checkpoint', 'models and checkpoints')}")
    for kind, head in (("criterion", "criteria"), ("case", "cases, the lowest discrimination first")):
        rows = [row for row in discrimination.items if row.kind == kind]
        if not rows:
            continue
        listed = rows if show_all else rows[:MOST_ROWS]
        show(table_from(head, {kind: lambda row: row.name}, _ITEM, listed))
        if len(rows) > len(listed):
            say(f"and {len(rows) - len(listed):,} more: --all shows them")
    say(*(f"{note}." for note in discrimination.notes))


def _case_files(suite: str, only: list[str] | None) -> list[str]:
    """Files of the cases; for a suites file, the outputs of its suites at today's date."""
    if not suite.endswith(SUITES):
        return [suite]
    from gradebook.tasks.operations.suites import chosen_suites, read_suites, suite_request

    now = datetime.now(UTC)
    night = now.astimezone().date()
    suites = chosen_suites(read_suites(Path(suite)), only)
    return [
        suite_request(chosen_suite, night, now, lake=None, data=None, budget_usd=None).outputs
        for chosen_suite in suites
    ]
