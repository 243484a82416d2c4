"""Marts of a small run given as plain values, built in a real DuckDB."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from gradebook.rubrics.model.conditions import UNMET
from gradebook.rubrics.model.outputs import SHARD_SCHEMA
from gradebook.rubrics.model.rubric import Rubric, category_weights, effective_weights, tree_steps
from gradebook.rubrics.model.verdicts import JUDGMENT_SCHEMA, OPINION_SCHEMA, VERDICT_SCHEMA
from gradebook.tasks.agreement.audited_scores import AUDITED_SCHEMA
from gradebook.tasks.agreement.mart import AGREEMENT_SCHEMA
from gradebook.tasks.comparing.run_comparison import RUN_COMPARISON_SCHEMA
from gradebook.tasks.datasets.sample import CASE_WEIGHTS_SCHEMA
from gradebook.tasks.lake.schema import make_tables, make_views
from gradebook.tasks.marts.models import build_marts, model_order
from gradebook.tasks.marts.sources import CONDITIONS_SCHEMA

Row = dict[str, Any]

CRITERIA_SCHEMA = pa.schema(
    [
        *(
            pa.field(name, pa.string())
            for name in ("run_id", "rubric_id", "rubric_version", "criterion_id", "category")
        ),
        pa.field("weight", pa.float64()),
        pa.field("effective_weight", pa.float64()),
        pa.field("is_gate", pa.bool_()),
        pa.field("is_required", pa.bool_()),
        pa.field("threshold", pa.float64()),
        pa.field("gate_threshold", pa.float64()),
        pa.field("method", pa.string()),
    ]
)
CATEGORY_WEIGHT_SCHEMA = pa.schema(
    [pa.field("category", pa.string()), pa.field("criterion_id", pa.string()), pa.field("weight", pa.float64())]
)
CATEGORY_SCHEMA = pa.schema([pa.field("category", pa.string()), pa.field("parent", pa.string())])
STEP_SCHEMA = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in ("root", "criterion_id", "parent", "node")),
        pa.field("weight", pa.float64()),
    ]
)
CASE_CRITERIA_SCHEMA = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in ("output_id", "criterion_id", "category")),
        pa.field("weight", pa.float64()),
        pa.field("is_gate", pa.bool_()),
        pa.field("threshold", pa.float64()),
        pa.field("gate_threshold", pa.float64()),
    ]
)
RUN_SCHEMA = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in ("run_id", "rubric_id", "rubric_version")),
        pa.field("pass_threshold", pa.float64()),
        pa.field("require_thresholds", pa.bool_()),
        pa.field("missing", pa.string()),
        pa.field("weights", pa.string()),
    ]
)
TIMING_SCHEMA = pa.schema(
    [
        pa.field("stage", pa.string()),
        pa.field("criterion_id", pa.string()),
        pa.field("wall_s", pa.float64()),
        pa.field("cpu_s", pa.float64()),
        pa.field("row_count", pa.int64()),
        pa.field("replayed_count", pa.int64()),
        pa.field("saved_usd", pa.float64()),
    ]
)
RUN: Row = {"run_id": "run", "rubric_id": "reply", "rubric_version": "1.0.0", "require_thresholds": False}
CRITERION: Row = {**RUN, "weight": 1.0, "is_gate": False, "gate_threshold": 1.0, "method": "judge"}
OUTPUT: Row = {"model": "m", "sample_index": 0, "output": "text"}
VERDICT: Row = {"run_id": "run", "method": "judge", "is_replayed": False}
TIMING: Row = {"wall_s": 0.0, "cpu_s": 0.0, "row_count": 0, "replayed_count": 0}
TOKENS: Row = {"prompt_tokens": 100, "cached_tokens": 40, "completion_tokens": 7, "cost_usd": 0.25}
OPINION: Row = {"run_id": "run", "replicate": 0, "is_swapped": False, "request_key": "key", "criterion_id": "tone"}
AGREEMENT: Row = {"criterion_id": "tone", "kind": "raters", "n": 2, "pair_count": 2, "value": 0.5}
COMPARED: Row = {
    "run_id": "run",
    "baseline_run_id": "earlier",
    "model": "m",
    "baseline_model": "m",
    "is_own": False,
    "n": 2,
    "case_count": 2,
    "moved_case_count": 1,
    "mean_a": 0.5,
    "mean_b": 0.25,
    "mean_diff": -0.25,
    "p": 0.5,
    "better_count": 0,
    "worse_count": 1,
    "tied_count": 1,
    "part": -0.25,
}
JUDGMENT: Row = {**TOKENS, "run_id": "run", "status": "scored", "attempts": 1}


@pytest.fixture
def memory() -> Iterator[duckdb.DuckDBPyConnection]:
    """Empty tables and views of the lake, in memory."""
    with duckdb.connect() as connection:
        make_tables(connection)
        make_views(connection)
        yield connection


@pytest.fixture(scope="session")
def load() -> Callable[..., None]:
    """`load_sources` for a module that reuses its marts."""
    return load_sources


class Marts:
    """Connection to the sources of a run. A statement's marts are built before it runs: all take four times as long."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._models, self._built = set(model_order()), set[str]()
        self.register = connection.register
        self._build({"agreement"})  # the least of all, and every macro

    def execute(self, statement: str, *parameters: Any) -> duckdb.DuckDBPyConnection:
        """As of a connection."""
        self._build(self._models.intersection(re.findall(r"\w+", statement)) - self._built)
        return self._connection.execute(statement, *parameters)

    def _build(self, names: set[str]) -> None:
        if names:
            build_marts(self._connection, tuple(names))
            self._built |= names


