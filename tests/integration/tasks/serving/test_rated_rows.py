"""Criteria of single rows on the rating page: shown, rated, compared in pairs, settled, exported and read again."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gradebook.rubrics.files.case_criteria import case_criteria_table
from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.lake.connections import commit, connect
from gradebook.tasks.ratings.export_ratings import exported_ratings
from gradebook.tasks.ratings.import_ratings import import_ratings
from gradebook.tasks.ratings.import_sheets import RatingFile
from gradebook.tasks.ratings.rating_queue import Queue
from gradebook.tasks.ratings.rating_session import opened_session
from gradebook.tasks.rubric_store.versions import find_rubric
from tests.support.new_lakes import write_copy
from tests.support.samples import write_lines
from tests.support.scored_lake import make_lake, write_scores
from tests.support.served_ratings import ORIGIN, RUN, Served

LEVELS = [{"id": "no", "score": 0}, {"id": "yes", "score": 1}]
BY_CODE = {"id": "brief", "description": "Is it brief?", "method": {"type": "check", "check": "length_words"}}
BY_CODE["method"] |= {"settings": {"max": 3}}
ASKED = {"c1": "Does it greet?", "c2": "Does it thank?"}  # one id for what two cases ask


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A run without a rubric: two models answer two cases, whose rows bring along a criterion each."""
    write_copy(tmp_path, _make_run)
    return find_lake(f"sqlite:{tmp_path}/lake/catalog.sqlite")


def _make_run(folder: Path) -> None:
    lake = make_lake(folder)
    rubric = find_rubric("none", lake)
    outputs = [(f"{case}{model}", case, model) for case in ASKED for model in "mn"]
    rows = [{"output_id": name, "case_id": case, "model": model, "scores": {}} for name, case, model in outputs]
    write_scores(lake, RUN, rubric, rows)
    own = [
        [BY_CODE, {"id": "own", "description": ASKED[case], "method": {"type": "ratings"}, "levels": LEVELS}]
        for _, case, _ in outputs
    ]
    table = case_criteria_table([name for name, *_ in outputs], list(map(json.dumps, own)))

    def tell(connection: Any, _version: int) -> None:
        connection.register("own", table.drop_columns(["row_index", "gate_threshold"]))
        connection.execute("insert into case_criteria by name select ? as run_id, * from own", [RUN])
        connection.execute("insert into verdicts by name select ? as run_id, output_id, criterion_id from own", [RUN])
        connection.executemany(
            "update outputs set output = output_id, criteria = ? where output_id = ?",
            [[json.dumps(each), name] for each, (name, *_) in zip(own, outputs, strict=True)],
        )

    commit(lake, "own criteria", tell)


@contextmanager
def served(lake: Lake, **options: Any) -> Iterator[Served]:
    given = {"queue": Queue.random, "count": 10, "overlap": 2} | options
    with opened_session(lake, RUN, **given) as session:
        yield Served.of(lake, session)


def rate_all(pages: Served, rater: str, level: str) -> list[str]:
    """Rate every sheet; returns the pages."""
    pages.enter(rater)
    shown = []
    while (found := pages.client.get("/")).status_code == 303:
        place = found.headers["location"]
        shown.append(pages.client.get(place).text)
        sent = {"level.own": level, "level.overall": level, "cause.own": "taste", "version": "0", "action": "submit"}
        assert pages.client.post(place, data=sent, headers={"origin": ORIGIN}).status_code == 303
    pages.session.store_marks()
    return shown


def test_each_sheet_asks_what_its_row_asks_and_the_export_of_the_run_is_imported_whole(lake, tmp_path):
    with served(lake) as pages:
        shown = rate_all(pages, "anna", "yes")
    assert sorted(text for page in shown for text in ASKED.values() if text in page) == sorted([*ASKED.values()] * 2)
    assert not any(BY_CODE["description"] in page for page in shown)
    rows = exported_ratings(lake, RUN, "jsonl")
    assert [(row["output_id"], row["level_id"]) for row in rows] == [(f"{c}{m}", "yes") for c in ASKED for m in "mn"]
    file = write_lines(tmp_path / "ratings.jsonl", rows)
    imported = import_ratings(lake, find_rubric("none", lake), RatingFile(file))
    assert (imported.rating_count, imported.new_count, imported.bad_count) == (4, 0, 0)


def test_pairs_are_compared_on_what_their_rows_ask(lake):
    with served(lake, has_pairs=True) as pages:
        shown = rate_all(pages, "anna", "1")
    assert sorted(text for page in shown for text in ASKED.values() if text in page) == sorted(ASKED.values())
    with connect(lake, read_only=True) as connection:
        rows = connection.execute("select criterion_id, count(*) from preferences group by all order by all").fetchall()
    assert rows == [("overall", 2), ("own", 2)]


def test_a_lead_settles_disputes_on_criteria_of_rows(lake):
    with served(lake) as pages:
        rate_all(pages, "anna", "yes")
        rate_all(pages, "ben", "no")
    with served(lake, queue=Queue.adjudicate, overlap=1) as pages:
        assert len(rate_all(pages, "lea", "yes")) == 4
    with pytest.raises(InputError, match="no output of run-1 in it"):
        opened_session(lake, RUN, queue=Queue.adjudicate, count=1, overlap=1).__enter__()


def test_a_named_criterion_is_one_of_the_rows(lake):
    with served(lake, criterion_ids=["brief"]) as pages:
        assert pages.session.own_count == 4
    with pytest.raises(InputError, match=r"--criterion: found 'tone', expected one of"):
        opened_session(lake, RUN, queue=Queue.random, count=1, overlap=1, criterion_ids=["tone"]).__enter__()
