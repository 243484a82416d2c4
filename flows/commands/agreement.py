"""The commands `gradebook agreement` and `gradebook calibrate`: how far the judge is to be trusted."""

from enum import StrEnum
from typing import Annotated

import typer

from gradebook.flows.commands.options import DEFAULT_LAKE, AtOption, DataOption, JsonOption, LakeOption, print_json


class By(StrEnum):
    """Whom `gradebook agreement` shows one by one."""

    rater = "rater"
    judge = "judge"


CriterionOption = Annotated[str | None, typer.Option("--criterion", help="this criterion alone, in full")]


def agreement(  # noqa: PLR0913 - each is an option
    run: Annotated[str | None, typer.Argument(help="a run's id; default: the run published last")] = None,
    rubric: Annotated[str | None, typer.Option("--rubric", help="without RUN: the last run of this rubric")] = None,
    criterion: CriterionOption = None,
    by: Annotated[By | None, typer.Option("--by", help="each rater, or each judge, against the others")] = None,
    at: AtOption = None,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show how far raters agree, the judge agrees with them, and judges with each other.

    Each figure has its 95% interval, by a bootstrap over outputs. All ratings that the lake holds count;
    with --at, those that it held then.

    \b
    gradebook agreement
    gradebook agreement 20261101-020000-a1b2c3 --by rater
    gradebook agreement --rubric support_reply --criterion tone --json
    gradebook agreement --at 2026-11-01
    """
    from gradebook.tasks.agreement.published_run import measure_run
    from gradebook.tasks.lake.versions import find_lake_at

    found = measure_run(find_lake_at(lake, data, at), run, rubric_id=rubric, criterion_id=criterion)
    if as_json:
        print_json(found.as_json())
        return
    from gradebook.flows.display.agreement import show_agreement

    show_agreement(found, None if by is None else by.value, is_full=criterion is not None)


def calibrate(
    run: Annotated[str, typer.Argument(help="a run's id")],
    criterion: CriterionOption = None,
    rate_next: Annotated[int, typer.Option("--rate-next", help="how many outputs to name that should be rated")] = 0,
    at: AtOption = None,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Correct the judge's means by people's ratings of some of the outputs, with honest intervals.

    \b
    gradebook calibrate 20261101-020000-a1b2c3
    gradebook calibrate 20261101-020000-a1b2c3 --criterion tone --rate-next 20
    """
    from gradebook.tasks.agreement.calibration import calibrate_run
    from gradebook.tasks.lake.versions import find_lake_at

    found = calibrate_run(find_lake_at(lake, data, at), run, criterion_id=criterion, next_count=rate_next)
    if as_json:
        print_json(found.as_json())
        return
    from gradebook.flows.display.agreement import show_calibration

    show_calibration(found)
