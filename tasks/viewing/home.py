"""Home page: what each rubric's last run says, runs in progress, and the list of runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Self
from urllib.parse import quote, urlencode

from starlette.routing import Route

from gradebook.rubrics.text.wording import price_words, score_words, signed_words, total_price_words
from gradebook.tasks.comparing.verdict import NextStep
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect_up_to_date
from gradebook.tasks.lake.rows import Row, model_name, read_rows
from gradebook.tasks.lake.sql import query
from gradebook.tasks.published.run_tables import mean_words, weakest_words
from gradebook.tasks.published.runs import read_runs
from gradebook.tasks.published.summary import stated_outcome, stated_word
from gradebook.tasks.viewing.cases import step_links
from gradebook.tasks.viewing.frame import Frame, count_pages, data_name, page_number

RUNS_A_PAGE = 50
MOST_RUBRICS = 12
MOST_TREND_MODELS = 4  # of a rubric
MOST_TREND_RUNS = 30  # of each model
MOST_SUITES = 30  # of a night
MOST_CHECKPOINTS = 10
WIDTH, HEIGHT, MARGIN = 120, 28, 3  # of a trend, pixels
_MODELS = "select run_id, list(distinct model) from run_scores group by run_id"
VERDICTS = ("may ship", "may not ship", "undecided", "no gate")


def routes(frame: Frame) -> list[Route]:
    """Address of the page."""

    return [frame.route("/", lambda request: draw_home(frame, request.query_params))]


def draw_home(frame: Frame, values: Mapping[str, str]) -> str:
    """Page by its address's values. Raises `LakeError` where the lake can't be read."""
    progress = frame.progress.read()
    # The summary in a run's folder follows its publication.
    states = " ".join(line.state for line in progress)
    page = frame.at_version(read_home_page, Filters.read(values), beside=states)
    shown = {"page": page, "progress": progress, "verdicts": VERDICTS, "size": (WIDTH, HEIGHT)}
    return frame.render("home.html.j2", f"{frame.lake.name} · gradebook", **shown)


@dataclass(frozen=True, slots=True)
class Filters:
    """Filters of the list of runs, from an address. page: from 1."""

    text: str = ""
    rubric: str = ""
    verdict: str = ""
    page: int = 1

    @classmethod
    def read(cls, values: Mapping[str, str]) -> Self:
        """Read an address's values; a page that is no number is the first."""
        page = page_number(values.get("page"))
        return cls(values.get("q", "")[:200], values.get("rubric", ""), values.get("verdict", ""), page)

    def address(self, page: int) -> str:
        """Address of another page of the same list."""
        values = {"q": self.text, "rubric": self.rubric, "verdict": self.verdict, "page": str(page)}
        return "/?" + urlencode({name: value for name, value in values.items() if value})


@dataclass(frozen=True, slots=True)
class TrendLine:
    """Means of a model by a rubric over its last comparable runs. points: of an SVG polyline; empty for one run."""

    model: str
    mean: str
    change: str
    points: str
    end: tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class RubricLine:
    """Last run of a rubric: its verdict, in the words of its publication, and the trend of its models.

    next_step: what to do first; links: labels and addresses of the cases that it names. change: address of what
    changed since its baseline, or without one since the run before; "" for the first run.
    """

    run: Row
    word: str
    lines: tuple[str, ...]
    trends: tuple[TrendLine, ...]
    next_step: NextStep | None
    links: tuple[tuple[str, str], ...]
    change: str


@dataclass(frozen=True, slots=True)
class RunLine:
    """Run in the list. word: its verdict; None where it is not published. data: name of its file, without folders."""

    run: Row
    word: str | None
    data: str
    mean: str
    weakest: str
    cost: str


@dataclass(frozen=True, slots=True)
class HomePage:
    """Contents of the home page. run_count: runs that pass the filters; page_count: pages of them, at least 1.

    nights: runs of the last night; night_cost: their sum as text. checkpoints: last decisions, as rows of
    viewing/checkpoints.
    """

    rubrics: tuple[RubricLine, ...]
    nights: tuple[RunLine, ...]
    night_cost: str
    checkpoints: tuple[Row, ...]
    runs: tuple[RunLine, ...]
    run_count: int
    page_count: int
    filters: Filters
    rubric_ids: tuple[str, ...]
    all_count: int


