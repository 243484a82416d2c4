"""Rated outputs of a run on one criterion: scores by judge and people, and whether they can improve the criterion."""

import json
from collections import Counter
from dataclasses import dataclass

import duckdb
import numpy as np

from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.model.json_values import digest_of
from gradebook.rubrics.model.outputs import output_id, stored_output
from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.statistics.arrays import Floats
from gradebook.rubrics.statistics.improvement import LEAST_CLUSTERS, LEAST_OUTPUTS, Codes, measure_ceiling, rise_power
from gradebook.rubrics.text.wording import counted
from gradebook.tasks.lake.rows import Row, model_name, read_rows
from gradebook.tasks.lake.sql import query
from gradebook.tasks.published.stored_run import StoredRun
from gradebook.tasks.rewards.outputs import ReadOutput

_OUTPUTS = "select * from outputs where list_contains(?, output_id)"
LEAST_PAIRED = 20  # fewest outputs with two raters to measure people's own agreement


@dataclass(frozen=True, slots=True)
class RatedOutputs:
    """Outputs that people rated at random and the judge scored, on one criterion.

    All arrays: (output,). rows: as of rated_verdicts. clusters: number of the case or cluster. left_out: ratings of
    outputs that a rule chose for rating, by the rule.
    """

    criterion: Criterion
    rows: tuple[Row, ...]
    outputs: tuple[ReadOutput, ...]
    people: Floats
    judged: Floats
    clusters: Codes
    left_out: dict[str, int]

    @property
    def models(self) -> list[str]:
        """Model of each output, with its checkpoint."""
        return [model_name(row) for row in self.rows]

    @property
    def digest(self) -> str:
        """Digest of the ratings, 32 hex digits."""
        ratings = [[row["output_id"], row["people_score"]] for row in self.rows]
        return digest_of(json.dumps([self.criterion.id, ratings]))


def read_rated(connection: duckdb.DuckDBPyConnection, run: StoredRun, criterion: Criterion) -> RatedOutputs:
    """Read the rated outputs of a criterion. connection: with the relations of `add_ratings_of_run` and decisions."""
    rated_rows = read_rows(connection, query("learning/rated_verdicts"), run_id=run.run_id, criterion_id=criterion.id)
    left_out = Counter(row["selection"] for row in rated_rows if row["people_score"] is None)
    sampled = {row["output_id"]: row for row in rated_rows if row["people_score"] is not None}
    stored_rows = connection.execute(_OUTPUTS, [list(sampled)]).to_arrow_table().to_pylist()
    outputs = {row["output_id"]: stored_output(row) for row in stored_rows}
    intact = [name for name in sampled if name in outputs and output_id(outputs[name]) == name]
    rows = tuple(sampled[name] for name in intact)
    people, judged = (np.array([row[name] for row in rows], dtype=np.float64) for name in ("people_score", "score"))
    clusters = np.unique([str(row["shared"]) for row in rows], return_inverse=True)[1].ravel().astype(np.int64)
    read_outputs = tuple(ReadOutput(name, outputs[name]) for name in intact)
    return RatedOutputs(criterion, rows, read_outputs, people, judged, clusters, dict(sorted(left_out.items())))


def refuse_few(rated: RatedOutputs, run_id: str) -> None:
    """Raise `InputError` if the ratings are too few, or only of outputs that a queue chose."""
    criterion_label = f"criterion {rated.criterion.id}"
    expected = f"{LEAST_OUTPUTS} or more of a random sample, in {LEAST_CLUSTERS} cases"
    hint = f"`gradebook people rate {run_id} --n 150` collects ratings of a random sample"
    chosen_count = sum(rated.left_out.values())
    if chosen_count and not rated.rows:
        queues = ", ".join(rated.left_out)
        observed = f"{counted(chosen_count, 'rated output')}, each chosen by a queue ({queues})"
        raise InputError(
            criterion_label, observed, f"{expected}: the judge errs more or less often on what a queue chooses", hint
        )
    case_count = int(rated.clusters.max(initial=-1)) + 1
    if len(rated.rows) < LEAST_OUTPUTS or case_count < LEAST_CLUSTERS:
        raise InputError(
            criterion_label,
            f"{counted(len(rated.rows), 'rated output')} in {counted(case_count, 'case')}",
            expected,
            hint,
        )


def refuse_disputed(rated: RatedOutputs) -> None:
    """Raise `InputError` where people agree with each other no better than with the judge."""
    ceiling = measure_ceiling([row["scores"] for row in rated.rows], rated.judged)
    if ceiling is None or ceiling.n < LEAST_PAIRED or ceiling.has_room:
        return
    raise InputError(
        f"criterion {rated.criterion.id}",
        f"raters who agree with each other at kappa {ceiling.people:.2f} and with the judge at {ceiling.judge:.2f} on "
        f"{ceiling.n} outputs with two ratings",
        "raters who agree beyond chance, and better with each other: word the levels more clearly, or settle the "
        "disputes with `gradebook people rate RUN --queue adjudicate`",
    )


def refuse_unchangeable(rated: RatedOutputs) -> None:
    """Raise `InputError` if people or the judge gave a single level, so that nothing can be measured."""
    power = rise_power(rated.judged, rated.people, rated.clusters)
    if power.kappa is None or np.ptp(rated.people) == 0:
        raise InputError(
            f"criterion {rated.criterion.id}",
            f"{counted(len(rated.rows), 'rated output')} with the same score by people",
            "outputs of two levels or more: agreement beyond chance is undefined without",
        )
