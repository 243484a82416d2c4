"""Home page of a lake: runs with their trends, reports, and rubrics with the changes of each version, as static files
that link to each other.
"""

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import duckdb
from markupsafe import Markup

from gradebook.rubrics.files.load import read_rubric, shipped_rubrics
from gradebook.rubrics.files.versions import required_step, rubric_from_body
from gradebook.rubrics.model.errors import InputError, RubricError
from gradebook.rubrics.model.rubric import Rubric
from gradebook.rubrics.text.tables import Table, table_of
from gradebook.rubrics.text.wording import counted, score_words, signed_words
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect_up_to_date
from gradebook.tasks.lake.rows import Row, model_name, read_rows
from gradebook.tasks.lake.sql import query
from gradebook.tasks.published.run_tables import mean_interval_words
from gradebook.tasks.published.summary import stated_word, summarise
from gradebook.tasks.reporting.charts import draw
from gradebook.tasks.reporting.page import write_report
from gradebook.tasks.reporting.rendering import render
from gradebook.tasks.system.files import write_text
from gradebook.tasks.system.progress import reporter

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
    """Run in the list. run: row of `runs`; word: the verdict, None if the run is not published."""

    run: Row
    word: str | None
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
    sentence: str


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
        return tuple(line for line in self.runs if line.word is not None)


def read_home(connection: duckdb.DuckDBPyConnection, lake: Lake) -> Home:
    """Read the contents of the home page."""
    scores = read_rows(connection, query("reporting/scores_by_run"), rubric_id=None, most_runs=None)
    by_run: dict[str, list[Row]] = {}
    for row in scores:
        by_run.setdefault(row["run_id"], []).append(row)
    runs = tuple(_line(connection, lake, run, by_run.get(run["run_id"], [])) for run in read_rows(connection, _RUNS))
    trends = [[*rows] for _, rows in groupby(scores, _trend_key)]
    trends.sort(key=lambda rows: -rows[-1]["version"])
    return Home(runs, tuple(trend_of(rows) for rows in trends[:MOST_TRENDS]), len(trends))


def _trend_key(row: Row) -> tuple[str, str, bool]:
    """Checkpoints of a model have a trend apart from its other runs."""
    return row["rubric_id"], row["model"], row["checkpoint"] is not None


def _line(connection: duckdb.DuckDBPyConnection, lake: Lake, run: Row, scores: Sequence[Row]) -> RunLine:
    ranked = sorted(scores, key=lambda row: (row["mean"] is None, -(row["mean"] or 0.0), model_name(row)))
    return RunLine(run, stated_word(connection, lake, run), tuple(_model_line(row) for row in ranked))


def _model_line(row: Row) -> ModelLine:
    lowest = row["weakest"]
    weakest = "–" if lowest is None else f"{lowest['criterion_id']} {score_words(lowest['mean'])}"
    change = signed_words(None if row["changed"] else row["change"])
    return ModelLine(
        model_name(row), score_words(row["mean"]), mean_interval_words(row), change, row["changed"], weakest
    )


def trend_of(rows: Sequence[Row]) -> Trend:
    """Trend of one rubric and model since the last change of rubric, judge or cases. rows: oldest first."""
    last = rows[-1]
    is_alike = [not _difference(row, last) for row in rows]
    first = max((index for index, alike in enumerate(is_alike, start=1) if not alike), default=0)
    scored = [row for row in rows[first:][-MOST_POINTS:] if row["mean"] is not None]
    svg = draw("sparkline", {"rows": [*_points(scored)]}, last=len(scored) - 1) if len(scored) > 1 else None
    count = sum(row["mean"] is not None for row in rows)
    begun = _begun(rows[first - 1], rows[first]) if first else ""
    name = last["model"] if last["checkpoint"] is None else f"{last['model']}, checkpoints"
    return Trend(last["rubric_id"], name, last["run_id"], svg, _sentence(last, scored, count) + begun)


