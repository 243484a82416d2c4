"""The commands `gradebook people outcomes`: outcomes in use, compared with the scores."""

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
    complete_run,
    print_json,
)
from gradebook.flows.display.terminal import plain, say, show_rows, stderr
from gradebook.rubrics.files.dump import rubric_yaml
from gradebook.rubrics.text.wording import counted, rate_words
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.runs.request import read_column_map


def import_file(  # noqa: PLR0913 - each is an option
    file: Annotated[
        str, typer.Argument(help="JSON Lines, CSV or Parquet with name, value and output_id, case_id or day")
    ],
    name: Annotated[str | None, typer.Option("--name", help="name of the outcome, for rows without one")] = None,
    lower: Annotated[bool, typer.Option("--lower-is-better", help="a lower value is better, as of refunds")] = False,
    column_map: MapOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="show the outcome and write nothing")] = False,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Import outcomes by output, case or day; a new value replaces the old one.

    \b
    gradebook people outcomes import clicks.csv --name clicks --map value=count
    gradebook people outcomes import refunds.parquet --lower-is-better

    Exit: 0 done, 2 bad input: nothing was written.
    """
    from gradebook.tasks.agreement.outcomes import OutcomeFile, import_outcomes

    outcome_file = OutcomeFile(file, name, not lower, read_column_map(column_map or []))
    imported = import_outcomes(find_lake(lake, data), outcome_file, datetime.now(UTC), is_dry=dry_run)
    if as_json:
        print_json(imported.as_json() | {"is_dry_run": dry_run})
        return
    head = "would import" if dry_run else "imported"
    rows = counted(imported.row_count, "row")
    say(f"{head} {counted(imported.new_count, 'new outcome')} of {rows}: {', '.join(imported.names)}")
    if imported.changed_count:
        say(f"{counted(imported.changed_count, 'earlier value')} replaced")
    if imported.unmatched_count:
        stderr.print(
            f"{counted(imported.unmatched_count, 'row')} of an output, case or day that the lake lacks", markup=False
        )


def list_names(lake: LakeOption = DEFAULT_LAKE, data: DataOption = None, as_json: JsonOption = False) -> None:
    """List the outcomes of the lake.

    \b
    gradebook people outcomes list
    """
    from gradebook.tasks.agreement.outcomes import list_outcomes

    rows = list_outcomes(find_lake(lake, data))
    if as_json:
        print_json({"outcomes": list(rows)})
        return
    if not rows:
        stderr.print("no outcomes yet; `gradebook people outcomes import` reads a file of them")
        return
    headings = ("name", "by", "values", "least", "most", "better", "source")
    names = ("name", "grain", "value_count", "least", "most")
    cells = [
        (*(row[name] for name in names), "higher" if row["is_higher_better"] else "lower", row["source"])
        for row in rows
    ]
    show_rows(headings, cells)


def show(
    run: Annotated[
        str | None, typer.Argument(help="a published run's id; default: the last", autocompletion=complete_run)
    ] = None,
    draft: Annotated[
        Path | None, typer.Option("--draft", help=".yaml file to write: the rubric's next version with those weights")
    ] = None,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show how the scores of a run follow outcomes, and where weights would have to go.

    \b
    gradebook people outcomes show 20261101-020000-a1b2c3
    gradebook people outcomes show --draft reweighted.yaml
    """
    from gradebook.tasks.agreement.outcomes import LIMITS, cells_of, measure_outcomes, propose_weights
    from gradebook.tasks.published.runs import latest_run
    from gradebook.tasks.rubric_store.files import write_new

    found_lake = find_lake(lake, data)
    run_id = run or latest_run(found_lake)
    outcomes = measure_outcomes(found_lake, run_id)
    if draft is not None:
        proposed = propose_weights(found_lake, run_id, datetime.now(UTC).date())
        write_new(draft, rubric_yaml(proposed))
        sentence = f"wrote {proposed.id} {proposed.version} with the suggested weights"
        stderr.print(f"{sentence}: `gradebook rubric register {draft} --state draft` stores it", markup=False)
    if as_json:
        print_json({"outcomes": [outcome.as_json() for outcome in outcomes], "limits": LIMITS})
        return
    if not outcomes:
        stderr.print("no outcome of the run's outputs, cases or days: `gradebook people outcomes import` adds some")
        return
    for outcome in outcomes:
        better = "" if outcome.is_higher_better else ", lower is better"
        say(f"{plain(outcome.name)} by {outcome.grain}{better}: {plain(outcome.model)}")
        headings = ("score", "Spearman", "95% interval", "Pearson", "weight", "suggested", "cases")
        show_rows(headings, [cells_of(row) for row in outcome.rows], bold=(0,))
        if outcome.r2_fit is not None and outcome.r2_now is not None:
            has_some = any(row.suggested is not None for row in outcome.rows)
            fit = f"{rate_words(outcome.r2_fit)} by suggested weights" if has_some else "no weights follow the outcome"
            say(f"explained: {rate_words(outcome.r2_now)} by the score, {fit}")
    say(LIMITS)