Build = Callable[..., Marts]


@pytest.fixture
def build() -> Iterator[Build]:
    """Function that makes the sources of a run and returns its `Marts`.

    criteria: rows by id, `{"tone": {"weight": 0.5}}`. scores: by output and criterion, None if unscored; a missing key
    gives no verdict row. outputs: columns of an output by id, if they matter. categories: a tree, as in a rubric file.
    own: per-case criteria by output, `{"o": {"tone": {"weight": 0.5}}}`.
    """
    with duckdb.connect(config={"threads": 1}) as connection:

        def call(criteria: Mapping[str, Row], scores: Mapping[str, Mapping[str, float | None]], **others: Any) -> Marts:
            load_sources(connection, criteria, scores, **others)
            return Marts(connection)

        yield call


def load_sources(
    connection: duckdb.DuckDBPyConnection,
    criteria: Mapping[str, Row],
    scores: Mapping[str, Mapping[str, float | None]],
    *,
    outputs: Mapping[str, Row] | None = None,
    categories: tuple[Row, ...] = (),
    own: Mapping[str, Mapping[str, Row]] | None = None,
    judgments: tuple[Row, ...] = (),
    opinions: tuple[Row, ...] = (),
    timings: tuple[Row, ...] = (),
    agreement: tuple[Row, ...] = (),
    audited: tuple[Row, ...] = (),
    comparison: tuple[Row, ...] = (),
    case_weights: tuple[Row, ...] = (),
    unmet: Mapping[str, Collection[str]] | None = None,
    **settings: Any,
) -> None:
    """Make the sources. settings: of the rubric: missing, pass_threshold, require_thresholds.

    unmet: criteria with a condition, and the outputs for which it does not hold.
    """
    known = outputs or {}
    rows_of: dict[str, tuple[pa.Schema, list[Row]]] = {
        "run": (RUN_SCHEMA, [RUN | settings]),
        **rubric_rows(criteria, categories),
        "case_criteria": (CASE_CRITERIA_SCHEMA, own_rows(own or {})),
        "outputs": (
            SHARD_SCHEMA,
            [OUTPUT | {"case_id": name} | known.get(name, {}) | {"output_id": name} for name in scores],
        ),
        "conditions": (
            CONDITIONS_SCHEMA,
            [{"criterion_id": name, "is_required": criteria[name].get("is_required", True)} for name in unmet or ()],
        ),
        "verdicts": (VERDICT_SCHEMA, verdict_rows(scores, unmet or {})),
        "judgments": (JUDGMENT_SCHEMA, [JUDGMENT | row for row in judgments]),
        "opinions": (OPINION_SCHEMA, [OPINION | opinion_status(row) | row for row in opinions]),
        "timings": (TIMING_SCHEMA, [TIMING | row for row in timings]),
        "agreement": (AGREEMENT_SCHEMA, [AGREEMENT | row for row in agreement]),
        "audited": (AUDITED_SCHEMA, list(audited)),
        "run_comparisons": (RUN_COMPARISON_SCHEMA, [COMPARED | row for row in comparison]),
        "case_weights": (CASE_WEIGHTS_SCHEMA, [*case_weights]),
    }
    for name, (schema, rows) in rows_of.items():
        connection.register("given", pa.Table.from_pylist(rows, schema=schema))
        connection.execute(f"create or replace table source_{name} as from given")


