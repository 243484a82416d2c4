"""Source of a report: a published run, its comparison and its rubric, opened once for all sections; and the run's
criteria in reading order, with the measured rows of every model.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import duckdb

from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.model.rubric import NO_CATEGORY
from gradebook.tasks.comparing.compare import ComparisonOptions, compare_sides
from gradebook.tasks.comparing.run_comparison import RunComparison, as_run_comparison, with_ratings_and_wins
from gradebook.tasks.comparing.sides import RunPair, read_side
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect
from gradebook.tasks.lake.rows import Row, model_name, read_rows
from gradebook.tasks.lake.schema import copy_small_tables
from gradebook.tasks.lake.sql import query
from gradebook.tasks.published.summary import RunSummary
from gradebook.tasks.reporting.charts import Colour, distinct_labels

Shared = TypeVar("Shared")
COLOUR_COUNT = 8  # of pages/theme.yaml; the ninth model has the colour of the first
MOST_DRAWN = 8  # models in one picture

_PARENTS = "select distinct category, parent from category_scores where run_id = ?"


@dataclass(frozen=True, slots=True)
class Group:
    """Model and checkpoint of the run. name: full name; label: short, distinct name for charts."""

    model: str
    checkpoint: str | None
    name: str
    label: str
    colour: Colour


@dataclass(frozen=True, slots=True)
class ReportSource:
    """Source of a report, for all its sections.

    groups: the run's models and checkpoints, highest mean first. comparison: with the baseline, with the requested run,
    or of the two best models of the run (both sides then have its run_id); None if there is nothing to compare.
    comparison_fault: reason why it could not be made. criteria: the rubric's rows of `criteria`, in its order; levels:
    its rows of `levels`, worst first. is_against: the comparison is with a requested run. cache: values shared by
    sections, see `once`.
    """

    connection: duckdb.DuckDBPyConnection
    lake: Lake
    summary: RunSummary
    groups: tuple[Group, ...]
    comparison: RunComparison | None
    comparison_fault: str | None
    criteria: tuple[Row, ...]
    levels: tuple[Row, ...]
    is_against: bool = False
    cache: dict[str, Any] = field(default_factory=dict)

    def once(self, name: str, read: Callable[["ReportSource"], Shared]) -> Shared:
        """Value of a slow read, cached for all sections under a unique name."""
        if name not in self.cache:
            self.cache[name] = read(self)
        value: Shared = self.cache[name]
        return value

    @property
    def run_id(self) -> str:
        return self.summary.run_id

    @property
    def rubric_name(self) -> str | None:
        """Display name of the rubric; None if it has none."""
        name: str | None = json.loads(self.rubric_body or "{}").get("name")
        return name

    @property
    def rubric_body(self) -> str | None:
        """Body of the run's rubric as stored in the lake; None if the lake lacks it."""
        return self.once("rubric", _read_body)

    @property
    def category_parents(self) -> dict[str, str | None]:
        """Enclosing category of each category of the run; None at the top."""
        return self.once("category_parents", _read_parents)

    @property
    def verdict_counts(self) -> Row:
        """Row of sql/queries/reporting/verdict_counts.sql."""
        return self.once("verdict_counts", _read_counts)

    @property
    def drawn_groups(self) -> tuple[Group, ...]:
        """Groups that a picture has room for: those with the highest means."""
        return self.groups[:MOST_DRAWN]

    def rows(self, select: str, /, *parameters: object, **named: object) -> tuple[Row, ...]:
        """Rows of a query on the lake, as `read_rows`."""
        return read_rows(self.connection, select, *parameters, **named)

    def group_of(self, row: Row) -> Group:
        """Group of a row with a model and a checkpoint."""
        return self.once("groups", _groups_by_key)[row["model"], row["checkpoint"]]


@contextmanager
def opened_source(
    lake: Lake, summary: RunSummary, against: str | None = None, *, is_compared: bool = True
) -> Iterator[ReportSource]:
    """Open the source of a published run's report. against: run to compare with, instead of its baseline.

    is_compared: False where no section to be read needs the comparison, which takes a second.
    Raises `InputError` if there is no such run, or nothing to compare.
    """
    with connect(lake, read_only=True, is_pinned=True) as connection:
        if lake.at is None:  # an earlier version may lack tables
            copy_small_tables(connection)
        yield read_source(connection, lake, summary, against, is_compared=is_compared)


