"""Power of a gate on a margin with so many cases, by the differences of past runs; the rule that `auto` stands for."""

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import ceil
from typing import Any

import duckdb
import numpy as np

from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.statistics.arrays import Floats
from gradebook.rubrics.statistics.power import ALPHA, POWER, cases_to_show, shown_margin
from gradebook.rubrics.statistics.rules import AUTO, CHANCE_RULE, NOT_WORSE, RELEASE_MARGIN
from gradebook.rubrics.text.wording import counted
from gradebook.tasks.comparing.baseline import FailedModels
from gradebook.tasks.comparing.gate import gate_rule
from gradebook.tasks.comparing.run_comparison import planned_factor, series_factor
from gradebook.tasks.datasets.sample import read_units
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect_up_to_date
from gradebook.tasks.lake.errors import NoLakeThere
from gradebook.tasks.lake.rows import read_rows
from gradebook.tasks.lake.sql import query
from gradebook.tasks.runs.run import Run
from gradebook.tasks.system.files import write_text

LEAST_CASES = 100  # with fewer, a margin that an equal model meets is too wide to ask for
MOST_MARGIN = 0.1
_IS_SUITE = "select 1 from runs where status = 'published' and (settings::json ->> 'suite') = ? limit 1"
_IS_RUBRIC = "select 1 from runs where status = 'published' and rubric_id = ? limit 1"


@dataclass(frozen=True, slots=True)
class ShownMargin:
    """Power of not_worse_by(M). shown: the least M that an equal model meets with the power, with n cases.

    needed_n: cases for `margin`, within 3%; None: unknown. source: where the differences are from.
    """

    name: str
    n: int
    shown: float
    margin: float
    needed_n: int | None
    power: float
    source: str

    @property
    def sentence(self) -> str:
        """Sentence on the margin that so many cases can show, and on the cases that another margin takes."""
        needed = "an unknown number of" if self.needed_n is None else f"about {_rounded(self.needed_n):,}"
        return (
            f"{counted(self.n, 'case')} can show not worse by {self.shown:.2g}: an equal model passes "
            f"{NOT_WORSE}({self.shown:.2g}) in {self.power:.0%} of comparisons; {self.margin:g} takes {needed} cases "
            f"({self.source})."
        )

    def as_json(self) -> dict[str, Any]:
        names = ("name", "n", "shown", "margin", "needed_n", "power", "source", "sentence")
        return {name: getattr(self, name) for name in names}


def expect_margin(
    lake: Lake,
    name: str,
    n: int | None = None,
    margin: float = RELEASE_MARGIN,
    power: float = POWER,
    seed: int = 0,
    factor: float | None = None,
) -> ShownMargin:
    """Margin that a gate can show for a suite, or for a rubric if no suite has that name.

    n: number of cases; None: as in the last run. factor: of the comparison, by its place in a series and the choice of
    its baseline; None: as in the last one. Raises `InputError` for an unknown name, and without two scored cases.
    """
    rngs = np.random.default_rng(seed).spawn(3)
    with connect_up_to_date(lake) as connection:
        past = _past_differences(connection, suite_scope(connection, name, "--for"), rngs[0])
    if past.differences.size < 2:
        raise InputError("--for", f"{name}, without two scored cases", "a suite or rubric with a published run")
    factor, count = factor or past.factor, n or past.case_count
    margin_shown = shown_margin(past.differences, count, rngs[1], power=power, chosen_from=factor)
    needed_n = cases_to_show(past.differences, margin, rngs[2], power=power, chosen_from=factor)
    of_level = (
        "" if factor == 1 else f"; at level {ALPHA / factor:.2g}, which the series or the choice of the best leaves"
    )
    return ShownMargin(name, count, margin_shown, margin, needed_n, power, past.source + of_level)


def forecast_margin(run: Run, shards: Sequence[str], failed_models: FailedModels) -> str | None:
    """Sentence on what a planned run's gate can show with its cases; None without a margin, or without earlier runs."""
    gate = gate_rule(run.request.fail_if, run.require)
    if run.request.require == AUTO:
        return str(json.loads(run.folder.rule_file.read_text(encoding="utf-8"))["sentence"])
    if gate is None or gate.margin is None:
        return None
    expected = _expect_for_run(run, shards, gate.margin, failed_models)
    return None if expected is None else expected.sentence


