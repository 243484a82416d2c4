"""Pairs of outputs on the rating page: which are shown, on which side, and what is stored of a choice."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.agreement.published_run import measure_run
from gradebook.tasks.lake.connections import connect
from gradebook.tasks.ratings.pairs import choose_pairs
from gradebook.tasks.ratings.rating_queue import Queue
from gradebook.tasks.ratings.rating_session import opened_session
from tests.support.served_ratings import ORIGIN, RUN, Served, paired_run


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with opened_session(paired_run(tmp_path), RUN, queue=Queue.random, count=4, overlap=2, has_pairs=True) as session:
        yield Served.of(session.lake, session)


def choose(served: Served, rater: str, prefer: str) -> None:
    """Rate all pairs by which side has the model's text."""
    served.enter(rater)
    while (place := served.client.get("/").headers.get("location")) is not None:
        page = served.client.get(place).text.partition("</style>")[2]
        first = "1" if page.index(f"{prefer}") < page.index({"large": "small", "small": "large"}[prefer]) else "2"
        sent = {"level.tone": f"{first}_much", "level.overall": "tie", "version": "0", "action": "submit"}
        sent["evidence.tone"] = json.dumps([prefer])
        assert served.client.post(place, data=sent, headers={"origin": ORIGIN}).status_code == 303


def test_sides_are_drawn_for_each_rater_and_choices_are_stored_by_output(served: Served):
    for rater, prefer in (("anna", "large"), ("ben", "small")):
        choose(served, rater, prefer)
    served.session.store_marks()
    served.session.store_marks()
    with connect(served.lake, read_only=True) as connection:
        rows = connection.execute(
            "select rater, criterion_id, choice, score, count(*), count(distinct shown_first), any_value(case_id), "
            "min(inclusion_rate), min(evidence) from preferences group by all order by all"
        ).fetchall()
        pairs = connection.execute("select distinct output_a, output_b from preferences").fetchall()
        assert connection.execute("select count(*) from ratings").fetchall() == [(0,)]
    assert [row[:5] for row in rows] == [
        ("anna", "overall", "tie", 0.5, 4),
        ("anna", "tone", "a_much", 0.0, 4),
        ("ben", "overall", "tie", 0.5, 4),
        ("ben", "tone", "b_much", 1.0, 4),
    ]
    assert all(a.startswith("large") and b == a.replace("large", "small") for a, b in pairs)
    assert ("large0", "small0") not in pairs  # the same text
    assert {row[7] for row in rows} == {0.8}  # 4 of 5
    assert {row[5] for row in rows} != {1}  # both sides came first
    assert [row[8] for row in rows] == [None, '["large"]', None, '["small"]']
    overall, tone = measure_run(served.lake, RUN).preferences
    assert (overall.tie_count, overall.b_share.value, overall.judge.value) == (8, 0.5, None)
    assert (tone.rater_count, tone.a_count, tone.b_count, tone.b_share.value, tone.judge.value) == (2, 4, 4, 0.5, 0.5)


@pytest.mark.nightly
def test_a_hostile_pair_stays_text(served: Served):
    served.enter("anna")
    page = served.client.get(served.client.get("/").headers["location"]).text
    assert "<h2>Answer 1</h2>" in page
    assert "<h2>Answer 2</h2>" in page
    assert "<img src=x" not in page


def test_a_run_without_pairs_says_what_it_takes(served: Served):
    with connect(served.lake, read_only=True) as connection, pytest.raises(InputError, match="--baseline"):
        choose_pairs(connection, RUN, RUN, 10)