def read_home_page(lake: Lake, filters: Filters) -> HomePage:
    """Read the contents of the home page. Raises `LakeError` where the lake can't be read."""
    with connect_up_to_date(lake, is_pinned=True) as connection:
        runs = read_runs(connection)
        rubrics = []
        for last in read_rows(connection, query("published/last_runs"))[:MOST_RUBRICS]:
            stated = stated_outcome(connection, lake, last["run_id"])
            history = read_rows(
                connection, query("reporting/scores_by_run"), rubric_id=last["rubric_id"], most_runs=MOST_TREND_RUNS
            )
            sentences = stated.lines or stated.unmet
            trends, step = _trends(history, last["run_id"]), stated.next_step
            links = () if step is None else step_links(last["run_id"], step)
            change = _change_address(last, runs)
            rubrics.append(RubricLine(last, stated.word, sentences, trends, step, links, change))
        models = dict(connection.execute(_MODELS).fetchall()) if filters.text else {}
        passing = [row for row in runs if _passes(row, models.get(row["run_id"], ()), filters)]
        if filters.verdict:
            passing = [row for row in passing if _has_verdict(stated_word(connection, lake, row), filters.verdict)]
        page_count = count_pages(len(passing), RUNS_A_PAGE)
        start = (min(filters.page, page_count) - 1) * RUNS_A_PAGE
        lines = tuple(_run_line(row, stated_word(connection, lake, row)) for row in passing[start:][:RUNS_A_PAGE])
        night_runs = _last_night(runs)
        nights = tuple(_run_line(row, stated_word(connection, lake, row)) for row in night_runs)
        checkpoints = read_rows(connection, query("viewing/checkpoints"), limit=MOST_CHECKPOINTS)
    ids = tuple(sorted({str(row["rubric_id"]) for row in runs}))
    return HomePage(
        tuple(rubrics),
        nights,
        _cost_of(night_runs),
        checkpoints,
        lines,
        len(passing),
        page_count,
        filters,
        ids,
        len(runs),
    )


def _change_address(last: Row, runs: Sequence[Row]) -> str:
    """Address of what changed in the last run of a rubric. runs: newest first."""
    if last["baseline_run_id"]:
        return f"/runs/{quote(last['run_id'], safe='')}/sections/change"
    published = [
        row["run_id"] for row in runs if row["rubric_id"] == last["rubric_id"] and row["status"] == "published"
    ]
    before = next((run_id for run_id in published if run_id != last["run_id"]), None)
    return "" if before is None else "/compare?" + urlencode({"a": before, "b": last["run_id"]})


def _cost_of(runs: Sequence[Row]) -> str:
    """Sum of what runs cost, as text."""
    known = [row["cost_usd"] for row in runs if row["cost_usd"] is not None]
    return total_price_words(sum(known) if known else None, len(runs) - len(known))


def _last_night(runs: Sequence[Row]) -> list[Row]:
    """Runs of the last night: those that a nightly run began within a day before its last one. runs: newest first."""
    nightly = [row for row in runs if row["trigger"] == "nightly"]
    since = nightly[0]["created_at"] - timedelta(days=1) if nightly else None
    return [row for row in nightly if since is not None and row["created_at"] > since][:MOST_SUITES]


def _passes(run: Row, models: Sequence[str], filters: Filters) -> bool:
    """Whether a run has the filters' rubric, and their text in its id, data, judge, rubric or models."""
    if filters.rubric and run["rubric_id"] != filters.rubric:
        return False
    names = (run["run_id"], run["dataset"], run["judge"], run["rubric_id"], *models)
    return filters.text.lower() in " ".join(str(name) for name in names if name is not None).lower()


def _has_verdict(word: str | None, verdict: str) -> bool:
    """Whether a run's word is the one asked for: "some" is for words such as "1 of 2 may ship"."""
    if word is None:
        return verdict == "unpublished"
    return word[0].isdigit() if verdict == "some" else word == verdict


def _run_line(run: Row, word: str | None) -> RunLine:
    return RunLine(run, word, data_name(run), mean_words(run), weakest_words(run), price_words(run["cost_usd"]))


def _trends(history: Sequence[Row], run_id: str) -> tuple[TrendLine, ...]:
    """Trend of each model of a run. history: rows of reporting/scores_by_run."""
    by_model: dict[str, list[Row]] = {}
    for row in history:
        by_model.setdefault(model_name(row), []).append(row)
    models = [(name, rows) for name, rows in by_model.items() if rows[-1]["run_id"] == run_id]
    return tuple(_trend(name, rows) for name, rows in models[:MOST_TREND_MODELS])


def _trend(name: str, rows: Sequence[Row]) -> TrendLine:
    """Trend since the last change of rubric, judge or cases."""
    first = next((index for index in range(len(rows) - 1, 0, -1) if rows[index]["changed"]), 0)
    means = [row["mean"] for row in rows[first:] if row["mean"] is not None]
    last = rows[-1]["mean"]
    change = signed_words(means[-1] - means[-2]) if len(means) > 1 and last is not None else ""
    if len(means) < 2:
        return TrendLine(name, score_words(last), change, "", None)
    low, high = min(means), max(means)
    span = max(high - low, 0.02)  # a line that looks flat is flat
    middle = (low + high) / 2
    step = (WIDTH - 2 * MARGIN) / (len(means) - 1)
    inner = HEIGHT - 2 * MARGIN
    places = [
        (round(MARGIN + index * step, 1), round(MARGIN + inner * (0.5 - (mean - middle) / span), 1))
        for index, mean in enumerate(means)
    ]
    return TrendLine(name, score_words(last), change, " ".join(f"{x},{y}" for x, y in places), places[-1])
