"""Steps of agents on the rating page: marked, scored, stored, exported and read again."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from gradebook.rubrics.files.load import parse_rubric
from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.agreement.published_run import measure_run
from gradebook.tasks.lake.connections import commit, connect
from gradebook.tasks.ratings.export_ratings import exported_ratings
from gradebook.tasks.ratings.import_ratings import import_ratings
from gradebook.tasks.ratings.import_sheets import RatingFile
from gradebook.tasks.ratings.rating_queue import Queue, choose_outputs
from gradebook.tasks.ratings.rating_session import opened_session
from tests.support.nightly import matrix
from tests.support.samples import write_lines
from tests.support.served_ratings import ORIGIN, RUN, STEPS_RUBRIC, TWO_RUBRIC, Served, stepped_run

FIELDS = {
    "level.steps.1": "right",
    "level.steps.2": "partial",
    "error.steps.2": "tool/wrong_tool",
    "severity.steps.2": "major",
    "note.steps.2": "maps, not trains",
    "level.steps.3": "n/a",
    "level.tone": "good",
}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    lake = stepped_run(tmp_path)
    with opened_session(lake, RUN, queue=Queue.random, count=1, overlap=1) as session:
        served = Served.of(lake, session)
        served.enter("anna")
        served.client.get("/")
        yield served


def send(served: Served, version: int = 0, **changes: str) -> int:
    sent = FIELDS | {"version": str(version), "action": "submit"} | changes
    return served.client.post("/sheet/1", data=sent, headers={"origin": ORIGIN}).status_code


def steps_in(served: Served) -> list[tuple[object, ...]]:
    with connect(served.lake, read_only=True) as connection:
        return connection.execute(
            "select step_index, label, score, error_type, error_subtype, severity, rationale from step_ratings "
            "order by rated_at, step_index"
        ).fetchall()


def test_marks_of_steps_and_the_score_that_they_make_land_in_the_lake(served: Served):
    page = served.client.get("/sheet/1").text
    assert "level.steps.0" not in page  # what the user said is no step of the agent
    assert send(served) == 303
    served.session.store_marks()
    assert steps_in(served) == [
        (1, "right", 1.0, None, None, None, None),
        (2, "partial", 0.5, "tool", "wrong_tool", "major", "maps, not trains"),
        (3, None, None, None, None, None, None),
    ]
    with connect(served.lake, read_only=True) as connection:
        ratings = connection.execute("select criterion_id, score, notes from ratings order by all").fetchall()
    # 100 - 10 (major)
    assert ratings == [("steps", 0.9, "step 2: tool / wrong_tool (major, -10)"), ("tone", 1.0, None)]


@pytest.mark.parametrize("gap", [*matrix(["error.steps.2", "severity.steps.2"]), "level.steps.1"])
def test_a_step_without_its_error_is_marked_and_nothing_is_lost(served: Served, gap: str):
    assert send(served, **{gap: ""}) == 422
    page = served.client.get("/sheet/1").text
    assert "maps, not trains" in page
    assert served.session.store.open_marks() == []


@pytest.mark.nightly
@pytest.mark.parametrize(
    "field",
    [
        *matrix([{"error.steps.2": "tool/none"}]),
        {"severity.steps.2": "huge"},
        *matrix([{"note.steps.2": "x" * 1_001}]),
    ],
)
def test_a_mark_that_no_page_sends_is_refused(served: Served, field: dict[str, str]):
    assert send(served, **field) == 400


@pytest.mark.nightly
def test_a_revised_step_counts_and_an_error_of_a_step_that_is_right_now_goes(served: Served):
    send(served)
    assert send(served, 1, **{"level.steps.2": "right"}) == 303
    served.session.store_marks()
    assert steps_in(served)[-1] == (2, "right", 1.0, None, None, None, "maps, not trains")
    (steps,) = [row["steps"] for row in exported_ratings(served.lake, RUN, "jsonl") if "steps" in row]
    assert [(mark["step"], mark["label"]) for mark in steps] == [(1, "right"), (2, "right")]


@pytest.mark.nightly
def test_what_is_exported_is_read_again_and_adds_nothing(served: Served, tmp_path: Path):
    send(served, **{"level.steps.3": "right"})
    served.session.store_marks()
    rows = exported_ratings(served.lake, None, "jsonl")
    file = write_lines(tmp_path / "again.jsonl", [json.loads(json.dumps(row)) for row in rows])
    again = import_ratings(served.lake, parse_rubric(STEPS_RUBRIC, "rubric.yaml"), RatingFile(file))
    assert (again.faults, again.step_count, again.new_count, again.version) == ((), 3, 0, None)


DECISION = {
    "level.steps.2": "wrong",
    "error.steps.2": "tool/wrong_tool",
    "severity.steps.2": "minor",
    "note.steps.2": "maps has trains",
    "cause.steps.2": "rubric_gap",
    "confidence.steps.2": "high",
    "needs_rubric_update.steps.2": "yes",
}


@pytest.mark.nightly
def test_a_lead_settles_the_steps_on_which_raters_or_the_judge_differ(served: Served):
    send(served, **{"level.steps.3": "right"})
    served.session.store_marks()

    def judge(connection: duckdb.DuckDBPyConnection, _version: int) -> None:
        connection.execute(
            "insert into step_verdicts by name select $run as run_id, output_id, criterion_id, step_index, "
            "if(step_index = 2, 'right', label) as label, if(step_index = 2, 1, score) as score from step_ratings",
            {"run": RUN},
        )

    commit(served.lake, "a judge", judge)
    with opened_session(served.lake, RUN, queue=Queue.adjudicate, count=9, overlap=1) as session:
        lead = Served.of(served.lake, session)
        lead.enter("lea")
        lead.client.get("/")
        page = lead.client.get("/sheet/1").text
        assert "Rater 1: <b>partial</b> tool / wrong_tool / major" in page and "Judge: <b>right</b>" in page
        assert "level.steps.1" not in page and "level.tone" not in page and "anna" not in page
        sent = {"version": "0", "action": "submit", "level.steps.2": "wrong", "cause.steps.2": "mistake"}
        assert lead.client.post("/sheet/1", data=sent, headers={"origin": ORIGIN}).status_code == 422  # no error
        sent |= DECISION
        assert lead.client.post("/sheet/1", data=sent, headers={"origin": ORIGIN}).status_code == 303
        assert session.store_marks() == 2
    with connect(served.lake, read_only=True) as connection:
        decided = connection.execute(
            "from step_adjudications select * exclude (output_id, decided_at, question_digest)"
        ).fetchall()
        named = ("lea", "wrong", 0.0, "tool", "wrong_tool", "minor", "rubric_gap", "high", True, "maps has trains")
        assert decided == [(RUN, "steps", 2, *named)]
        # 100 - 1 (minor), of the settled step and the two on which nobody differs
        of_output = "select criterion_id, adjudicator, level_id, score, cause, notes from adjudications"
        words = "step 2: tool / wrong_tool (minor, -1)"
        assert connection.execute(of_output).fetchall() == [("steps", "lea", None, 0.99, "rubric_gap", words)]
        assert connection.execute("select count(*) from step_ratings").fetchall() == [(3,)]  # the opinions stay
        with pytest.raises(InputError, match="or a step, that was not decided"):
            choose_outputs(connection, RUN, Queue.adjudicate, 9)
    (row,) = [row for row in exported_ratings(served.lake, RUN, "jsonl") if "steps" in row]
    assert [mark.get("settled") for mark in row["steps"]] == [
        None,
        {"label": "wrong", "error_type": "tool", "error_subtype": "wrong_tool", "severity": "minor"},
        None,
    ]
    (found,) = measure_run(served.lake, RUN).steps  # right, right, right of the judge; right, wrong, right
    assert (found.kind, found.n, found.percent_agreement.value) == ("judge_raters", 3, pytest.approx(2 / 3))


@pytest.mark.nightly
def test_a_sheet_has_a_row_for_each_step_and_each_criterion_of_steps(tmp_path: Path):
    lake = stepped_run(tmp_path, TWO_RUBRIC)
    with opened_session(lake, RUN, queue=Queue.random, count=1, overlap=1) as session:
        served = Served.of(lake, session)
        served.enter("anna")
        served.client.get("/")
        page = served.client.get("/sheet/1").text
        names = re.findall(r'data-criterion="([^"]+)"', page)
        assert names == [f"{name}.{step}" for step in (1, 2, 3) for name in ("steps", "safe")]
        assert page.count("no such place") == 1  # a step is shown once
        sent = {f"level.{name}": "right" if name.startswith("steps") else "fine" for name in names}
        sent |= {"level.safe.2": "unsafe", "severity.safe.2": "major", "version": "0", "action": "submit"}
        assert served.client.post("/sheet/1", data=sent, headers={"origin": ORIGIN}).status_code == 303
    with connect(lake, read_only=True) as connection:
        ratings = connection.execute("select criterion_id, score from ratings order by all").fetchall()
    assert ratings == [("safe", 0.5), ("steps", 1.0)]  # 100 - 50; three steps are right
    rows = exported_ratings(lake, None, "jsonl")
    assert [row["criterion_id"] for row in rows] == ["safe", "steps"]
    file = write_lines(tmp_path / "again.jsonl", [json.loads(json.dumps(row)) for row in rows])
    again = import_ratings(lake, parse_rubric(TWO_RUBRIC, "rubric.yaml"), RatingFile(file))
    assert (again.faults, again.step_count, again.new_count) == ((), 6, 0)
