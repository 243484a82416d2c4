"""The page of the people who rate a run: the figures of the commands, disputes, decisions and outputs to rate next."""

from html import unescape
from pathlib import Path

import pytest

from gradebook.tasks.agreement.calibration import calibrate_run
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.published.summary import summarise
from gradebook.tasks.viewing.people import NEXT_COUNT, read_people_page
from tests.support.rated_lake import JUDGED, RATED, JudgedRun, publish_runs, ratings_of
from tests.support.scored_lake import NOW, make_lake
from tests.support.viewed import viewer

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Lake of a run that two people rated. They differ on o00 and o02 (ann 1, 0; ben 0, 1); a lead settled o02."""
    lake = make_lake(tmp_path)
    ratings = [row | {"rated_at": NOW} for row in ratings_of(RATED, "ann") + ratings_of([0.0, 1.0, 1.0, 0.0], "ben")]
    decision = {"run_id": "r", "output_id": "o02", "criterion_id": "tone", "adjudicator": "lea", "level_id": "good"}
    decision |= {"score": 1.0, "cause": "rubric_gap", "needs_rubric_update": True, "notes": HOSTILE, "decided_at": NOW}
    publish_runs(lake, {"r": JudgedRun(JUDGED)}, {"ratings": ratings, "adjudications": [decision]})
    return lake


def test_the_page_says_what_the_commands_say(lake: Lake):
    page = read_people_page(lake, "r")
    assert [(row[0], row[1]) for row in page.rater_tables[0].rows] == [("ann", "8"), ("ben", "4")]
    assert (page.rated_count, page.dispute_count, page.decision_count) == (12, 1, 1)
    (dispute,) = page.disputes
    assert (dispute.case_id, dispute.criterion) == ("c00", "tone")
    assert [(opinion.who, opinion.level) for opinion in dispute.opinions] == [("ann", "1.000"), ("ben", "0.000")]
    (decision,) = page.decisions
    assert (decision.case_id, decision.level, decision.cause) == ("c02", "good", "the rubric has a gap")
    named = calibrate_run(lake, "r", next_count=NEXT_COUNT).next_outputs
    assert [output.case_id for output in page.next_outputs] == [row["case_id"] for row in named] != []
    text = unescape(viewer(lake).get("/people").text)  # the latest run
    for command in ("rate r --raters", "raters r", "agreement r", "--queue adjudicate", "calibrate r --rate-next 10"):
        assert f"gradebook {command}" in text or command in text
    assert HOSTILE not in viewer(lake).get("/people?run=r").text


def test_the_page_of_a_run_trusts_the_judge_by_the_ratings_of_now_as_its_page_of_trust(lake: Lake):
    stated = [fact.sentence for fact in summarise(lake, "r").verdict.facts]
    assert "Nobody rated what the judge scored, so how far to trust it is unknown." in stated  # as published
    client = viewer(lake)
    for address in ("/runs/r", "/runs/r/sections/trust"):
        page = unescape(client.get(address).text)
        assert "Nobody rated" not in page
        assert "The judge is no better than chance on tone, as far as the ratings show (kappa 0.621" in page


def test_before_anybody_rated_or_ran_the_page_says_how_to_begin(tmp_path: Path):
    lake = make_lake(tmp_path)
    assert "gradebook evaluate" in viewer(lake).get("/people").text
    publish_runs(lake, {"r": JudgedRun(JUDGED)}, {})
    text = viewer(lake).get("/people").text
    assert "Nobody rated an output of this run." in text
    assert "gradebook people rate r --raters" in text
    assert viewer(lake).get("/people?run=no").status_code == 404
