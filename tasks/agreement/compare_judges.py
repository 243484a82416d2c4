"""Judges compared by how well they order outputs and models as people do, with the price of each."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.statistics.judge_quality import JudgeTrust, PairwiseAccuracy, ordered_alike, pairwise_accuracy
from gradebook.rubrics.text.wording import counted
from gradebook.tasks.agreement.calibration import read_judged
from gradebook.tasks.agreement.published_run import find_run, read_temperatures, trust_on
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect_up_to_date
from gradebook.tasks.lake.rows import Row, model_name, read_rows, read_run_cost
from gradebook.tasks.lake.sql import query

SEED = 20_261_101
LEAST_OUTPUTS = 20  # rated outputs in common; fewer give too few pairs
Unit = tuple[str, str]  # criterion and output


@dataclass(frozen=True, slots=True)
class JudgeChoice:
    """One judge on one criterion, over the rated outputs that all judges scored.

    model_pairs: pairs of models that people's means tell apart; models_alike: those that the judge's means order alike.
    outputs: pairs of outputs. bias: its mean score minus people's. trust: its passes and probabilities against
    people's; None if no verdict is the judge's own. reason: why there is no accuracy.
    """

    run_id: str
    judge: str | None
    criterion_id: str
    n: int
    models_alike: int
    model_pairs: int
    outputs: PairwiseAccuracy
    bias: float | None
    trust: JudgeTrust | None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class JudgeChoices:
    """Judges by criterion, the most accurate first. prices: dollars for 1,000 outputs by run id; None: unknown."""

    rows: tuple[JudgeChoice, ...]
    prices: Mapping[str, float | None]

    def as_json(self) -> dict[str, Any]:
        return {"judges": [asdict(row) | {"usd_per_1000_outputs": self.prices[row.run_id]} for row in self.rows]}


def compare_judges(lake: Lake, run_ids: Sequence[str]) -> JudgeChoices:
    """Compare the judges of published runs over the same outputs.

    Raises `InputError` for fewer than two runs, an unknown one, or none with outputs that people rated and all scored.
    """
    if len(set(run_ids)) < 2:
        raise InputError("RUN", f"{len(set(run_ids))} run", "two or more runs over the same outputs")
    with connect_up_to_date(lake) as connection:
        runs = {run_id: find_run(connection, lake, run_id, None) for run_id in dict.fromkeys(run_ids)}
        judged, verdicts, temperatures = {}, {}, {}
        for run_id in runs:
            judged[run_id] = _read_rated(connection, run_id)
            verdicts[run_id] = read_rows(
                connection, query("agreement/judged_and_rated"), run_id=run_id, criterion_id=None
            )
            temperatures[run_id] = read_temperatures(connection, run_id)
        prices = {run_id: _price(connection, run_id) for run_id in runs}
    common = set.intersection(*(set(rows_by_unit) for rows_by_unit in judged.values()))
    if not common:
        hint = "`gradebook people rate RUN --n 50` collects ratings"
        raise InputError("RUN", "no output that people rated and every run's judge scored", "one", hint)
    rows = []
    for criterion in sorted({criterion_id for criterion_id, _ in common}):
        units = sorted(unit for unit in common if unit[0] == criterion)
        names = {output_id for _, output_id in units}
        for run_id, rows_by_unit in judged.items():
            of_units = [
                row for row in verdicts[run_id] if row["criterion_id"] == criterion and row["output_id"] in names
            ]
            trust = trust_on(of_units, temperatures[run_id].get(criterion)) if of_units else None
            rows.append(_choice(runs[run_id], criterion, [rows_by_unit[unit] for unit in units], trust))
    rows.sort(key=lambda row: (row.criterion_id, -(row.outputs.value or 0.0), row.run_id))
    return JudgeChoices(tuple(rows), prices)


def _read_rated(connection: duckdb.DuckDBPyConnection, run_id: str) -> dict[Unit, Row]:
    table: pa.Table = read_judged(connection, run_id).table
    rows = table.filter(table.column("rating").is_valid()).to_pylist()
    return {(row["criterion_id"], row["output_id"]): row for row in rows}


def _price(connection: duckdb.DuckDBPyConnection, run_id: str) -> float | None:
    cost_usd = read_run_cost(connection, run_id)
    (count_row,) = read_rows(connection, "select count(*) as n from output_scores where run_id = ?", run_id)
    return 1_000.0 * cost_usd / count_row["n"] if cost_usd and count_row["n"] else None


def _choice(run: Row, criterion_id: str, rows: Sequence[Row], trust: JudgeTrust | None) -> JudgeChoice:
    judged, rated = (np.array([row[name] for row in rows]) for name in ("score", "rating"))
    cases, models = (
        np.unique(np.array(names), return_inverse=True)[1].ravel()
        for names in ([row["shared"] for row in rows], [model_name(row) for row in rows])
    )
    counts = np.bincount(models)
    means = (np.bincount(models, weights=scores) / counts for scores in (judged, rated))
    accuracy, reason = pairwise_accuracy(judged, rated, cases, np.random.default_rng(SEED)), None
    if len(rows) < LEAST_OUTPUTS:
        accuracy = PairwiseAccuracy(None, None, 0)
        reason = f"found {counted(len(rows), 'rated output')} that every judge scored, expected {LEAST_OUTPUTS} or more"
    bias = float((judged - rated).mean())
    alike, pairs = ordered_alike(*means)
    return JudgeChoice(
        run["run_id"], run["judge"], criterion_id, len(rows), alike, pairs, accuracy, bias, trust, reason
    )
