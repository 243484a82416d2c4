"""Page of the people who rate a run: raters, agreement, disagreements, and what is worth rating next."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import duckdb
from starlette.requests import Request
from starlette.routing import Route

from gradebook.rubrics.model.errors import GradebookError, InputError
from gradebook.rubrics.text.tables import Cells, Table, capitalised
from gradebook.rubrics.text.wording import price_words, score_words
from gradebook.tasks.agreement.calibration import RunCalibration, calibrate_run
from gradebook.tasks.agreement.columns import (
    CALIBRATED_COLUMNS,
    MEAN_COLUMNS,
    PACE_COLUMNS,
    RATER_COLUMNS,
    TITLES,
    agreement_columns,
)
from gradebook.tasks.agreement.published_run import RunAgreement, measure_run
from gradebook.tasks.agreement.raters import RunRaters, compare_raters
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect_up_to_date
from gradebook.tasks.lake.rows import Row, model_name, read_rows
from gradebook.tasks.lake.sql import query
from gradebook.tasks.learning.improve import ImproveRequest, Preview, open_improvement
from gradebook.tasks.published.run_tables import TRUST
from gradebook.tasks.published.runs import read_runs
from gradebook.tasks.ratings.rating_queue import CAUSES, Queue, QueuedOutput, choose_outputs
from gradebook.tasks.rubric_store.questions import add_questions_of_run
from gradebook.tasks.viewing.cases import CaseFilters
from gradebook.tasks.viewing.frame import Frame

MOST_RUNS = 30  # to choose from
MOST_SHOWN = 20  # disputes, and decisions
NEXT_COUNT = 10  # outputs to rate next
_DECISIONS = ("adjudications", "step_adjudications")
# Queues that find problems, with what is in them.
_PROBLEMS = {
    Queue.disputed: "raters, or a rater and the judge, score them differently",
    Queue.gates: "they fail a gate: a person looks at a detector's flags",
    Queue.weak: "they are in a slice that does worse than the rest",
}


IMPROVABLE_COLUMNS: Cells[Preview] = {
    "criterion": lambda preview: preview.criterion_id,
    "outputs": lambda preview: f"{preview.power.n:,}",
    "kappa": lambda preview: score_words(preview.power.kappa),
    "rise found in 4 of 5 searches": lambda preview: score_words(preview.power.detectable),
    "judgments, at most": lambda preview: f"{preview.most_questions:,}",
    "about": lambda preview: price_words(preview.usd),
}


def routes(frame: Frame) -> list[Route]:
    """Addresses: /people, with `?run=` for another run than the latest, and what better questions would cost."""

    def people(request: Request) -> str:
        run_id = request.query_params.get("run") or frame.at_version(read_latest_run)
        page = frame.at_version(read_people_page, run_id) if run_id else None
        return frame.render("people.html.j2", "People · gradebook", page=page)

    def improve(request: Request) -> str:
        run_id = request.query_params.get("run", "")
        judge = None if frame.editing is None else frame.editing.judge
        found = frame.at_version(read_improvable, run_id, judge)
        return frame.render("improve.html.j2", "A better question · gradebook", run_id=run_id, improvable=found)

    return [frame.route("/people", people), frame.route("/people/improve", improve)]


def read_latest_run(lake: Lake) -> str | None:
    """Id of the latest published run; None without one."""
    with connect_up_to_date(lake) as connection:
        return next((row["run_id"] for row in read_runs(connection) if row["status"] == "published"), None)


@dataclass(frozen=True, slots=True)
class Opinion:
    """Rating in dispute. who: the rater, or "judge"; level: with the error of a step."""

    who: str
    level: str
    notes: str


@dataclass(frozen=True, slots=True)
class Dispute:
    """Criterion of an output on which people differ. address: of the case's page."""

    case_id: str
    address: str
    model: str
    criterion: str
    opinions: tuple[Opinion, ...]


@dataclass(frozen=True, slots=True)
class Decision:
    """Decision of a lead. cause: in words."""

    case_id: str
    address: str
    model: str
    criterion: str
    level: str
    cause: str
    row: Row