def _difference(before: Row, row: Row) -> str:
    """Difference that keeps two scores of a model from being compared, or "". A stopped run has fewer cases."""
    if before["rubric_version"] != row["rubric_version"]:
        return f"rubric version {before['rubric_version']} → {row['rubric_version']}"
    epochs = (before["judge_epoch"], row["judge_epoch"])
    if before["judge"] != row["judge"] or (None not in epochs and epochs[0] != epochs[1]):
        return "another judge"
    is_stopped = before["stopped_at"] is not None or row["stopped_at"] is not None
    return "" if is_stopped or before["cases"] == row["cases"] else "other cases"


def _begun(before: Row, row: Row) -> str:
    """Sentence on the run with which a trend begins anew."""
    changed = _difference(before, row) or "other cases"  # than in the last run, if not than in the run before
    return f" A new line begins with {row['run_id']}: {changed}."


def _points(rows: Sequence[Row]) -> Iterator[Row]:
    for index, row in enumerate(rows):
        tip = f"{row['run_id']}, {model_name(row)}: {score_words(row['mean'])}"
        if row["stopped_at"] is not None:
            tip += f", stopped after {counted(row['stopped_at'], 'case')}"
        yield {"place": index, "mean": row["mean"], "low": row["ci_low"], "high": row["ci_high"], "tip": tip}


def _sentence(last: Row, scored: Sequence[Row], count: int) -> str:
    sentence = f"{score_words(last['mean'])} in {last['run_id']}"
    if len(scored) > 1 and last["mean"] is not None:
        sentence += f", {signed_words(scored[-1]['mean'] - scored[0]['mean'])} since {scored[0]['run_id']}"
    return f"{sentence}; {counted(count, 'score')} in total."


STAGE = "site"


@dataclass(frozen=True, slots=True)
class Site:
    """Site as written. home: the page to open; kept_count: existing reports that were left unchanged.

    faults: reason why a run has no report, by run.
    """

    home: Path
    report_count: int
    kept_count: int
    rubric_count: int
    faults: Mapping[str, str]


def write_site(lake: Lake, folder: Path, *, is_anew: bool = False) -> Site:
    """Write the home page of a lake and all pages that it links to.

    Existing reports are left unchanged, because a published run never changes; is_anew: write all of them again. Raises
    `InputError` if the folder can't be written.
    """
    with connect_up_to_date(lake, is_pinned=True) as connection:
        home = read_home(connection, lake)
        rubrics = read_rubric_pages(connection)
    shipped = shipped_pages([rubric.rubric_id for rubric in rubrics])
    try:
        wanted = [*_missing_reports(folder, home.published, is_anew=is_anew)]
        faults = _write_reports(lake, wanted)
        for rubric in (*rubrics, *shipped):
            write_text(_inside(folder, rubric.page), render("rubric.html.j2", rubric=rubric))
        values = {"home": home, "lake": lake, "rubrics": rubrics, "shipped": shipped, "faults": faults}
        write_text(folder / "index.html", render("site.html.j2", **values))
    except OSError as error:
        raise InputError(f"site: can't write {error.filename or folder}: {error.strerror}") from error
    kept_count = len(home.published) - len(wanted)
    return Site(folder / "index.html", len(wanted) - len(faults), kept_count, len(rubrics), faults)


def _write_reports(lake: Lake, wanted: Sequence[tuple[RunLine, Path]]) -> dict[str, str]:
    """Write the reports of these runs; returns the fault of each run whose report could not be written.

    A page in the lake's folder is not copied: anybody may have put it there.
    """
    faults: dict[str, str] = {}
    reporter().begin(STAGE, len(wanted))
    for run, path in wanted:
        try:
            write_report(lake, summarise(lake, run.run_id), path, rubric_page=f"../rubrics/{run.run['rubric_id']}.html")
        except OSError:  # a fault of the folder affects all reports
            raise
        except Exception as error:  # noqa: BLE001 - a fault of one run must not stop the others
            faults[run.run_id] = f"{type(error).__name__}: {error}".splitlines()[0]
        reporter().advance(STAGE, 1)
    reporter().end(STAGE)
    return faults


def _inside(folder: Path, name: str) -> Path:
    """Path of a page. Raises `InputError` if it lies outside the folder: names come from the catalog."""
    root, path = os.path.realpath(folder), folder / name
    if os.path.commonpath([root, os.path.realpath(path)]) != root:
        raise InputError("site", f"the page {name!r}, which lies outside {folder}", "pages in the folder alone")
    return path