def opinion_status(row: Row) -> Row:
    return {"status": "unscored" if row.get("score") is None else "scored"}


def verdict_rows(scores: Mapping[str, Mapping[str, float | None]], unmet: Mapping[str, Collection[str]]) -> list[Row]:
    """Verdicts; unscored ones with a reason."""
    return [
        VERDICT
        | {"output_id": output_id, "criterion_id": criterion_id, "score": score}
        | ({"status": "unscored", "reason": "refused"} if score is None else {"status": "scored"})
        | ({"reason": f"{UNMET}x is 1"} if output_id in unmet.get(criterion_id, ()) else {})
        for output_id, row in scores.items()
        for criterion_id, score in row.items()
    ]


def rubric_rows(criteria: Mapping[str, Row], categories: tuple[Row, ...]) -> dict[str, tuple[pa.Schema, list[Row]]]:
    """Sources from the rubric, with the weights of `gradebook.rubrics.model.rubric`."""
    rubric = rubric_of(criteria, categories)
    weights, shares = effective_weights(rubric), category_weights(rubric)
    parents = {category.id: category.parent for category in rubric.categories}
    steps = [
        {"root": root, "criterion_id": name, "parent": step.parent, "node": step.node, "weight": step.weight}
        for root, name, step in tree_steps(rubric)
    ]
    return {
        "criteria": (
            CRITERIA_SCHEMA,
            [
                CRITERION | row | {"criterion_id": name, "effective_weight": weights[name]}
                for name, row in criteria.items()
            ],
        ),
        "category_weights": (
            CATEGORY_WEIGHT_SCHEMA,
            [
                {"category": category, "criterion_id": name, "weight": weight}
                for category, shares_in in shares.items()
                for name, weight in shares_in.items()
            ],
        ),
        "categories": (CATEGORY_SCHEMA, [{"category": name, "parent": parents.get(name)} for name in shares]),
        "steps": (STEP_SCHEMA, steps),
    }


def rubric_of(criteria: Mapping[str, Row], categories: tuple[Row, ...]) -> Rubric:
    """Rubric with the weights of these rows; built with `model_construct`, because a test may have no criteria."""
    if not categories and not criteria:
        return Rubric.model_construct(id="none", version="0.0.0", categories=(), criteria=())
    return Rubric.model_validate(
        {
            "id": "reply",
            "version": "1.0.0",
            "categories": categories,
            "criteria": [
                {
                    "id": name,
                    "description": "Is it so?",
                    "method": {"type": "check", "check": "any"},
                    "category": row.get("category"),
                    "gate": row.get("is_gate", False),
                    "weight": None if row.get("is_gate") else row.get("weight"),
                }
                for name, row in criteria.items()
            ],
        }
    )


def own_rows(own: Mapping[str, Mapping[str, Row]]) -> list[Row]:
    """Per-case criteria."""
    defaults = {"weight": 1.0, "is_gate": False, "gate_threshold": 1.0}
    return [
        defaults | row | {"output_id": output_id, "criterion_id": name}
        for output_id, brought in own.items()
        for name, row in brought.items()
    ]