def read_source(
    connection: duckdb.DuckDBPyConnection,
    lake: Lake,
    summary: RunSummary,
    against: str | None = None,
    *,
    is_compared: bool = True,
) -> ReportSource:
    """Read the source of a report by a pinned connection to the lake; arguments as of `opened_source`."""
    comparison, fault = summary.comparison, None
    if not is_compared:
        comparison = None
    elif against is not None:
        comparison = _compare_with(connection, lake, summary, against)
    elif comparison is None and len(summary.scores) > 1:
        comparison, fault = _compare_best(connection, lake, summary)
    elif comparison is not None:
        comparison = with_ratings_and_wins(connection, lake, comparison)
    return ReportSource(
        connection,
        lake,
        summary,
        _groups(summary.scores),
        comparison,
        fault,
        read_rows(connection, query("reporting/criteria"), run_id=summary.run_id),
        read_rows(connection, query("reporting/levels"), run_id=summary.run_id),
        is_against=against is not None,
    )


def bare_source(
    connection: duckdb.DuckDBPyConnection,
    lake: Lake,
    summary: RunSummary,
    criteria: tuple[Row, ...],
    levels: tuple[Row, ...],
) -> ReportSource:
    """Source for single outputs, without a comparison. summary: its run and scores; criteria, levels: of the rubric."""
    return ReportSource(connection, lake, summary, _groups(summary.scores), None, None, criteria, levels)


def _compare_with(
    connection: duckdb.DuckDBPyConnection, lake: Lake, summary: RunSummary, against: str
) -> RunComparison:
    if against == summary.run_id:
        raise InputError("--against", f"{against}, the run itself", "another run")
    try:
        return _compare(connection, lake, RunPair(against, summary.run_id))
    except InputError as error:  # its message names options of `compare`, which `report` lacks
        raise error.at("--against") from None


def _read_body(source: ReportSource) -> str | None:
    rows = source.rows(query("reporting/rubric_body"), run_id=source.run_id)
    return rows[0]["body"] if rows else None


def _read_counts(source: ReportSource) -> Row:
    (counts,) = source.rows(query("reporting/verdict_counts"), run_id=source.run_id)
    return counts


def _read_parents(source: ReportSource) -> dict[str, str | None]:
    return {row["category"]: row["parent"] for row in source.rows(_PARENTS, source.run_id)}


def _groups_by_key(source: ReportSource) -> dict[tuple[str, str | None], Group]:
    return {(group.model, group.checkpoint): group for group in source.groups}


def _compare_best(
    connection: duckdb.DuckDBPyConnection, lake: Lake, summary: RunSummary
) -> tuple[RunComparison | None, str | None]:
    """Compare the run's best model (B) with its second best (A); or the reason why it can't be done."""
    best, second = (model_name(row) for row in summary.scores[:2])
    try:
        comparison = _compare(connection, lake, RunPair(summary.run_id, summary.run_id, second, best))
    except InputError as error:
        return None, error.fault
    if not any(row.figures.n for pair in comparison.models for row in pair.rows):
        return None, f"{best} and {second} have no case with a score on both sides"
    return comparison, None


def _compare(connection: duckdb.DuckDBPyConnection, lake: Lake, wanted: RunPair) -> RunComparison:
    a = read_side(connection, lake, wanted.run_a, "--against")
    b = a if wanted.is_one_run else read_side(connection, lake, wanted.run_b)
    return as_run_comparison(compare_sides(connection, wanted, a, b, ComparisonOptions(is_corrected=True)))


