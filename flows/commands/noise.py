"""The command `gradebook noise`: test-retest noise of a judge, and the false alarms of gates."""

from typing import Annotated

import typer

from gradebook.flows.commands.completion import complete_run
from gradebook.flows.commands.options import DEFAULT_LAKE, DataOption, JsonOption, LakeOption, print_json
from gradebook.flows.display.noise import show_noise
from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.statistics.series import read_series
from gradebook.tasks.comparing.aa_test import measure_noise
from gradebook.tasks.comparing.gate import GateRule
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.published.run_list import latest_run

MOST_DRAWS = 100_000


def noise(  # noqa: PLR0913 - each is an option
    run: Annotated[
        str | None,
        typer.Argument(
            help="id of a run with a judge of `replicates: 2` or more; default: the latest published run",
            autocompletion=complete_run,
        ),
    ] = None,
    require: Annotated[
        list[str] | None, typer.Option("--require", help="a gate to test: what has to hold; may be repeated")
    ] = None,
    fail_if: Annotated[
        list[str] | None, typer.Option("--fail-if", help="a gate to test: what fails it; may be repeated")
    ] = None,
    draws: Annotated[int, typer.Option("--draws", help="number of random splits of the replies into A and B")] = 1_000,
    series: Annotated[
        str | None,
        typer.Option("--series", help="series of looks at the gate: method=lord|obf|bonferroni,alpha=0.05,looks=31"),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="random seed of the draws")] = 0,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure judge noise, and how often it alone would fire a gate.

    This is an A/A test: for each output one reply goes to A and another to B, at random, so A and B differ by noise
    alone. The share of draws in which a gate fails is its false-alarm rate. --series gives the probability of one
    false alarm or more in a series of looks.

    \b
    gradebook noise
    gradebook noise 20261101-020000-a1b2c3
    gradebook noise nightly-1 --require "not_worse_by(0.02)"
    gradebook noise nightly-1 --fail-if "mean_diff < -0.01 and p < 0.05"
    gradebook noise nightly-1 \\
        --fail-if "any criterion (mean_diff < 0 and p < 0.05)" --draws 5000 --json
    gradebook noise nightly-1 --fail-if "mean_diff < 0 and p < 0.05" \\
        --series method=bonferroni,looks=31

    Exit: 0 done, even if a gate failed, 2 bad input.
    """
    if not 1 <= draws <= MOST_DRAWS:
        raise InputError("--draws", f"{draws:,}", f"1 to {MOST_DRAWS:,}")
    if seed < 0:
        raise InputError("--seed", str(seed), "0 or more")
    try:
        asked = None if series is None else read_series(series)
    except ValueError:
        expected = "method=lord|obf|bonferroni, alpha=0..1 and looks=1..1000, with commas between"
        raise InputError("--series", repr(series), expected) from None
    found_lake = find_lake(lake, data)
    gates = [GateRule(rule) for rule in fail_if or ()] + [GateRule(require=rule) for rule in require or ()]
    found = measure_noise(found_lake, run or latest_run(found_lake), gates, draw_count=draws, seed=seed, series=asked)
    if as_json:
        print_json(found.as_json())
    else:
        show_noise(found)
