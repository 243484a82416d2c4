"""Steps of agents on the rating page: marked, scored, stored, exported and read again."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from gradebook.rubrics.files.load import parse_rubric
from gradebook.tasks.lake.connections import connect
from gradebook.tasks.ratings.export_ratings import exported_ratings
from gradebook.tasks.ratings.import_ratings import import_ratings
from gradebook.tasks.ratings.import_sheets import RatingFile
from gradebook.tasks.ratings.rating_queue import Queue
from gradebook.tasks.ratings.rating_session import opened_session
from tests.support.samples import write_lines
from tests.support.served_ratings import ORIGIN, RUN, STEPS_RUBRIC, Served, stepped_run

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


@pytest.mark.parametrize("gap", ["error.steps.2", "severity.steps.2", "level.steps.1"])
def test_a_step_without_its_error_is_marked_and_nothing_is_lost(served: Served, gap: str):
    assert send(served, **{gap: ""}) == 422
    page = served.client.get("/sheet/1").text
    assert "maps, not trains" in page
    assert served.session.store.open_marks() == []


@pytest.mark.parametrize(
    "field", [{"error.steps.2": "tool/none"}, {"severity.steps.2": "huge"}, {"note.steps.2": "x" * 1_001}]
)
def test_a_mark_that_no_page_sends_is_refused(served: Served, field: dict[str, str]):
    assert send(served, **field) == 400


def test_a_revised_step_counts_and_an_error_of_a_step_that_is_right_now_goes(served: Served):
    send(served)
    assert send(served, 1, **{"level.steps.2": "right"}) == 303
    served.session.store_marks()
    assert steps_in(served)[-1] == (2, "right", 1.0, None, None, None, "maps, not trains")
    (steps,) = [row["steps"] for row in exported_ratings(served.lake, RUN, "jsonl") if "steps" in row]
    assert [(mark["step"], mark["label"]) for mark in steps] == [(1, "right"), (2, "right")]


def test_what_is_exported_is_read_again_and_adds_nothing(served: Served, tmp_path: Path):
    send(served, **{"level.steps.3": "right"})
    served.session.store_marks()
    rows = exported_ratings(served.lake, None, "jsonl")
    file = write_lines(tmp_path / "again.jsonl", [json.loads(json.dumps(row)) for row in rows])
    again = import_ratings(served.lake, parse_rubric(STEPS_RUBRIC, "rubric.yaml"), RatingFile(file))
    assert (again.faults, again.step_count, again.new_count, again.version) == ((), 3, 0, None)
