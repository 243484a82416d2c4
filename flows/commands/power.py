"""The command `gradebook suite power`: the sample size, detectable effect or power of a comparison."""

from math import inf, isnan
from typing import Annotated, Any

import typer

from gradebook.flows.commands.options import DEFAULT_LAKE, DataOption, JsonOption, LakeOption, print_json
from gradebook.flows.display.terminal import plain, say
from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.statistics.power import (
    Margin,
    deciding_effect,
    deciding_n,
    deciding_power,
    detectable_effect,
    needed_n,
    power_of,
    sd_of_case,
)
from gradebook.rubrics.statistics.rules import EQUIVALENT, NOT_WORSE, RELEASE_MARGIN
from gradebook.tasks.comparing.expected_power import ShownMargin, expect_margin
from gradebook.tasks.lake.address import find_lake

T_TEST, INTERVAL = "two-sided t test", "the interval that decides"


def power(  # noqa: PLR0913 - each is an option
    sd: Annotated[
        float | None, typer.Option("--sd", help="standard deviation of the differences; with --unpaired, of the scores")
    ] = None,
    suite: Annotated[
        str | None,
        typer.Option(
            "--for", help="a suite or rubric of the lake: what not_worse_by can show, by its past differences"
        ),
    ] = None,
    effect: Annotated[
        float | None, typer.Option("--effect", help="true mean difference to detect; with --margin: 0 unless given")
    ] = None,
    margin: Annotated[float | None, typer.Option("--margin", help="margin M of a gate not_worse_by(M)")] = None,
    is_both: Annotated[
        bool, typer.Option("--equivalent", help="with --margin: of equivalent_within(M), not better by M either")
    ] = False,
    n: Annotated[int | None, typer.Option("--n", help="number of pairs; with --unpaired, of outputs per side")] = None,
    wanted: Annotated[float, typer.Option("--power", help="chance of detecting a true difference")] = 0.8,
    alpha: Annotated[float, typer.Option("--alpha", help="significance level (false-positive rate)")] = 0.05,
    is_paired: Annotated[bool, typer.Option("--paired/--unpaired", help="paired or independent samples")] = True,
    samples: Annotated[int, typer.Option("--samples", help="outputs per case; --n then counts cases")] = 1,
    icc: Annotated[
        float | None, typer.Option("--icc", help="with --samples: correlation of a case's outputs, 0..1")
    ] = None,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compute a comparison's sample size, detectable effect or power.

    --effect gives the number of cases, --n the detectable effect, both together the power. It is that of the
    interval that decides on pairs, with normal differences; with --unpaired and --equivalent it is that of Student's t.
    With --margin: the number of cases with which a gate on a margin passes, or with --n the chance that it passes.
    For --sd take the sd_diff of an earlier comparison. If a case has several outputs, give --samples and --icc.
    --for SUITE simulates the interval that decides a gate, with the differences of the suite's last comparison: the
    margin that so many cases can show, and how many cases 0.02, or --margin, takes.

    \b
    gradebook suite power --for support
    gradebook suite power --sd 0.3 --effect 0.05
    gradebook suite power --sd 0.3 --margin 0.02
    gradebook suite power --sd 0.3 --n 200
    gradebook suite power --sd 0.3 --n 200 --samples 5 --icc 0.4
    gradebook suite power --sd 0.3 --effect 0.05 --n 200 --unpaired
    """
    if suite is not None:
        _refuse_with_suite({"--sd": sd, "--effect": effect, "--icc": icc}, margin, n, wanted)
        _show_for(expect_margin(find_lake(lake, data), suite, n, margin or RELEASE_MARGIN, wanted), as_json=as_json)
        return
    if sd is None:
        raise InputError("power", "neither --sd nor --for", "one of them")
    _refuse_bad_margin(margin, effect, is_both=is_both)
    effect = 0.0 if margin is not None and effect is None else effect
    _refuse_bad(sd, effect if margin is None else effect or 1.0, n, wanted, alpha)
    _refuse_bad_samples(samples, icc)
    row: dict[str, object] = {"sd": sd, "effect": effect, "n": n, "power": wanted, "alpha": alpha}
    row |= {
        "test": T_TEST,
        "is_paired": is_paired,
        "margin": margin,
        "is_equivalence": is_both,
        "samples": samples,
        "icc": icc,
    }
    of_case = sd_of_case(sd, samples, icc or 0.0)
    of_margin = None if margin is None else Margin(margin, is_both)
    row |= _solved(of_case, effect, n, of_margin, wanted, alpha=alpha, is_paired=is_paired)
    if as_json:
        print_json(row)
    else:
        say(_sentence(row))


def _show_for(margin: ShownMargin, *, as_json: bool) -> None:
    if as_json:
        print_json(margin.as_json())
    else:
        say(plain(margin.sentence))


def _refuse_with_suite(replaced: dict[str, float | None], margin: float | None, n: int | None, power: float) -> None:
    """Raise `InputError` for options that `--for` replaces, and for values that it can't use."""
    for option, value in replaced.items():
        if value is not None:
            raise InputError("--for", f"{option} too", "one of them: the differences are those of the suite")
    _refuse_bad_margin(margin, None, is_both=False)
    _refuse_bad(1.0, 1.0, n, power, min(0.05, power / 2))


def _solved(
    sd: float, effect: float | None, n: int | None, margin: Margin | None, wanted: float, **how: Any
) -> dict[str, object]:
    """Row of `power`: computes n, effect or power from the two others. how: alpha and is_paired.

    For pairs by the interval that decides, which also allows for rare losses that n pairs can't show; else by a t-test.
    """
    if how["is_paired"] and sd <= 1.0 and (margin is None or not margin.is_both):
        return _decided(abs(effect) if effect and margin is None else effect, sd, n, margin, wanted, how["alpha"])
    if effect is None:
        return {"effect": detectable_effect(sd, n or 0, power=wanted, **how)}
    if n is None:
        return {"n": (margin.needed_n if margin else needed_n)(effect, sd, power=wanted, **how)}
    return {"power": (margin.power_of if margin else power_of)(effect, sd, n, **how)}


def _decided(
    effect: float | None, sd: float, n: int | None, margin: Margin | None, wanted: float, alpha: float
) -> dict[str, object]:
    if effect is None:
        return {"effect": deciding_effect(sd, n or 0, power=wanted, alpha=alpha), "test": INTERVAL}
    above = 0.0 if margin is None else margin.margin
    if n is None:
        return {"n": deciding_n(effect, sd, power=wanted, alpha=alpha, margin=above), "test": INTERVAL}
    return {"power": deciding_power(effect, sd, n, alpha=alpha, margin=above), "test": INTERVAL}


def _refuse_bad(sd: float, effect: float | None, n: int | None, power: float, alpha: float) -> None:
    if not 0 < sd < inf:
        raise InputError("--sd", f"{sd:g}", "a number above 0")
    if effect is None and n is None:
        raise InputError("power", "neither --effect nor --n", "one of them or both")
    if effect is not None and (isnan(effect) or not 0 < abs(effect) < inf):
        raise InputError("--effect", f"{effect:g}", "a difference other than 0")
    if n is not None and n < 2:
        raise InputError("--n", str(n), "2 or more")
    if not 0 < alpha < power < 1:
        raise InputError("--power, --alpha", f"{power:g} and {alpha:g}", "0 < alpha < power < 1")


def _refuse_bad_samples(samples: int, icc: float | None) -> None:
    if samples < 1:
        raise InputError("--samples", str(samples), "1 or more")
    if icc is not None and not 0 <= icc <= 1:
        raise InputError("--icc", f"{icc:g}", "a number from 0 to 1")
    if (samples > 1) != (icc is not None):
        raise InputError("power", "one of --samples and --icc", "both or neither")


def _refuse_bad_margin(margin: float | None, effect: float | None, *, is_both: bool) -> None:
    if margin is None:
        if is_both:
            raise InputError("--equivalent", "no --margin", "--margin M too")
        return
    if not 0 < margin < inf:
        raise InputError("--margin", f"{margin:g}", "a number above 0")
    if effect is not None and (not -margin < effect < inf or (is_both and effect >= margin)):
        raise InputError("--effect", f"{effect:g}", f"a difference within the margin of {margin:g}")


def _sentence(row: dict[str, object]) -> str:
    units = "pairs" if row["is_paired"] else "outputs per side"
    if row["icc"] is not None:
        units = f"cases{'' if row['is_paired'] else ' per side'} of {row['samples']} outputs"
    if row["margin"] is not None:
        rule = f"{EQUIVALENT if row['is_equivalence'] else NOT_WORSE}({row['margin']:g})"
        how = "two-sided interval" if row["test"] == T_TEST else row["test"]
        true = f"a true difference of {row['effect']:g} (sd {row['sd']:g}, {how} at {row['alpha']:g})"
        if row["n"] is None:
            return f"No feasible number of {units} passes {rule} at {true}."
        return f"{row['n']:,} {units} pass {rule} with a chance of {row['power']:.3f} at {true}."
    test = f"(sd {row['sd']:g}, {row['test']} at {row['alpha']:g})"
    if row["n"] is None:
        return f"No feasible number of {units} finds a difference of {row['effect']:g} {test}."
    return (
        f"{row['n']:,} {units} find a true difference of {row['effect']:.3g} with a power of {row['power']:.3f} {test}."
    )