def choose_rule(run: Run, shards: Sequence[str], failed_models: FailedModels) -> None:
    """Choose the rule of `--require auto` by the number of cases and the past spread, and store it in the run's folder.

    failed_models: of earlier runs, one of which may be the baseline. A resumed run keeps its rule, whatever was
    published since.
    """
    if run.request.require != AUTO or run.folder.rule_file.exists():
        return
    count = _count_cases(shards)
    expected = _expect_for_run(run, shards, RELEASE_MARGIN, failed_models)
    rule = fitting_rule(count, expected)
    why = (
        f"no earlier run of {run.rubric.id} tells which margin they can show."
        if expected is None
        else expected.sentence
    )
    meaning = " (not worse beyond chance)" if rule == CHANCE_RULE else ""
    sentence = f"--require auto: with {counted(count, 'case')} the rule is `{rule}`{meaning}; {why}"
    write_text(run.folder.rule_file, json.dumps({"require": rule, "sentence": sentence}))
    run.folder.add_notes([sentence])


def fitting_rule(count: int, expected: ShownMargin | None) -> str:
    """Rule that so many cases can carry: a margin that an equal model meets with the power, in hundredths, or else that
    the model is not shown to be worse.
    """
    if expected is None or count < LEAST_CASES or not expected.shown <= MOST_MARGIN:
        return CHANCE_RULE
    return f"{NOT_WORSE}({max(ceil(expected.shown * 100 - 1e-9) / 100, RELEASE_MARGIN):g})"


def _count_cases(shards: Sequence[str]) -> int:
    return len({*read_units(shards).values()})


def _expect_for_run(run: Run, shards: Sequence[str], margin: float, failed_models: FailedModels) -> ShownMargin | None:
    """Margin that the cases of a run can show, by its suite, or else its rubric; None without earlier runs."""
    for name in filter(None, (run.request.suite, run.rubric.id)):
        with suppress(InputError, NoLakeThere):
            factor = planned_factor(run, shards, failed_models)
            return expect_margin(run.lake, name, _count_cases(shards), margin, factor=factor)
    return None


def suite_scope(connection: duckdb.DuckDBPyConnection, name: str, option: str) -> dict[str, str | None]:
    """Parameters of queries over past runs: the suite or the rubric of that name, which the option gives.

    Raises `InputError` for an unknown one.
    """
    if read_rows(connection, _IS_SUITE, name):
        return {"suite": name, "rubric_id": None}
    if read_rows(connection, _IS_RUBRIC, name):
        return {"suite": None, "rubric_id": name}
    raise InputError(option, repr(name), "a suite or a rubric with a published run in the lake")


@dataclass(frozen=True, slots=True)
class _Past:
    """Past differences of cases, (case,), where they are from, and the number of cases of a model in the last run.

    factor: for p of the comparison that they are from.
    """

    differences: Floats
    source: str
    case_count: int
    factor: float = 1


def _past_differences(
    connection: duckdb.DuckDBPyConnection, scope: dict[str, str | None], rng: np.random.Generator
) -> _Past:
    rows = read_rows(connection, query("comparing/last_scores"), **scope)
    models = [row["model"] for row in rows]
    count = max(map(models.count, set(models)), default=0)
    compared = read_rows(connection, query("comparing/past_differences"), **scope)
    if compared:
        differences = np.array([row["difference"] for row in compared], np.float64)
        first = compared[0]
        source = f"by the differences between {first['baseline_run_id']} and {first['run_id']}"
        return _Past(differences, source, count, series_factor(connection, first["run_id"]))
    scores = np.array([row["score"] for row in rows], np.float64)
    source = "by the spread of scores in one run, as if every case were drawn anew: a second run shows more"
    return _Past(rng.permutation(scores) - scores, source, count)


def _rounded(count: int) -> int:
    """Number of cases rounded to two digits, the precision of the simulation."""
    return round(count, 2 - len(str(count)))
