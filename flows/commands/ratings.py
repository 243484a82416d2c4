"""The commands `gradebook people ratings ...`: import, list and show people's ratings."""

from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from gradebook.flows.commands.options import (
    DEFAULT_LAKE,
    AtOption,
    DataOption,
    JsonOption,
    LakeOption,
    MapOption,
    complete_criterion,
    complete_run,
    print_json,
)
from gradebook.flows.commands.read_lake import read_lake
from gradebook.flows.display.terminal import filled_columns, heading_words, say, show_rows, stderr
from gradebook.rubrics.text.wording import counted, score_words
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.ratings.import_ratings import RatingImport, import_ratings
from gradebook.tasks.ratings.import_sheets import RatingFile
from gradebook.tasks.ratings.offered import take_ratings
from gradebook.tasks.ratings.tables import count_ratings, find_ratings
from gradebook.tasks.rubric_store.versions import find_rubric
from gradebook.tasks.runs.request import read_column_map


class RatingFormat(StrEnum):
    """File formats of ratings."""

    potato = "potato"
    scale = "scale"
    csv = "csv"
    label_studio = "label-studio"
    jsonl = "jsonl"


class Numbers(StrEnum):
    """Meanings of a number that is not the id of a level."""

    auto = "auto"
    rank = "rank"
    score = "score"


def import_file(  # noqa: PLR0913 - each is an option
    file: Annotated[Path, typer.Argument(help="JSON Lines, JSON or CSV, plain, .gz or .zst")],
    rubric: Annotated[
        str,
        typer.Option("--rubric", help="rubric with the rated criteria: a file, a shipped name, ID@VERSION, or none"),
    ],
    form: Annotated[
        RatingFormat | None, typer.Option("--format", help="file format; default: detected from the first row")
    ] = None,
    column_map: MapOption = None,
    rater: Annotated[str | None, typer.Option("--rater", help="rater of all rows without one")] = None,
    numbers: Annotated[
        Numbers,
        typer.Option("--numbers", help="meaning of numbers that are not level ids; auto: detected from the file"),
    ] = Numbers.auto,
    missing: Annotated[
        list[str] | None, typer.Option("--missing", help='a value that means "not applicable"; may be repeated')
    ] = None,
    run: Annotated[
        str | None, typer.Option("--run", help="only rate outputs of this run", autocompletion=complete_run)
    ] = None,
    max_bad_rate: Annotated[float, typer.Option("--max-bad-rate", help="maximum share of invalid ratings")] = 0.01,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="show the outcome and write nothing")] = False,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Import people's ratings into the lake. Importing a file twice adds nothing.

    \b
    gradebook people ratings import annotations.jsonl --rubric rubric.yaml
    gradebook people ratings import export.json --format label-studio \\
        --rubric support_replies --dry-run
    gradebook people ratings import ratings.csv --rubric rubric.yaml \\
        --map case_id=text_id --missing 0

    Exit: 0 done, 2 bad input or too many invalid ratings: nothing was written.
    """
    rating_file = RatingFile(
        file,
        form.value if form else None,
        read_column_map(column_map or []),
        rater,
        numbers.value,
        tuple(missing or ()),
        run,
        max_bad_rate,
    )
    found_lake = find_lake(lake, data)
    imported = import_ratings(found_lake, find_rubric(rubric, found_lake), rating_file, is_dry=dry_run)
    if as_json:
        print_json(imported.as_json() | {"is_dry_run": dry_run})
    else:
        _show_import(imported, is_dry=dry_run)


def take(
    run: Annotated[str, typer.Argument(help="a run's id", autocompletion=complete_run)],
    criterion: Annotated[
        str | None,
        typer.Option("--criterion", help="only ratings of this criterion", autocompletion=complete_criterion),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="show the outcome and write nothing")] = False,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let ratings under another text of a criterion count in a run too.

    A rating belongs to the text that was rated: name, description and levels of the criterion. If a rubric says the
    same in other words, this command copies the ratings of the run's outputs to its text. The ratings that were given
    stay.

    \b
    gradebook people ratings take nightly-2 --dry-run
    gradebook people ratings take nightly-2 --criterion tone

    Exit: 0 done, 2 bad input.
    """
    outcome = take_ratings(find_lake(lake, data), run, criterion, is_dry=dry_run)
    if as_json:
        print_json(asdict(outcome) | {"is_dry_run": dry_run})
        return
    names = ", ".join(f"{count} of {name}" for name, count in outcome.counts.items())
    lines = [f"{counted(sum(outcome.counts.values()), 'rating')} under another text{f': {names}' if names else ''}"]
    lines += ["dry run: nothing was written"] if dry_run else []
    lines += [f"published as version {outcome.version}"] if outcome.version is not None else []
    say(*lines)


def list_ratings(
    at: AtOption = None, lake: LakeOption = DEFAULT_LAKE, data: DataOption = None, as_json: JsonOption = False
) -> None:
    """Show the number of ratings per rater and criterion.

    \b
    gradebook people ratings list
    """
    _show_rows(count_ratings(read_lake(lake, data, at)), as_json=as_json)


def show(
    name: Annotated[str, typer.Argument(help="an output's or a case's id")],
    at: AtOption = None,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the ratings of an output, or of a case's outputs.

    \b
    gradebook people ratings show case-17
    """
    _show_rows(find_ratings(read_lake(lake, data, at), name), as_json=as_json)


def _show_rows(rows: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        print_json({"ratings": rows})
    elif rows:
        formatted = (
            {**row, "mean_score": score_words(row["mean_score"])} if "mean_score" in row else row for row in rows
        )
        show_rows(*filled_columns(map(heading_words, rows[0]), [[*row.values()] for row in formatted]))
    else:
        stderr.print(
            "no ratings yet; `gradebook people rate` collects them, `people ratings import` reads a file of them"
        )


def _show_import(imported: RatingImport, *, is_dry: bool) -> None:
    quarantined = "" if is_dry else ", stored in the table quarantine"
    source = "name" if imported.form == "csv" else "first row"
    guessed = f" (detected from its {source})" if imported.is_guessed else ""
    rows = f"{counted(imported.row_count, 'row')}, {counted(imported.sheet_count, 'sheet')} of ratings"
    whose = f"by {counted(imported.rater_count, 'rater')} of {counted(imported.output_count, 'output')}"
    new = f"{imported.new_count:,} new"
    missing = f"{counted(imported.missing_count, 'mark')} not applicable"
    if imported.step_count:
        missing += f"; {counted(imported.step_count, 'step')} marked"
    if imported.claim_count:
        missing += f"; {counted(imported.claim_count, 'claim')} marked"
    if imported.choice_count:
        missing += f"; {counted(imported.choice_count, 'choice')} between outputs, {imported.new_choice_count:,} new"
    if imported.taken_back_count:
        missing += f"; {counted(imported.taken_back_count, 'rating')} withdrawn"
    lines = [
        f"{imported.file}: format {imported.form}{guessed}; {rows}",
        f"{counted(imported.rating_count, 'rating')} {whose}: {new}; {missing}",
        *(f"numbers of {name} are read as {meaning}s" for name, meaning in imported.numbers.items()),
        *(f"left out: {reason}" for reason in imported.left_out),
        *([f"{counted(imported.bad_count, 'sheet')} refused{quarantined}:"] if imported.bad_count else []),
        *(f"  {fault}" for fault in imported.faults),
    ]
    if is_dry:
        lines.append("dry run: nothing was written")
    if imported.version is not None:
        lines.append(f"published as version {imported.version}")
    say(*lines)