@dataclass(frozen=True, slots=True)
class NextOutput:
    """Output to rate. score: the judge's, a mean over criteria."""

    case_id: str
    address: str
    model: str
    score: str


@dataclass(frozen=True, slots=True)
class ProblemQueue:
    """Queue of outputs that need a look. command: serves it."""

    name: str
    words: str
    count: int
    command: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Improvable:
    """Power and price of `gradebook judge improve` on a run's ratings.

    table: by criterion; None if no criterion can be improved. fault: the reason for that. command: capped at its
    price, or with the word USD in its place if a price is unknown; empty if no criterion can be improved.
    """

    table: Table | None
    fault: str
    command: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PeoplePage:
    """Contents of the page of one run.

    runs: ids of published runs, newest first. disputes, decisions: the first of dispute_count and decision_count.
    commands: by part of the page, as words.
    """

    run: Row
    runs: tuple[str, ...]
    raters: RunRaters
    rater_tables: tuple[Table, ...]
    agreement: RunAgreement
    agreement_tables: tuple[Table, ...]
    disputes: tuple[Dispute, ...]
    dispute_count: int
    decisions: tuple[Decision, ...]
    decision_count: int
    calibration: RunCalibration
    corrected: Table | None
    next_outputs: tuple[NextOutput, ...]
    queues: tuple[ProblemQueue, ...]
    commands: dict[str, tuple[str, ...]]

    @property
    def rated_count(self) -> int:
        """Ratings of all raters."""
        return sum(row.rating_count for row in self.raters.rows)


def read_people_page(lake: Lake, run_id: str) -> PeoplePage:
    """Read the page of a published run. Raises `InputError` for an unknown run."""
    raters, agreement = compare_raters(lake, run_id), measure_run(lake, run_id, is_passed_on=True)
    calibration = calibrate_run(lake, run_id, next_count=NEXT_COUNT, is_passed_on=True)
    commands = _commands(lake, run_id)
    with connect_up_to_date(lake) as connection:
        runs = [row["run_id"] for row in read_runs(connection) if row["status"] == "published"]
        add_questions_of_run(connection, run_id, *_DECISIONS)
        decisions = read_rows(connection, query("viewing/decisions"), run_id=run_id)
        disputed = _queued(connection, run_id, Queue.adjudicate)
        disputes = tuple(_disputes(connection, run_id, disputed[:MOST_SHOWN]))
        queues = tuple(_problem_queues(connection, lake, run_id))
    return PeoplePage(
        raters.run,
        tuple(runs[:MOST_RUNS]),
        raters,
        tuple(_rater_tables(raters)),
        agreement,
        tuple(_agreement_tables(agreement)),
        disputes,
        sum(len(output.opinions) for output in disputed),
        tuple(_decision(run_id, row) for row in decisions[:MOST_SHOWN]),
        len(decisions),
        calibration,
        capitalised("Means corrected by ratings", CALIBRATED_COLUMNS, calibration.rows, 2)
        if calibration.rows
        else None,
        tuple(_next_output(run_id, row) for row in calibration.next_outputs),
        queues,
        commands,
    )


def read_improvable(lake: Lake, run_id: str, judge: str | None) -> Improvable:
    """Power and price of better questions for a run's judge; nothing is asked. judge: None: by the name in the run."""
    try:
        previews = open_improvement(lake, ImproveRequest(run_id, judge=judge)).previews
    except GradebookError as error:
        return Improvable(None, str(error), ())
    known = [preview.usd for preview in previews if preview.usd is not None]
    budget = f"{math.ceil(100 * sum(known)) / 100:.2f}" if len(known) == len(previews) else "USD"
    judged = () if judge is None else ("--judge", judge)
    command = ("gradebook", "judge", "improve", run_id, *judged, "--budget-usd", budget)
    table = capitalised("Judge's questions that ratings may improve", IMPROVABLE_COLUMNS, previews)
    return Improvable(table, "", (*command, *lake.words(is_passed_on=True)))


