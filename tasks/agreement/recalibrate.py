"""A judge's probabilities recalibrated by people's ratings of a run, criterion by criterion."""

import json
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

import numpy as np

from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.model.json_values import digest_of
from gradebook.rubrics.statistics.judge_quality import LEAST_RATED, Recalibrated, recalibrate
from gradebook.rubrics.text.wording import counted
from gradebook.tasks.agreement.mart import add_decisions_of_run, add_ratings_of_run
from gradebook.tasks.agreement.published_run import find_run
from gradebook.tasks.judging.settings.judge import JudgeSettings, Recalibration
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect_up_to_date
from gradebook.tasks.lake.rows import Row, read_rows
from gradebook.tasks.lake.sql import query

SEED = 20_261_129
DECIMALS = 3  # decimals of a temperature in a judge file


@dataclass(frozen=True, slots=True)
class CriterionFit:
    """Fitted temperature of one criterion. found: None without enough ratings. reason: why nothing changes."""

    criterion_id: str
    found: Recalibrated | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class RunRecalibration:
    """Temperatures by criterion, from the ratings of a run.

    left_out_count: rated verdicts with probabilities whose outputs only a rule chose for rating.
    """

    run: Row
    rows: tuple[CriterionFit, ...]
    left_out_count: int = 0

    @property
    def recalibration(self) -> Recalibration | None:
        """Settings for a judge file; None if no criterion got better beyond chance."""
        fitted = {
            row.criterion_id: round(row.found.temperature, DECIMALS)
            for row in self.rows
            if row.found is not None and row.reason is None
        }
        if not fitted:
            return None
        digest = digest_of(json.dumps(fitted, sort_keys=True))[:8]
        return Recalibration(version=f"{self.run['run_id']}-{digest}", temperatures=fitted)

    def as_json(self) -> dict[str, Any]:
        setting = self.recalibration
        return {
            "run_id": self.run["run_id"],
            "recalibration": None if setting is None else setting.model_dump(mode="json"),
            "criteria": [asdict(row) for row in self.rows],
            "left_out_count": self.left_out_count,
        }

    def applied(self, judge: JudgeSettings) -> JudgeSettings:
        """The judge with the temperatures. Raises `InputError` for another model, or if there are none."""
        if judge.judge != self.run["judge"]:
            raise InputError(
                "--judge", f"the model {judge.judge}", f"{self.run['judge']}, as of run {self.run['run_id']}"
            )
        if self.recalibration is None:
            raise InputError("--write", "no criterion on which a temperature helps beyond chance", "more ratings")
        settings = judge.model_dump(exclude_unset=True) | {"recalibration": self.recalibration}
        return JudgeSettings.model_validate(settings)


def recalibrate_run(lake: Lake, run_id: str) -> RunRecalibration:
    """Fit a temperature for each criterion with enough rated outputs that have the judge's probabilities.

    Outputs that only a rule chose for rating, such as those the judge is unsure of, are left out: the judge's error
    rate on them differs from that on all outputs. Raises `InputError` for an unknown run, and for one without rated
    outputs with probabilities.
    """
    with connect_up_to_date(lake) as connection:
        run = find_run(connection, lake, run_id, None)
        add_ratings_of_run(connection, run_id)
        add_decisions_of_run(connection)
        rows = read_rows(connection, query("agreement/judged_and_rated"), run_id=run_id, criterion_id=None)
    with_distribution = [row for row in rows if row["distribution"] is not None]
    if not with_distribution:
        hint = f"`gradebook people rate {run_id} --n 200` collects ratings"
        raise InputError(f"run {run_id}", "no rated output with probabilities", f"{LEAST_RATED} of a criterion", hint)
    by_criterion = groupby(with_distribution, lambda row: str(row["criterion_id"]))
    fits = []
    for name, of_criterion in by_criterion:
        fits.append(_fit(name, [row for row in of_criterion if row["sample_score"] is not None]))
    left_out_count = sum(row["sample_score"] is None for row in with_distribution)
    return RunRecalibration(run, tuple(fits), left_out_count)


def _fit(criterion_id: str, rows: list[Row]) -> CriterionFit:
    if len(rows) < LEAST_RATED:
        few = f"found {counted(len(rows), 'rated output')}, expected {LEAST_RATED} or more"
        return CriterionFit(criterion_id, None, few)
    scores = dict(rows[0]["levels"])
    names = sorted(scores, key=lambda name: scores[name])
    distributions = [json.loads(row["distribution"]) for row in rows]
    shares = np.array([[shares.get(name, 0.0) for name in names] for shares in distributions])
    people = np.array([row["sample_score"] for row in rows])
    level_indexes = np.abs(people[:, None] - np.array([scores[name] for name in names])).argmin(axis=1)
    cases = np.unique([str(row["case_id"]) for row in rows], return_inverse=True)[1]
    recalibrated = recalibrate(shares, level_indexes, cases, np.random.default_rng(SEED))
    reason = None if recalibrated.is_better else "no better beyond chance on other cases: left as it is"
    return CriterionFit(criterion_id, recalibrated, reason)
