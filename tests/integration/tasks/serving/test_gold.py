"""Gold outputs and weak spots in the queue of a rating session."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.agreement.raters import compare_raters
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import commit, connect
from gradebook.tasks.ratings.rating_queue import Queue, choose_outputs
from gradebook.tasks.ratings.rating_session import opened_session, with_gold
from gradebook.tasks.ratings.rating_store import Task
from tests.support.served_ratings import RUN, Served, rated_run

GOLD = ({"output_id": "o8", "score": 1.0}, {"output_id": "o9", "score": 0.0})


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Ten outputs; a lead decided on two of them, and two raters agree on neither."""
    lake = rated_run(tmp_path)
    decided = [
        {"run_id": RUN, "criterion_id": "tone", "adjudicator": "lea", **each}
        | {"level_id": "good" if each["score"] else "bad"}
        for each in GOLD
    ]
    commit(lake, "decided", lambda connection, _version: insert(connection, "adjudications", decided))
    return lake


def insert(connection: Any, table: str, rows: list[Mapping[str, Any]]) -> None:
    for row in rows:
        names = ", ".join(row)
        marks = ", ".join("?" for _ in row)
        connection.execute(f"insert into {table} ({names}) values ({marks})", list(row.values()))


def rate_all(served: Served, rater: str, level: str) -> list[str]:
    """Rate all sheets alike; returns the pages after each submission that shows one."""
    served.enter(rater)
    pages = []
    while (place := served.client.get("/").headers.get("location")) is not None:
        assert served.submit(int(place.rpartition("/")[2]), level) == 303
        page = served.client.get(place).text
        pages += [page] if "Settled before" in page else []
    return pages


def test_every_rater_gets_gold_and_is_compared_with_it(lake: Lake):
    with opened_session(lake, RUN, queue=Queue.random, count=20, overlap=1, gold=RUN, is_training=True) as session:
        served = Served.of(lake, session)
        told = rate_all(served, "anna", "good")
        told += rate_all(served, "ben", "bad")  # nothing else is left for ben
        session.store_marks()
    assert len(told) == 2  # one in ten of eight others is one output, for each rater
    assert sum("as you chose" in page for page in told) == 1
    anna, ben = compare_raters(lake, RUN).rows
    assert (anna.rating_count, ben.rating_count) == (9, 1)
    assert {(anna.gold.value, anna.gold.n), (ben.gold.value, ben.gold.n)} == {(1.0, 1), (0.0, 1)}
    with connect(lake, read_only=True) as connection:
        counts = connection.execute(
            "select selection, count(gold_score), count(inclusion_rate), count(*) from ratings group by 1 order by 1"
        ).fetchall()
    assert counts == [("gold", 2, 0, 2), ("random", 0, 8, 8)]


def test_a_ratings_file_is_gold_and_is_not_shown_without_training(lake: Lake, tmp_path: Path):
    rows = [{"case_id": "c3", "model": "m", "criterion_id": "tone", "rater": "lea", "level_id": "good"}]
    gold = tmp_path / "gold.jsonl"
    gold.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    with opened_session(lake, RUN, queue=Queue.random, count=3, overlap=1, gold=str(gold)) as session:
        served = Served.of(lake, session)
        assert rate_all(served, "anna", "good") == []
        session.store_marks()
    with connect(lake, read_only=True) as connection:
        rated = connection.execute("select output_id, gold_score from ratings where selection = 'gold'").fetchall()
    assert rated == [("o3", 1.0)]


def test_gold_that_is_not_mixed_into_the_queue_uncertain_keeps_its_place_there():
    queues = {name: [Task(f"o{place}", name, 0.5, {}) for place in range(20)] for name in ("uncertain", "random")}
    gold = [Task(f"o{place}", "gold", None, {}) for place in range(5, 15)]
    for name, gone_count in (("uncertain", 0), ("random", 8)):
        mixed = with_gold(queues[name], gold, "r")
        assert len({task.output_id for task in mixed}) == len(mixed) == 20 - gone_count
        assert sum(task.selection == "gold" for task in mixed) == 2


def test_a_run_on_which_nothing_is_settled_is_no_gold(tmp_path: Path):
    lake = rated_run(tmp_path)
    with (
        pytest.raises(InputError, match="nothing settled in run-1, expected decisions"),
        opened_session(lake, RUN, queue=Queue.random, count=3, overlap=1, gold=RUN),
    ):
        pass


def test_weak_spots_are_a_queue_of_the_outputs_that_lost_there(lake: Lake):
    def tell(connection: Any, _version: int) -> None:
        connection.execute("update outputs set metadata = '{\"channel\": \"' || (output_id > 'o5') || '\"}'")
        spot = {"run_id": RUN, "model": "m", "criterion_id": "tone", "slice_key": "channel", "slice_value": "true"}
        insert(connection, "weak_spots", [spot | {"lift": -0.25}])

    commit(lake, "a weak spot", tell)
    with connect(lake, read_only=True) as connection:
        assert [each.output_id for each in choose_outputs(connection, RUN, Queue.weak, 10)] == ["o6", "o8"]
