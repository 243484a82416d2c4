"""The command `gradebook noise`: how far the judge agrees with itself, and how often a gate would fire on nothing."""

from typing import Annotated

import typer

from gradebook.flows.commands.options import DEFAULT_LAKE, DataOption, JsonOption, LakeOption, print_json
from gradebook.rubrics.model.errors import InputError

MOST_DRAWS = 100_000


def noise(
    run: Annotated[str, typer.Argument(help="a run's id; its judge has `replicates: 2` or more")],
    fail_if: Annotated[
        list[str] | None, typer.Option("--fail-if", help="a rule of `gradebook compare` to try; may be repeated")
    ] = None,
    draws: Annotated[int, typer.Option("--draws", help="how often two sides are drawn from the replies")] = 1_000,
    seed: Annotated[int, typer.Option("--seed", help="of the draws")] = 0,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show how far a judge's replies on one output differ, and how often a gate would fire on that alone.

    The A/A check: of each output one reply goes to A and another one to B, at random, so that nothing has changed
    between the two; the share of such draws in which a rule holds is its rate of false alarms.

    \b
    gradebook noise 20261101-020000-a1b2c3
    gradebook noise nightly-1 --fail-if "mean_diff < -0.01 and p < 0.05"
    gradebook noise nightly-1 --fail-if "any criterion (mean_diff < 0 and p < 0.05)" --draws 5000 --json

    Exit: 0 done, whatever fired, 2 bad input.
    """
    from gradebook.tasks.comparing.aa_test import measure_noise
    from gradebook.tasks.lake.address import find_lake

    if not 1 <= draws <= MOST_DRAWS:
        raise InputError(f"--draws: found {draws:,}, expected 1 to {MOST_DRAWS:,}")
    if seed < 0:
        raise InputError(f"--seed: found {seed}, expected 0 or more")
    found = measure_noise(find_lake(lake, data), run, fail_if or (), draw_count=draws, seed=seed)
    if as_json:
        print_json(found.as_json())
        return
    from gradebook.flows.display.noise import show_noise

    show_noise(found)