def _commands(lake: Lake, run_id: str) -> dict[str, tuple[str, ...]]:
    """Commands behind the parts of the page."""
    words = {
        "rate": ("people", "rate", run_id, "--raters", "NAME,NAME"),
        "raters": ("people", "raters", run_id, "--pairs"),
        "agreement": ("people", "agreement", run_id, "--by", "rater"),
        "adjudicate": ("people", "rate", run_id, "--queue", Queue.adjudicate.value, "--raters", "NAME"),
        "calibrate": ("people", "calibrate", run_id, "--rate-next", str(NEXT_COUNT)),
        "next": ("people", "rate", run_id, "--queue", Queue.calibration.value, "--n", str(NEXT_COUNT)),
    }
    return {name: ("gradebook", *command, *lake.words(is_passed_on=True)) for name, command in words.items()}


def _rater_tables(raters: RunRaters) -> Iterator[Table]:
    if raters.rows:
        yield capitalised("Raters beside all others", RATER_COLUMNS, raters.rows)
    if raters.models and len(raters.rows) > 1:
        yield capitalised("Mean ratings of models", MEAN_COLUMNS, raters.models)
    if raters.paces:
        yield capitalised("Time on the rating page", PACE_COLUMNS, raters.paces)


def _agreement_tables(agreement: RunAgreement) -> Iterator[Table]:
    for kind, title in TITLES.items():
        parts = [part for part in agreement.parts if part.kind == kind and part.judge is None and part.rater is None]
        if parts:
            yield capitalised(f"{title[0].upper()}{title[1:]}", agreement_columns(parts, has_who=False), parts)
    if agreement.trust:
        yield capitalised("Failures that people found", TRUST, agreement.trust)


def _queued(connection: duckdb.DuckDBPyConnection, run_id: str, queue: Queue) -> tuple[QueuedOutput, ...]:
    """All outputs of a queue; none of an empty one."""
    try:
        return choose_outputs(connection, run_id, queue, _ALL, has_names=True)
    except InputError:
        return ()


_ALL = 1_000_000_000


def _problem_queues(connection: duckdb.DuckDBPyConnection, lake: Lake, run_id: str) -> Iterator[ProblemQueue]:
    for queue, words in _PROBLEMS.items():
        count = len(_queued(connection, run_id, queue))
        command = ("gradebook", "people", "rate", run_id, "--queue", queue.value, *lake.words(is_passed_on=True))
        yield ProblemQueue(queue.value, words, count, command)


def _disputes(connection: duckdb.DuckDBPyConnection, run_id: str, outputs: Sequence[QueuedOutput]) -> Iterator[Dispute]:
    output_ids = [output.output_id for output in outputs]
    rows = read_rows(connection, query("viewing/outputs_by_id"), run_id=run_id, output_ids=output_ids)
    by_id = {row["output_id"]: row for row in rows}
    for output in outputs:
        row = by_id[output.output_id]
        for criterion, opinions in output.opinions.items():
            yield Dispute(
                row["case_id"],
                CaseFilters().case_address(run_id, row["case_id"]),
                model_name(row),
                _part_name(*criterion.partition(".")[::2]),
                tuple(map(_opinion, opinions)),
            )


def _opinion(opinion: Row) -> Opinion:
    level = opinion["level_id"] or (score_words(opinion["score"]) if opinion["score"] is not None else "does not apply")
    error = f" ({opinion['error']})" if opinion.get("error") else ""
    return Opinion(opinion["rater"] or "judge", f"{level}{error}", opinion["notes"] or "")


def _decision(run_id: str, row: Row) -> Decision:
    return Decision(
        row["case_id"],
        CaseFilters().case_address(run_id, row["case_id"]),
        model_name(row),
        _part_name(row["criterion_id"], "" if row["step_index"] is None else str(row["step_index"])),
        row["level_id"] or "does not apply",
        CAUSES.get(row["cause"], row["cause"] or ""),
        row,
    )


def _next_output(run_id: str, row: Row) -> NextOutput:
    return NextOutput(
        row["case_id"], CaseFilters().case_address(run_id, row["case_id"]), model_name(row), score_words(row["score"])
    )


def _part_name(criterion_id: str, step: str) -> str:
    """Criterion, and the number of the step from 1 if it is one's."""
    return f"{criterion_id}, step {int(step) + 1}" if step else criterion_id