def _groups(scores: Sequence[Row]) -> tuple[Group, ...]:
    """Groups of these rows of run_scores, in their order; colours follow names: a model has one colour in all runs."""
    ranked = sorted(scores, key=lambda row: (model_name(row), row["model"]))
    indices = {(row["model"], row["checkpoint"]): index for index, row in enumerate(ranked)}
    labels = distinct_labels(model_name(row) for row in ranked)
    return tuple(
        Group(row["model"], row["checkpoint"], model_name(row), labels[index], Colour(f"c{index % COLOUR_COUNT + 1}"))
        for row in scores
        for index in (indices[row["model"], row["checkpoint"]],)
    )


Path = tuple[str, ...]  # categories, outermost first
GroupKey = tuple[str, str | None]


@dataclass(frozen=True, slots=True)
class MeasuredCriterion:
    """Criterion with its rows of criterion_scores by model and checkpoint. path: its categories, outermost first.

    weight: share of the rubric's positive weights, negative for a penalty; None for a gate and a per-case criterion.
    is_partial: a criterion of the rubric that applies to some outputs only, by its condition.
    """

    criterion_id: str
    path: Path
    is_own: bool
    is_gate: bool
    weight: float | None
    rows: Mapping[GroupKey, Row]
    is_partial: bool = False

    @property
    def description(self) -> str | None:
        """Its question in full; of a per-case criterion that of one case."""
        return next((row.get("description") for row in self.rows.values()), None)

    @property
    def heading(self) -> str:
        """Categories as text; empty if it has none."""
        return " / ".join(self.path)

    @property
    def is_penalty(self) -> bool:
        """Whether a high score is bad."""
        return self.weight is not None and self.weight < 0

    def row_of(self, group: Group) -> Row | None:
        """Row of a model; None if the criterion applies to none of its outputs."""
        return self.rows.get((group.model, group.checkpoint))

    def mean_of(self, group: Group) -> float | None:
        """Mean score of a model."""
        row = self.row_of(group)
        return None if row is None else row["mean"]

    def merit_of(self, group: Group) -> float | None:
        """Mean with higher values better: 1 - mean for a penalty."""
        mean = self.mean_of(group)
        return 1.0 - mean if self.is_penalty and mean is not None else mean


def measured_criteria(source: ReportSource) -> tuple[MeasuredCriterion, ...]:
    """The rubric's criteria, in its order within categories, then per-case criteria by id."""
    rows: dict[str, dict[GroupKey, Row]] = {}
    partial = set[str]()
    counts = {(row["model"], row["checkpoint"]): row.get("output_count", 0) for row in source.summary.scores}
    for row in source.summary.criteria:
        key = row["model"], row["checkpoint"]
        if row["output_count"] < counts[key]:
            partial.add(row["criterion_id"])
        if row["output_count"]:
            rows.setdefault(row["criterion_id"], {})[key] = row
    of_rubric = [
        MeasuredCriterion(
            row["criterion_id"],
            _path(row["category"], source.category_parents),
            False,
            bool(row["is_gate"]),
            next(iter(rows[row["criterion_id"]].values()))["weight"],
            rows.pop(row["criterion_id"]),
            row["criterion_id"] in partial,
        )
        for row in source.criteria
        if row["criterion_id"] in rows
    ]
    per_case = (MeasuredCriterion(name, (), True, False, None, group_rows) for name, group_rows in sorted(rows.items()))
    return (*_within_categories(of_rubric), *per_case)


def _path(category: str | None, parents: Mapping[str, str | None]) -> Path:
    path: list[str] = []
    while category is not None and category != NO_CATEGORY and category not in path:
        path.insert(0, category)
        category = parents.get(category)
    return tuple(path)


def _within_categories(criteria: Sequence[MeasuredCriterion]) -> list[MeasuredCriterion]:
    """Stable sort that groups criteria by category path, at the position of each group's first criterion."""
    firsts: dict[Path, int] = {}
    for position, criterion in enumerate(criteria):
        for depth in range(1, len(criterion.path) + 1):
            firsts.setdefault(criterion.path[:depth], position)
    keys = {
        criterion.criterion_id: (
            *(firsts[criterion.path[: depth + 1]] for depth in range(len(criterion.path))),
            position,
        )
        for position, criterion in enumerate(criteria)
    }
    return sorted(criteria, key=lambda criterion: keys[criterion.criterion_id])