def _missing_reports(folder: Path, runs: tuple[RunLine, ...], *, is_anew: bool) -> Iterator[tuple[RunLine, Path]]:
    for run in runs:
        path = _inside(folder, run.report)
        if is_anew or not path.is_file():
            yield run, path


_BODIES = "select rubric_id, rubric_version, body from rubrics"


@dataclass(frozen=True, slots=True)
class RubricVersion:
    """Version of a rubric. row: of the query rubric_store/versions; changes: sentences, largest change first.

    criteria, levels: None if this version of gradebook can't read the rubric. row: None for a shipped rubric.
    """

    version: str
    row: Row | None
    criteria: Table | None
    levels: Table | None
    changes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RubricPage:
    """Rubric with its versions, newest first."""

    rubric_id: str
    name: str | None
    description: str | None
    versions: tuple[RubricVersion, ...]

    @property
    def page(self) -> str:
        """Path of the page, relative to the home page."""
        return f"rubrics/{self.rubric_id}.html"


def read_rubric_pages(connection: duckdb.DuckDBPyConnection) -> tuple[RubricPage, ...]:
    """Read all rubrics of a lake, sorted by id."""
    rubrics = {(row["rubric_id"], row["rubric_version"]): _readable(row) for row in read_rows(connection, _BODIES)}
    by_rubric = groupby(read_rows(connection, query("rubric_store/versions")), lambda row: str(row["rubric_id"]))
    return tuple(_page(rubric_id, [*rows], rubrics) for rubric_id, rows in by_rubric)


def shipped_pages(taken: Collection[str]) -> tuple[RubricPage, ...]:
    """Pages of the shipped rubrics, except those whose id the lake stores."""
    rubrics = [read_rubric(name) for name in shipped_rubrics() if name not in taken]
    return tuple(
        RubricPage(
            rubric.id, rubric.name, rubric.description, (RubricVersion(rubric.version, None, *_tables(rubric), ()),)
        )
        for rubric in rubrics
    )


def _page(rubric_id: str, rows: Sequence[Row], rubrics: dict[tuple[str, str], Rubric | None]) -> RubricPage:
    texts = [rubrics.get((rubric_id, row["rubric_version"])) for row in rows]
    versions = tuple(
        RubricVersion(row["rubric_version"], row, *_tables(text), version_changes(older, text))
        for row, text, older in zip(rows, texts, [*texts[1:], None], strict=True)
    )
    newest = texts[0]
    name, description = (None, None) if newest is None else (newest.name, newest.description)
    return RubricPage(rubric_id, name, description, versions)


def _readable(row: Row) -> Rubric | None:
    """Rubric of a row; None if this version of gradebook can't read it."""
    try:
        return None if row["body"] is None else rubric_from_body(row["body"])
    except RubricError:
        return None


def version_changes(older: Rubric | None, newer: Rubric | None) -> tuple[str, ...]:
    """What a version changed, a sentence each, with the step that it needs; nothing if one of the two is unknown."""
    if older is None or newer is None:
        return ()
    return tuple(f"{step}: {reason}" for step, reason in required_step(older, newer).reasons)


def _tables(rubric: Rubric | None) -> tuple[Table | None, Table | None]:
    """Tables of the criteria and of their levels."""
    if rubric is None:
        return None, None
    whose = f"{rubric.id} {rubric.version}"
    criteria = table_of(
        f"Criteria of {whose}",
        ("Criterion", "Category", "Method", "Question", "Reason for the weight"),
        ("Weight", "Threshold"),
        (
            (
                criterion.id,
                criterion.category or "–",
                criterion.method.type,
                criterion.description,
                criterion.rationale or "–",
                "gate" if criterion.gate else f"{criterion.own_weight:g}",
                score_words(criterion.threshold),
            )
            for criterion in rubric.criteria
        ),
    )
    levels = table_of(
        f"Levels of {whose}",
        ("Criterion", "Level", "Description", "Indicators"),
        ("Score",),
        (
            (
                criterion.id,
                level.label or level.id,
                level.description or "–",
                "; ".join(level.indicators) or "–",
                f"{level.score:g}",
            )
            for criterion in rubric.criteria
            for level in criterion.ranked_levels
        ),
    )
    return criteria, levels
