"""The command `gradebook compare`: two runs, or two models of one, case by case."""

from math import isfinite
from typing import Annotated

import typer

from gradebook.flows.commands.options import (
    DEFAULT_LAKE,
    NOT_MET,
    AtOption,
    DataOption,
    FailIfOption,
    JsonOption,
    LakeOption,
    print_json,
)
from gradebook.rubrics.model.errors import InputError

MOST_RESAMPLES = 1_000_000


def compare(  # noqa: PLR0913 - each is an option
    run_a: Annotated[str, typer.Argument(help="a run's id: the baseline")],
    run_b: Annotated[str | None, typer.Argument(help="a run's id; none: two models of RUN_A")] = None,
    model_a: Annotated[
        str | None, typer.Option("--model-a", help="the baseline's model, as `gradebook report`")
    ] = None,
    model_b: Annotated[str | None, typer.Option("--model-b", help="the other model")] = None,
    fail_if: FailIfOption = None,
    share_at: Annotated[
        list[float] | None, typer.Option("--share-at", help="P(score <= this) of both; may be repeated")
    ] = None,
    resamples: Annotated[int, typer.Option("--resamples", help="of the bootstrap intervals; 0: none")] = 10_000,
    at: AtOption = None,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Put two runs, or two models of one, beside each other, case by case; differences are B - A.

    Runs on different rubric versions are compared on the criteria whose text is the same, under a banner that says so.
    A rule of --fail-if speaks of the figures that --json names: mean_diff, p, worse_rate, criterion.ID.p_adjusted,
    any criterion (mean_diff < 0 and p_adjusted < 0.05); and, or, not and brackets join them.

    \b
    gradebook compare 20261101-020000-a1b2c3 20261102-020000-d4e5f6
    gradebook compare nightly-1 nightly-2 --fail-if "mean_diff < -0.01 and p < 0.05"
    gradebook compare nightly-1 --model-a small --model-b large --json

    Exit: 0 done, 1 the rule holds or can't be known, 2 bad input.
    """
    from gradebook.flows.display.comparison import show_comparison
    from gradebook.tasks.comparing.compare import Asked, compare_runs
    from gradebook.tasks.lake.versions import find_lake_at

    if not 0 <= resamples <= MOST_RESAMPLES:
        raise InputError(f"--resamples: found {resamples:,}, expected 0 to {MOST_RESAMPLES:,}")
    for score in share_at or ():
        if not isfinite(score):
            raise InputError(f"--share-at: found {score:g}, expected a finite number")
    asked = Asked((model_a, model_b), fail_if, resamples, tuple(share_at or ()))
    found = compare_runs(find_lake_at(lake, data, at), run_a, run_b, asked)
    if as_json:
        print_json(found.as_json())
    else:
        show_comparison(found)
    if found.gate is not None and found.gate.is_failed:
        raise typer.Exit(NOT_MET)
