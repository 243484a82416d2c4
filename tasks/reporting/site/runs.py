"""What the home page says of the runs of a lake: a line each, and how each model's score went."""

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby

import duckdb
from markupsafe import Markup

from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.rows import Row, model_name, read_rows
from gradebook.tasks.lake.sql import query
from gradebook.tasks.published.requirements import unmet_requirements
from gradebook.tasks.reporting.drawing.charts import draw
from gradebook.tasks.reporting.sections.scores.scores import interval_words
from gradebook.tasks.system.number_format import counted, score_words, signed_words
from gradebook.tasks.workspace.folder import RunFolder

MOST_POINTS = 30  # of a trend
MOST_TRENDS = 60  # each is drawn in a tenth of a second

_RUNS = """
select run_id, status, reason, coalesce(finished_at, created_at) as ended_at, rubric_id, rubric_version, dataset, judge,
    output_count, cost_usd
from runs order by version desc nulls first, created_at desc, run_id
"""


@dataclass(frozen=True, slots=True)
class ModelLine:
    """A model's score in a run, as people read it: its mean, its 95% interval, the change since its run before, and the
    weighted criterion with the lowest mean.
    """

    name: str
    mean: str
    interval: str
    change: str
    weakest: str


@dataclass(frozen=True, slots=True)
class RunLine:
    """A run in the list. run: its row of `runs`; is_met: None where it is not published."""

    run: Row
    is_met: bool | None
    models: tuple[ModelLine, ...]

    @property
    def run_id(self) -> str:
        """The run's id."""
        return str(self.run["run_id"])

    @property
    def report(self) -> str:
        """Where its page is, from the home page; only published runs have one."""
        return f"runs/{self.run_id}.html"


@dataclass(frozen=True, slots=True)
class Trend:
    """How a model's score went under a rubric, over its runs. svg: None where a single run says nothing of that."""

    rubric_id: str
    model: str
    run_id: str
    svg: Markup | None
    reading: str


@dataclass(frozen=True, slots=True)
class Home:
    """The home page. runs: the newest first; trends: by rubric and model; trend_count: of all there are."""

    runs: tuple[RunLine, ...]
    trends: tuple[Trend, ...]
    trend_count: int

    @property
    def rubric_ids(self) -> list[str]:
        """The rubrics of the runs."""
        return sorted({str(line.run["rubric_id"]) for line in self.runs})

    @property
    def published(self) -> tuple[RunLine, ...]:
        """The runs that have a report."""
        return tuple(line for line in self.runs if line.is_met is not None)


def read_home(connection: duckdb.DuckDBPyConnection, lake: Lake) -> Home:
    """Read what the home page shows."""
    scores = read_rows(connection, query("reporting/site_scores"))
    by_run: dict[str, list[Row]] = {}
    for row in scores:
        by_run.setdefault(row["run_id"], []).append(row)
    runs = tuple(_line(connection, lake, run, by_run.get(run["run_id"], [])) for run in read_rows(connection, _RUNS))
    trends = [[*rows] for _, rows in groupby(scores, lambda row: (row["rubric_id"], row["model"]))]
    trends.sort(key=lambda rows: -rows[-1]["version"])
    return Home(runs, tuple(trend_of(rows) for rows in trends[:MOST_TRENDS]), len(trends))


def _line(connection: duckdb.DuckDBPyConnection, lake: Lake, run: Row, scores: Sequence[Row]) -> RunLine:
    is_met = _is_met(connection, lake, run["run_id"]) if run["status"] == "published" else None
    ranked = sorted(scores, key=lambda row: (row["mean"] is None, -(row["mean"] or 0.0), model_name(row)))
    return RunLine(run, is_met, tuple(_model_line(row) for row in ranked))


def _model_line(row: Row) -> ModelLine:
    weakest = "–" if row["weakest_id"] is None else f"{row['weakest_id']} {score_words(row['weakest_mean'])}"
    return ModelLine(
        model_name(row), score_words(row["mean"]), interval_words(row), signed_words(row["change"]), weakest
    )


def _is_met(connection: duckdb.DuckDBPyConnection, lake: Lake, run_id: str) -> bool:
    """Whether a published run met what was required: as it said itself, its rule against a baseline among that."""
    file = RunFolder(lake.root / "runs" / run_id).published_file
    with suppress(OSError, ValueError, KeyError, TypeError):
        return bool(json.loads(file.read_text(encoding="utf-8"))["is_met"])
    return not unmet_requirements(connection, run_id)[1]


def trend_of(rows: Sequence[Row]) -> Trend:
    """The trend of these rows of one rubric and model, the oldest first: since rubric and judge are what they are."""
    last = rows[-1]
    is_alike = [all(row[name] == last[name] for name in ("rubric_version", "judge")) for row in rows]
    first = max((place for place, alike in enumerate(is_alike, start=1) if not alike), default=0)
    known = [row for row in rows[first:][-MOST_POINTS:] if row["mean"] is not None]
    svg = draw("sparkline", {"rows": [*_points(known)]}, last=len(known) - 1) if len(known) > 1 else None
    count = sum(row["mean"] is not None for row in rows)
    return Trend(last["rubric_id"], last["model"], last["run_id"], svg, _reading(last, known, count))


def _points(rows: Sequence[Row]) -> Iterator[Row]:
    for place, row in enumerate(rows):
        tip = f"{row['run_id']}, {model_name(row)}: {score_words(row['mean'])}"
        yield {"place": place, "mean": row["mean"], "low": row["ci_low"], "high": row["ci_high"], "tip": tip}


def _reading(last: Row, known: Sequence[Row], count: int) -> str:
    words = f"{score_words(last['mean'])} in {last['run_id']}"
    if len(known) > 1 and last["mean"] is not None:
        words += f", {signed_words(known[-1]['mean'] - known[0]['mean'])} since {known[0]['run_id']}"
    return f"{words}; {counted(count, 'score')} in all."
