"""Movable threshold: sentence, table and line follow it, and equal the counts of SQL."""

import pytest

from gradebook.rubrics.text.wording import share_words
from gradebook.tasks.lake.user_queries import run_query
from tests.support.chromium import Visit, Visiting
from tests.support.page_runs import Reported

pytestmark = pytest.mark.browser
# A score is a sum of floats: 0.7 may be a little less.
MET = """
select model, checkpoint, count(*) filter (score >= {least} - 1e-9) as met_count, count(score) as n
from output_scores where run_id = 'demo' group by model, checkpoint
"""
TABLE = """
() => Object.fromEntries([...document.querySelectorAll("tr[data-meeting]")].map((row) =>
  [row.cells[0].textContent.trim(), [row.cells[1].textContent, row.cells[2].textContent]]))
"""
LINE = """
() => {
  const line = document.querySelector("#threshold line.threshold");
  return (line.x1.baseVal.value - line.dataset.left) / line.dataset.width;
}
"""


def counted_by_sql(reported: Reported, least: str) -> dict[str, list[str]]:
    """Share and count of outputs that meet a threshold, by model, as texts of the page."""
    rows = run_query(reported.lake, MET.format(least=float(least))).to_pylist()
    words = {row["model"]: share_words(row["met_count"], row["n"]) for row in rows}
    return {row["model"]: [words[row["model"]], f"{row['met_count']} of {row['n']}"] for row in rows}


def move(seen: Visit, *keys: str) -> str:
    """Press keys on the slider; returns the threshold shown."""
    for key in keys:
        seen.page.get_by_role("slider").press(key)
    return seen.page.locator("#threshold output").inner_text()


def sentence_of(seen: Visit) -> str:
    return seen.page.locator("#threshold p[role=status]").inner_text()


@pytest.mark.parametrize("keys", [["Home"], ["ArrowRight"] * 7, ["ArrowLeft"] * 20, ["PageUp"], ["End"]])
def test_the_sentence_and_the_table_equal_sql_at_any_threshold(visit: Visiting, reported: Reported, keys: list[str]):
    with visit(reported.pages["demo"]) as seen:
        least = move(seen, *keys)
        shown, sentence = seen.ask(TABLE), sentence_of(seen)
    counted = counted_by_sql(reported, least)
    assert shown == counted
    (best, share), (other, other_share) = sorted(
        ((name, words[0]) for name, words in counted.items()), key=lambda each: sentence.index(each[0])
    )
    assert sentence == f"{share} of the outputs of {best} meet {least}, {other_share} of those of {other}."


def test_the_line_follows_the_threshold_from_end_to_end(visit: Visiting, reported: Reported):
    with visit(reported.pages["demo"]) as seen:
        places = []
        for key in ("Home", "PageUp", "End"):
            move(seen, key)
            places.append(seen.ask(LINE))
    assert places[0] == pytest.approx(0) and places[2] == pytest.approx(1) and 0 < places[1] < 1


def test_another_threshold_has_another_sentence(visit: Visiting, reported: Reported):
    with visit(reported.pages["demo"]) as seen:
        first = sentence_of(seen)
        move(seen, "PageUp", "PageUp")
        assert sentence_of(seen) != first


@pytest.mark.nightly
def test_without_the_script_there_is_the_first_sentence_but_no_slider(visit: Visiting, reported: Reported):
    with visit(reported.pages["demo"]) as seen:
        scripted = sentence_of(seen)
    with visit(reported.pages["demo"], has_script=False) as seen:
        assert sentence_of(seen) == scripted
        assert seen.page.get_by_role("slider").count() == 0
