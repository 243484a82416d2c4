"""What a report is written from: a published run, its comparison and its rubric, opened once and read by every part."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import duckdb

from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.comparing.compare import Asked, compare_sides
from gradebook.tasks.comparing.model_pairs import Wanted, read_side
from gradebook.tasks.comparing.run_comparison import RunComparison, comparison_of
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect
from gradebook.tasks.lake.rows import Row, model_name, read_rows
from gradebook.tasks.lake.sql import query
from gradebook.tasks.published.summary import RunSummary
from gradebook.tasks.reporting.drawing.charts import Colour, told_apart

Kept = TypeVar("Kept")
COLOUR_COUNT = 8  # of pages/theme.yaml; a ninth model has the first one's again
MOST_DRAWN = 8  # models in one picture

_PARENTS = "select distinct category, parent from category_scores where run_id = ?"


@dataclass(frozen=True, slots=True)
class Group:
    """One model and checkpoint of the run. name: as people say it, whole; label: as charts have it, and told apart."""

    model: str
    checkpoint: str | None
    name: str
    label: str
    colour: Colour


@dataclass(frozen=True, slots=True)
class ReportSource:
    """Everything that a page about a run is written from.

    groups: the run's models and checkpoints, the highest mean first. comparison: with the baseline, with the run asked
    for, or of the two best models of the run (its run_id is its baseline's then); None where there is nothing to
    compare. comparison_fault: why it could not be made, in words. criteria: the rubric's rows of `criteria`, in its
    order; levels: its rows of `levels`, the worst first. kept: what sections share, see `once`.
    """

    connection: duckdb.DuckDBPyConnection
    lake: Lake
    summary: RunSummary
    groups: tuple[Group, ...]
    comparison: RunComparison | None
    comparison_fault: str | None
    criteria: tuple[Row, ...]
    levels: tuple[Row, ...]
    kept: dict[str, Any] = field(default_factory=dict)

    def once(self, name: str, read: Callable[["ReportSource"], Kept]) -> Kept:
        """What a slow reading finds, read by the first section that asks for it. name: no other reading's."""
        if name not in self.kept:
            self.kept[name] = read(self)
        found: Kept = self.kept[name]
        return found

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.summary.run_id

    @property
    def rubric_name(self) -> str | None:
        """The rubric's name for people; None where it has none."""
        name: str | None = json.loads(self.rubric_body or "{}").get("name")
        return name

    @property
    def rubric_body(self) -> str | None:
        """The run's rubric as the lake keeps it; None where it does not."""
        return self.once("rubric", _read_body)

    @property
    def category_parents(self) -> dict[str, str | None]:
        """Each category of the run, and the one around it."""
        return self.once("category_parents", _read_parents)

    @property
    def verdict_counts(self) -> Row:
        """The row of sql/queries/reporting/verdict_counts.sql."""
        return self.once("verdict_counts", _read_counts)

    @property
    def drawn_groups(self) -> tuple[Group, ...]:
        """Those that a picture has room for: the ones with the highest means."""
        return self.groups[:MOST_DRAWN]

    def rows(self, select: str, /, *parameters: object, **named: object) -> tuple[Row, ...]:
        """The rows of a select from the lake, as `read_rows`."""
        return read_rows(self.connection, select, *parameters, **named)

    def group_of(self, row: Row) -> Group:
        """The group that a row with a model and a checkpoint belongs to."""
        return self.once("groups", _groups_by_key)[row["model"], row["checkpoint"]]


@contextmanager
def opened_source(lake: Lake, summary: RunSummary, against: str | None = None) -> Iterator[ReportSource]:
    """Open what a report of a published run is written from. against: a run to compare with, in place of its baseline.

    Raises `InputError` where there is no such run, or nothing to compare.
    """
    with connect(lake, read_only=True, is_pinned=True) as connection:
        comparison, fault = summary.comparison, None
        if against is not None:
            comparison = _compare_with(connection, lake, summary, against)
        elif comparison is None and len(summary.scores) > 1:
            comparison, fault = _compare_best(connection, lake, summary)
        yield ReportSource(
            connection,
            lake,
            summary,
            _groups(summary.scores),
            comparison,
            fault,
            read_rows(connection, query("reporting/criteria"), run_id=summary.run_id),
            read_rows(connection, query("reporting/levels"), run_id=summary.run_id),
        )


def _compare_with(
    connection: duckdb.DuckDBPyConnection, lake: Lake, summary: RunSummary, against: str
) -> RunComparison:
    if against == summary.run_id:
        raise InputError("--against", f"{against}, the run itself", "another run")
    try:
        return _compare(connection, lake, Wanted(against, summary.run_id))
    except InputError as error:  # said in the words of `compare`, which takes models by name
        raise error.at("--against") from None


def _read_body(source: ReportSource) -> str | None:
    found = source.rows(query("reporting/rubric_body"), run_id=source.run_id)
    return found[0]["body"] if found else None


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
    """The run's model with the highest mean (B) beside the one after it (A); or why it can't be."""
    best, second = (model_name(row) for row in summary.scores[:2])
    try:
        return _compare(connection, lake, Wanted(summary.run_id, summary.run_id, second, best)), None
    except InputError as error:
        return None, error.fault


def _compare(connection: duckdb.DuckDBPyConnection, lake: Lake, wanted: Wanted) -> RunComparison:
    a = read_side(connection, lake, wanted.run_a, "--against")
    b = a if wanted.is_one_run else read_side(connection, lake, wanted.run_b)
    return comparison_of(compare_sides(connection, wanted, a, b, Asked()))


def _groups(scores: Sequence[Row]) -> tuple[Group, ...]:
    """The groups of these rows of run_scores, in their order; colours go by name, so that a model keeps its own."""
    ranked = sorted(scores, key=lambda row: (model_name(row), row["model"]))
    places = {(row["model"], row["checkpoint"]): place for place, row in enumerate(ranked)}
    labels = told_apart(model_name(row) for row in ranked)
    return tuple(
        Group(row["model"], row["checkpoint"], model_name(row), labels[place], Colour(f"c{place % COLOUR_COUNT + 1}"))
        for row in scores
        for place in (places[row["model"], row["checkpoint"]],)
    )
