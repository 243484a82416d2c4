"""Rating forms: what is read from a browser, and what is refused."""

import json
from urllib.parse import urlencode

import pytest

from gradebook.rubrics.files.load import parse_rubric
from gradebook.rubrics.model.levels import Level
from gradebook.rubrics.model.rubric import Overall
from gradebook.tasks.ratings.rating_store import Mark
from gradebook.tasks.serving.rating_forms import Row, WrongForm, group_rows, read_form
from tests.support.law_over import law_over

RUBRIC = parse_rubric(
    """
id: reply
version: 1.0.0
criteria:
  - id: tone
    category: voice
    description: Is it kind?
    weight: 1
    method: {type: judge}
    levels: [{id: bad, score: 0}, {id: good, score: 1}]
  - {id: stars, description: How good?, weight: 1, method: {type: ratings}, scale: {min: 1, max: 5}}
""",
    "rubric.yaml",
)
CRITERIA = {criterion.id: criterion for criterion in RUBRIC.criteria}


def form(**fields: object) -> bytes:
    return urlencode({name.replace("__", "."): value for name, value in fields.items()}).encode()


def test_levels_and_scale_points_become_scores():
    sent = read_form(form(version=0, level__tone="good", level__stars="4", note__stars=" nice "), CRITERIA)
    # 4 of 1..5 is (4 - 1) / (5 - 1) = 0.75
    assert sent.marks(CRITERIA) == (Mark("tone", "good", 1.0, None), Mark("stars", "4", 0.75, "nice"))
    assert sent.missing(CRITERIA) == ()


@pytest.mark.parametrize(
    ("ids", "keys"),
    [
        ("12345", "123450"),
        ("01234", "01234n"),  # a number is chosen by itself
        ([*map(str, range(1, 11))], "123456789xn"),
        (["bad", "fair", "good"], "1230"),
        ([f"l{place}" for place in range(10)], [*"123456789", "", "0"]),
    ],
)
def test_a_level_has_the_key_that_it_shows(ids, keys):
    levels = tuple(Level(id=name, score=place / (len(ids) - 1)) for place, name in enumerate(ids))
    assert Row("tone", "Tone", "?", False, levels, "", "", False).keys == tuple(keys)


def test_notes_of_the_sheet_go_to_the_overall_row_if_that_is_rated():
    optional = {**CRITERIA, "overall": Overall(scale={"min": 1, "max": 5}, required=False)}
    rated = {"version": 0, "level__tone": "good", "level__stars": "4", "note__stars": "nice", "notes": "late"}
    alone, both = (read_form(form(**rated, **more), optional) for more in ({}, {"level__overall": "3"}))
    assert alone.missing(optional) == ()
    assert [mark.notes for mark in alone.marks(optional)] == ["late", "nice", None]
    assert [mark.notes for mark in both.marks(optional)] == [None, "nice", "late"]
    nothing = read_form(form(version=0, level__tone="n/a", level__stars="n/a", notes="in Danish"), optional)
    assert [mark.notes for mark in nothing.marks(optional)] == [None, None, "in Danish"]
    last = group_rows({"overall": optional["overall"], **CRITERIA}, {})[-1].rows
    assert [(row.criterion_id, row.is_optional) for row in last] == [("overall", True)]


def test_what_does_not_apply_is_rated_and_has_no_score():
    sent = read_form(form(version=0, level__tone="n/a"), CRITERIA)
    assert sent.marks(CRITERIA)[0] == Mark("tone", None, None, None)
    assert sent.missing(CRITERIA) == ("stars",)


@law_over(
    ("body", "words"),
    [
        (form(version=0, level__tone="best"), "tone: no level 'best'"),
        (form(version="x"), "no version"),
        (form(level__tone="good"), "no version"),
        (b"version=0&version=1", "twice"),
        (b"version=0&note.tone=%ff", "can't be read"),
        (b"&".join(b"a%d=1" % place for place in range(3_000)), "can't be read"),
        (form(version=0, note__tone="x" * 6_000), "at most 5,000"),
        (form(version=0, evidence__tone="no list"), "tone: the marked words are no list"),
        (form(version=0, evidence__tone="[" * 100_000), "tone: the marked words are no list"),
        (form(version=0, evidence__tone='{"a": 1}'), "tone: at most 10 marked passages"),
        (form(version=0, evidence__tone="[1]"), "tone: at most 10 marked passages"),
        (form(version=0, evidence__tone='["a", ""]'), "tone: at most 10 marked passages"),
        (form(version=0, evidence__tone=json.dumps(["a"] * 11)), "tone: at most 10 marked passages"),
        (form(version=0, evidence__tone=json.dumps(["a" * 1_001])), "tone: at most 10 marked passages"),
    ],
)
def test_a_form_of_no_page_of_ours_is_refused(body: bytes, words: str):
    with pytest.raises(WrongForm, match=words):
        read_form(body, CRITERIA)


@pytest.mark.parametrize("spent", ["nan", "inf", "-5", "1e300"])
def test_time_spent_is_within_an_hour(spent: str):
    assert 0 <= read_form(form(version=0, spent_s=spent), CRITERIA).spent_s <= 3_600


def test_marked_words_go_with_the_rating():
    sent = read_form(form(version=0, level__tone="good", evidence__tone='["kind", "warm"]'), CRITERIA)
    (mark, _) = sent.marks(CRITERIA)
    assert mark.details == {"evidence": '["kind", "warm"]'}


def test_fields_of_no_criterion_are_dropped():
    assert read_form(form(version=0, level__other="good", level__tone="bad"), CRITERIA).content == {"level.tone": "bad"}


def test_a_sheet_groups_criteria_by_category_and_marks_those_without_a_level():
    first, second = group_rows(CRITERIA, {"level.tone": "good"}, ["stars"])
    assert (first.name, first.rows[0].chosen, first.rows[0].is_missing) == ("voice", "good", False)
    assert (second.name, len(second.rows[0].levels), second.rows[0].is_missing) == ("", 5, True)
