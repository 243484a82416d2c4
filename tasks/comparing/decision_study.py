"""Variance of a run's scores by facet, and the gain and cost of more cases, samples or replies of the judge."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

import duckdb
import numpy as np

from gradebook.rubrics.statistics.decomposition import (
    CASE,
    JUDGE,
    OUTPUT_JUDGE,
    RATER,
    SAMPLE,
    Design,
    variance_components,
)
from gradebook.rubrics.statistics.noise import ReplicateScores
from gradebook.rubrics.statistics.rules import CRITERION, OVERALL
from gradebook.tasks.lake.rows import Row, model_name, read_rows, read_run_cost
from gradebook.tasks.lake.sql import query
from gradebook.tasks.rubric_store.questions import add_questions_of_run

MORE_CASES, MORE_REPLICATES = 100, 2
LEAST_CASES = 8  # fewer say little about how cases vary


@dataclass(frozen=True, slots=True)
class Components:
    """Variances of one row of scores. scope, scope_id: as in a comparison. kind: judge or rater. n: scores.

    variances: by facet, the rest of the replies as `replicate`; facets that can't be told apart are left out.
    """

    model: str
    scope: str
    scope_id: str
    kind: str
    n: int
    variances: dict[str, float]


@dataclass(frozen=True, slots=True)
class Option:
    """A design of the evaluation. more: what it has beyond the run; None: the run's own. standard_error: of the mean
    overall score, predicted.

    cost_usd: of the further replies at the run's price of a reply; None if that is unknown.
    """

    model: str
    more: str | None
    case_count: float
    sample_count: float
    replicate_count: float
    standard_error: float
    cost_usd: float | None


@dataclass(frozen=True, slots=True)
class DecisionStudy:
    """Variance components of a run, and designs by model, the run's own first."""

    components: tuple[Components, ...]
    options: tuple[Option, ...]

    def as_json(self) -> dict[str, Any]:
        components = [asdict(component) for component in self.components]
        return {"variance_components": components, "decision_study": [asdict(option) for option in self.options]}


def study_decisions(
    connection: duckdb.DuckDBPyConnection, run_id: str, models: Sequence[tuple[str, Sequence[ReplicateScores]]]
) -> DecisionStudy:
    """Decompose the scores of each model by its replicates, its panel and its raters.

    connection: to the lake. models: name and lines of each, see `DrawnOutputs`.
    """
    add_questions_of_run(connection, run_id, "ratings")
    opinions = read_rows(connection, query("comparing/opinion_scores"), run_id=run_id)
    cost_usd = read_run_cost(connection, run_id)
    reply_count = sum(line.scores.size for _, lines in models for line in lines if line.scope == OVERALL)
    reply_cost = cost_usd / reply_count if cost_usd and reply_count else None
    components: list[Components] = []
    options: list[Option] = []
    for name, lines in models:
        for line in lines:
            line_components = _components_of_line(name, line)
            components += [line_components] if line_components.variances else []
            if line_components.scope == OVERALL and CASE in line_components.variances:
                options += _options(name, line, line_components.variances, reply_cost)
    return DecisionStudy((*components, *_components_of_opinions(opinions)), tuple(options))


def _components_of_line(name: str, line: ReplicateScores) -> Components:
    is_scored = ~np.isnan(line.scores)
    outputs, cases = (
        np.broadcast_to(codes[:, None], is_scored.shape)[is_scored] for codes in (line.outputs, line.cases)
    )
    variances = variance_components(line.scores[is_scored], {CASE: cases, SAMPLE: outputs})
    if np.unique(cases).size < LEAST_CASES:
        variances = {}
    return Components(name, line.scope, line.scope_id, "judge", int(is_scored.sum()), variances)


def _options(name: str, line: ReplicateScores, variances: dict[str, float], reply_cost: float | None) -> list[Option]:
    case_count = float(np.unique(line.cases).size)
    run_design = Design(case_count, line.outputs.size / case_count, float(line.scores.shape[1]))
    designs: dict[str | None, Design] = {
        None: run_design,
        f"{MORE_REPLICATES} replicates": Design(
            case_count, run_design.sample_count, run_design.replicate_count + MORE_REPLICATES
        ),
        f"{MORE_CASES} cases": Design(case_count + MORE_CASES, run_design.sample_count, run_design.replicate_count),
    }
    if SAMPLE in variances:
        designs["1 sample of each case"] = Design(case_count, run_design.sample_count + 1, run_design.replicate_count)
    return [
        Option(
            name,
            more,
            design.case_count,
            design.sample_count,
            design.replicate_count,
            design.standard_error(variances),
            None if reply_cost is None else reply_cost * (design.reply_count - run_design.reply_count),
        )
        for more, design in designs.items()
    ]


def _components_of_opinions(rows: Sequence[Row]) -> Iterator[Components]:
    """Components with a judge's or rater's share, where there are several of them."""
    for (criterion_id, model, checkpoint, kind), group in groupby(
        rows, itemgetter("criterion_id", "model", "checkpoint", "kind")
    ):
        group_rows = list(group)
        codes = {
            name: np.unique([row[name] for row in group_rows], return_inverse=True)[1]
            for name in ("shared", "output_id", "who")
        }
        if codes["who"].max() == 0 or codes["shared"].max() + 1 < LEAST_CASES:
            continue
        facets = {CASE: codes["shared"], SAMPLE: codes["output_id"], JUDGE if kind == "judge" else RATER: codes["who"]}
        if kind == "judge":
            facets[OUTPUT_JUDGE] = codes["output_id"] * (codes["who"].max() + 1) + codes["who"]
        variances = variance_components(np.array([row["score"] for row in group_rows]), facets)
        name = model_name({"model": model, "checkpoint": checkpoint})
        yield Components(name, CRITERION, criterion_id, kind, len(group_rows), variances)
