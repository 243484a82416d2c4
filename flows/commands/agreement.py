"""The commands `gradebook people agreement`, `raters` and `calibrate`: agreement, and means corrected by ratings."""

from enum import StrEnum
from typing import Annotated

import typer

from gradebook.flows.commands.options import (
    DEFAULT_LAKE,
    AtOption,
    DataOption,
    JsonOption,
    LakeOption,
    PrefectOption,
    complete_criterion,
    complete_run,
    print_json,
)
from gradebook.flows.commands.read_lake import read_lake
from gradebook.flows.display.agreement import show_agreement, show_calibration, show_raters
from gradebook.flows.display.terminal import stdout
from gradebook.flows.run import run_here
from gradebook.tasks.agreement.calibration import calibrate_run
from gradebook.tasks.agreement.published_run import measure_run
from gradebook.tasks.agreement.raters import compare_raters
from gradebook.tasks.published.runs import latest_run


class By(StrEnum):
    """Breakdowns of `gradebook people agreement`."""

    rater = "rater"
    judge = "judge"


CriterionOption = Annotated[
    str | None,
    typer.Option("--criterion", help="only this criterion, in full detail", autocompletion=complete_criterion),
]


def agreement(  # noqa: PLR0913 - each is an option
    run: Annotated[
        str | None, typer.Argument(help="a run's id; default: the latest published run", autocompletion=complete_run)
    ] = None,
    rubric: Annotated[
        str | None, typer.Option("--rubric", help="without RUN: the latest run of this rubric (its id)")
    ] = None,
    criterion: CriterionOption = None,
    by: Annotated[By | None, typer.Option("--by", help="compare each rater, or each judge, with the others")] = None,
    at: AtOption = None,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show agreement among raters, and between raters and judges.

    Each figure has a 95% interval over cases, or the reason why there is none. All ratings in the lake count; with
    --at, all ratings in the lake at that time.

    \b
    gradebook people agreement
    gradebook people agreement 20261101-020000-a1b2c3 --by rater
    gradebook people agreement --rubric support_reply --criterion tone --json
    gradebook people agreement --at 2026-11-01
    """
    measured = measure_run(read_lake(lake, data, at), run, rubric_id=rubric, criterion_id=criterion)
    if as_json:
        print_json(measured.as_json())
    else:
        show_agreement(measured, None if by is None else by.value, is_full=criterion is not None)


def raters(  # noqa: PLR0913 - each is an option
    run: Annotated[
        str | None, typer.Argument(help="a run's id; default: the latest published run", autocompletion=complete_run)
    ] = None,
    criterion: Annotated[
        str | None, typer.Option("--criterion", help="only this criterion", autocompletion=complete_criterion)
    ] = None,
    pairs: Annotated[bool, typer.Option("--pairs", help="also compare each rater with each other one")] = False,
    labels: Annotated[
        bool, typer.Option("--labels", help="also settle each output's level from all raters and judges (Dawid-Skene)")
    ] = False,
    at: AtOption = None,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare a run's raters: agreement with the others, and who is stricter.

    Each figure has a 95% interval over cases, or the reason why there is none.

    \b
    gradebook people raters
    gradebook people raters 20261101-020000-a1b2c3 --pairs
    gradebook people raters --criterion tone --json
    gradebook people raters --labels --json
    """
    comparison = compare_raters(
        read_lake(lake, data, at), run, criterion_id=criterion, has_pairs=pairs, has_labels=labels
    )
    if as_json:
        print_json(comparison.as_json())
    else:
        show_raters(comparison)


def calibrate(  # noqa: PLR0913 - each is an option
    run: Annotated[
        str | None,
        typer.Argument(help="a run's id; default: the latest published run", autocompletion=complete_run),
    ] = None,
    criterion: CriterionOption = None,
    rate_next: Annotated[int, typer.Option("--rate-next", help="number of outputs to suggest for rating")] = 0,
    at: AtOption = None,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
    prefect: PrefectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Correct the judge's means using people's ratings.

    Ratings of some of the outputs are enough. The intervals account for the judge's errors.

    \b
    gradebook people calibrate
    gradebook people calibrate 20261101-020000-a1b2c3
    gradebook people calibrate 20261101-020000-a1b2c3 \\
        --criterion tone --rate-next 20
    """
    found_lake = read_lake(lake, data, at)
    run_id = run or latest_run(found_lake)
    calibration = run_here(
        lambda: calibrate_run(found_lake, run_id, criterion_id=criterion, next_count=rate_next),
        "calibrate_judge:calibrate_judge",
        {"run_id": run_id, "criterion": criterion, "rate_next": rate_next, "at": at, "lake": lake, "data": data},
        prefect=prefect,
    )
    if as_json:
        print_json(calibration.as_json())
    else:
        show_calibration(calibration)
        if rate_next and not calibration.next_outputs:
            stdout.print("no output is left to rate")
