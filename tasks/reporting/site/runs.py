"""Runs and trends on the home page of a lake."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import duckdb
from markupsafe import Markup

from gradebook.rubrics.model.counts import counted
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.rows import Row, model_name, read_rows
from gradebook.tasks.lake.sql import query
from gradebook.tasks.published.run_tables import mean_interval_words
from gradebook.tasks.published.summary import stated_outcome
from gradebook.tasks.reporting.drawing.charts import draw
from gradebook.tasks.system.number_format import score_words, signed_words

MOST_POINTS = 30  # of a trend
MOST_TRENDS = 60  # drawing one takes 0.1 s

_RUNS = """
select run_id, status, reason, coalesce(finished_at, created_at) as ended_at, rubric_id, rubric_version, dataset, judge,
    output_count, cost_usd
from runs order by version desc nulls first, created_at desc, run_id
"""


@dataclass(frozen=True, slots=True)
class ModelLine:
    """Score of a model in a run, as text: mean, 95% interval, change since its previous run, and the weighted criterion
    with the lowest mean. changed: what a change can't be compared over; there is no number then.
    """

    name: str
    mean: str
    interval: str
    change: str
    changed: str | None
    weakest: str


@dataclass(frozen=True, slots=True)
class RunLine:
    """Run in the list. run: row of `runs`; is_met: None if the run is not published."""

    run: Row
    is_met: bool | None
    models: tuple[ModelLine, ...]

    @property
    def run_id(self) -> str:
        return str(self.run["run_id"])

    @property
    def report(self) -> str:
        """Path of its page, relative to the home page; only published runs have a page."""
        return f"runs/{self.run_id}.html"


@dataclass(frozen=True, slots=True)
class Trend:
    """Trend of a model's score by a rubric. svg: None if there is only one run."""

    rubric_id: str
    model: str
    run_id: str
    svg: Markup | None
    reading: str


@dataclass(frozen=True, slots=True)
class Home:
    """Contents of the home page. runs: newest first; trends: by rubric and model; trend_count: including hidden."""

    runs: tuple[RunLine, ...]
    trends: tuple[Trend, ...]
    trend_count: int

    @property
    def rubric_ids(self) -> list[str]:
        """Ids of the runs' rubrics."""
        return sorted({str(line.run["rubric_id"]) for line in self.runs})

    @property
    def published(self) -> tuple[RunLine, ...]:
        """Runs with a report."""
        return tuple(line for line in self.runs if line.is_met is not None)


def read_home(connection: duckdb.DuckDBPyConnection, lake: Lake) -> Home:
    """Read the contents of the home page."""
    scores = read_rows(connection, query("reporting/site_scores"))
    by_run: dict[str, list[Row]] = {}
    for row in scores:
        by_run.setdefault(row["run_id"], []).append(row)
    runs = tuple(_line(connection, lake, run, by_run.get(run["run_id"], [])) for run in read_rows(connection, _RUNS))
    trends = [[*rows] for _, rows in groupby(scores, lambda row: (row["rubric_id"], row["model"]))]
    trends.sort(key=lambda rows: -rows[-1]["version"])
    return Home(runs, tuple(trend_of(rows) for rows in trends[:MOST_TRENDS]), len(trends))


def _line(connection: duckdb.DuckDBPyConnection, lake: Lake, run: Row, scores: Sequence[Row]) -> RunLine:
    is_met = not stated_outcome(connection, lake, run["run_id"])[1] if run["status"] == "published" else None
    ranked = sorted(scores, key=lambda row: (row["mean"] is None, -(row["mean"] or 0.0), model_name(row)))
    return RunLine(run, is_met, tuple(_model_line(row) for row in ranked))


def _model_line(row: Row) -> ModelLine:
    weakest = "–" if row["weakest_id"] is None else f"{row['weakest_id']} {score_words(row['weakest_mean'])}"
    change = signed_words(None if row["changed"] else row["change"])
    return ModelLine(
        model_name(row), score_words(row["mean"]), mean_interval_words(row), change, row["changed"], weakest
    )


def trend_of(rows: Sequence[Row]) -> Trend:
    """Trend of one rubric and model since the last change of rubric or judge. rows: oldest first."""
    last = rows[-1]
    is_alike = [all(row[name] == last[name] for name in ("rubric_version", "judge")) for row in rows]
    first = max((place for place, alike in enumerate(is_alike, start=1) if not alike), default=0)
    known = [row for row in rows[first:][-MOST_POINTS:] if row["mean"] is not None]
    svg = draw("sparkline", {"rows": [*_points(known)]}, last=len(known) - 1) if len(known) > 1 else None
    count = sum(row["mean"] is not None for row in rows)
    begun = _begun(rows[first - 1], rows[first]) if first else ""
    return Trend(last["rubric_id"], last["model"], last["run_id"], svg, _reading(last, known, count) + begun)


def _begun(before: Row, row: Row) -> str:
    """Sentence on the run with which a trend begins anew."""
    versions = f"rubric version {before['rubric_version']} → {row['rubric_version']}"
    changed = versions if before["rubric_version"] != row["rubric_version"] else "another judge"
    return f" A new line begins with {row['run_id']}: {changed}."


def _points(rows: Sequence[Row]) -> Iterator[Row]:
    for place, row in enumerate(rows):
        tip = f"{row['run_id']}, {model_name(row)}: {score_words(row['mean'])}"
        if row["stopped_at"] is not None:
            tip += f", stopped after {counted(row['stopped_at'], 'case')}"
        yield {"place": place, "mean": row["mean"], "low": row["ci_low"], "high": row["ci_high"], "tip": tip}


def _reading(last: Row, known: Sequence[Row], count: int) -> str:
    words = f"{score_words(last['mean'])} in {last['run_id']}"
    if len(known) > 1 and last["mean"] is not None:
        words += f", {signed_words(known[-1]['mean'] - known[0]['mean'])} since {known[0]['run_id']}"
    return f"{words}; {counted(count, 'score')} in total."
