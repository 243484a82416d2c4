"""Rows of other systems as sheets: who says what of which output, and what is refused."""

from datetime import UTC, datetime

import pytest

from gradebook.rubrics.importers.ratings.registry import READERS, guess_format
from gradebook.rubrics.importers.ratings.sheets import (
    LeftOut,
    Mark,
    MarkedStep,
    Misfit,
    Naming,
    Sheet,
    Slot,
    map_fault,
    moment,
)
from gradebook.rubrics.importers.ratings.trajectory import StepScale
from gradebook.rubrics.model.taxonomy import ranked_severities, score_steps
from tests.support.law_over import law_over

NAMING = Naming(is_criterion=lambda name: name in ("tone", "clarity"))
WHO = {"trace_id": "t1", "annotator": "anna"}
CHOICE = {"from_name": "tone", "type": "choices", "value": {"choices": ["good"]}}


def read(form, row, naming=NAMING) -> tuple[Sheet, ...]:
    return tuple(READERS[form](row, naming, LeftOut()))


def marks(form, row, naming=NAMING):
    (sheet,) = read(form, row, naming)
    return {mark.criterion: mark.value for mark in sheet.marks}


def task(*results, data=None, **annotation):
    own = {"completed_by": 7, "result": list(results)} | annotation
    return {"id": 1, "data": data or {"case_id": "c1", "model": "m"}, "annotations": [own]}


# -------- JSON Lines
def test_a_rated_trace_has_a_mark_a_criterion_and_its_notes():
    rubric = {"criteria_ratings": {"tone": 4}, "overall": 3, "notes": "kind", "weighted_score": 4.0}
    (sheet,) = read("jsonl", WHO | {"timestamp": "2026-11-01T10:00:00+02:00", "rubric": rubric})
    when = datetime(2026, 11, 1, 8, tzinfo=UTC)
    assert sheet == Sheet(Slot(name="t1"), "anna", when, "kind", (Mark("tone", 4), Mark("overall", 3)))


def test_a_rating_in_a_mapping_brings_its_notes():
    rubric = {"criteria_ratings": {"tone": {"rating": 4, "notes": "warm"}}}
    (sheet,) = read("jsonl", WHO | {"rubric": rubric})
    assert sheet.marks == (Mark("tone", 4, notes="warm"),)


@pytest.mark.parametrize(
    ("key", "kind"), [("rating", "value"), ("value", "value"), ("score", "score"), ("level", "level")]
)
def test_the_key_of_a_mapping_says_what_its_value_means(key, kind):
    (sheet,) = read("jsonl", WHO | {"rubric": {"criteria_ratings": {"tone": {key: 1}}}})
    assert sheet.marks == (Mark("tone", 1, kind),)


def test_a_mapping_whose_rating_is_null_does_not_apply():
    (sheet,) = read("jsonl", WHO | {"rubric": {"criteria_ratings": {"tone": {"rating": None}}}})
    assert sheet.marks == (Mark("tone", None),)


@law_over(
    ("row", "words"),
    [
        (WHO | {"rubric": {"criteria_ratings": {"tone": {"stars": 4}}}}, "tone: found .*stars.*, expected one rating"),
        (WHO | {"tone": {}}, "tone: found .*, expected one rating of rating, value, score or level"),
        (WHO | {"rubric": {"criteria_ratings": [4]}}, "criteria_ratings: found a list, expected a mapping"),
        (WHO | {"rubric": {"ratings": {}}}, "rubric: found .*, expected criteria_ratings"),
        ({"annotator": "a", "rubric": {"criteria_ratings": {}}}, "found no output_id, case_id or trace_id"),
        ({"trace_id": "t1", "rubric": {"criteria_ratings": {}}}, "rater: found nothing"),
        ({"trace_id": ["t"], "annotator": "a", "tone": 1}, "trace_id: found a list, expected text"),
        ({"trace_id": "t" * 2000, "annotator": "a", "tone": 1}, "trace_id: found 2,000 characters"),
        (WHO | {"timestamp": "soon", "tone": 1}, "rated_at: found 'soon', expected a date and time"),
        (WHO | {"timestamp": 10**30, "tone": 1}, "rated_at: found 10+.*, expected a date and time"),
        (WHO | {"timestamp": True, "tone": 1}, "rated_at: found true"),
        (WHO | {"timestamp": "1066-10-14", "tone": 1}, "rated_at: found the year 1066"),
        (WHO | {"sample_index": -1, "tone": 1}, "sample_index: found -1"),
        (WHO | {"notes": {"a": 1}, "tone": 1}, "notes: found a mapping, expected text"),
    ],
)
def test_a_row_that_is_no_rating_says_why(row, words):
    with pytest.raises(Misfit, match=words):
        read("jsonl", row)


@pytest.mark.parametrize("value", ["20261103", 20261103])
def test_eight_digits_are_a_day(value):
    assert moment(value) == datetime(2026, 11, 3, tzinfo=UTC)


@law_over("value", ["2026", 2026, "20261399", "20261103.0", 999_999_999, "-1", 0.5])
def test_a_number_too_small_for_the_seconds_of_a_date_is_none(value):
    with pytest.raises(Misfit, match="rated_at: found .*, expected a date and time"):
        moment(value)


@pytest.mark.parametrize("value", [1_793_664_000, "1793664000", 1_793_664_000_000])
def test_seconds_and_milliseconds_since_1970_are_a_date(value):
    assert moment(value) == datetime(2026, 11, 3, tzinfo=UTC)  # 20,760 days of 86,400 s


# -------- tables
def test_a_wide_row_has_a_mark_a_column_of_a_criterion():
    row = {"case_id": "c", "rater": "a", "tone": "4", "clarity": "", "round": "1"}
    assert marks("csv", row) == {"tone": "4", "clarity": ""}


def test_other_columns_are_left_out_by_name():
    left_out = LeftOut()
    READERS["csv"]({"case_id": "c", "rater": "a", "tone": "4", "round": "1"}, NAMING, left_out)
    assert left_out.words() == ("the column round",)


def test_a_column_of_notes_stands_beside_its_criterion():
    (sheet,) = read("csv", {"case_id": "c", "rater": "a", "tone": "4", "tone_notes": "warm"})
    assert sheet.marks == (Mark("tone", "4", notes="warm"),)


@pytest.mark.parametrize(
    ("column", "kind"), [("level_id", "level"), ("level", "level"), ("score", "score"), ("rating", "value")]
)
def test_a_long_row_has_one_mark(column, kind):
    (sheet,) = read("csv", {"case_id": "c", "rater": "a", "criterion": "tone", column: "1"})
    assert sheet.marks == (Mark("tone", "1", kind),)


def test_a_long_row_with_two_ratings_is_refused():
    with pytest.raises(Misfit, match="tone: found level_id and score, expected one"):
        read("csv", {"case_id": "c", "rater": "a", "criterion": "tone", "level_id": "x", "score": "1"})


def test_a_long_row_without_a_rating_is_not_applicable_only_where_its_column_is_there():
    (sheet,) = read("csv", {"case_id": "c", "rater": "a", "criterion": "tone", "level_id": ""})
    assert sheet.marks == (Mark("tone", None),)
    with pytest.raises(Misfit, match="tone: found 'case_id, criterion, grade, rater', expected level_id"):
        read("csv", {"case_id": "c", "rater": "a", "criterion": "tone", "grade": "4"})


def test_a_mapped_column_takes_the_place_of_the_usual_names():
    naming = Naming({"case_id": "text_id", "rater": "who"}, is_criterion=NAMING.is_criterion)
    (sheet,) = read("csv", {"text_id": 5, "who": "b", "rater": "a", "tone": 1}, naming)
    assert (sheet.slot.case_id, sheet.rater) == ("5", "b")


def test_a_map_the_wrong_way_round_is_told():
    fault = map_fault({"trace_id": "case_id"})
    assert fault and "case_id=trace_id is the correct order" in fault


# -------- Potato
@pytest.mark.parametrize("holder", ["label_annotations", "annotations", None])
def test_the_criteria_of_a_potato_scheme_are_marks(holder):
    schemes = {"quality": {"tone": "4", "notes": "kind"}}
    row = WHO | (schemes if holder is None else {holder: schemes})
    assert marks("potato", row) == {"tone": "4"}


@pytest.mark.parametrize(
    "row",
    [
        {"labels": {"quality": {"tone": "4", "clarity": "3"}}, "spans": {}, "links": {}},
        {"labels": {"tone": {"4": "4"}, "clarity": {"3": "true"}}, "spans": {}, "links": {}},
        {"annotations": {"tone": {"4": "4"}, "clarity": {"3": "3"}}},
    ],
)
def test_the_exporters_of_potato_are_read(row):
    exported = {"instance_id": "c1", "user_id": "anna"} | row
    assert guess_format(exported, NAMING) == "potato"
    (sheet,) = read("potato", exported)
    assert (sheet.slot, sheet.rater) == (Slot(name="c1"), "anna")
    assert {mark.criterion: mark.value for mark in sheet.marks} == {"tone": "4", "clarity": "3"}


def test_the_state_of_a_user_of_potato_is_a_sheet_of_each_output():
    labels = {"c1": [[{"schema": "quality", "name": "tone"}, "4"]], "c2": [[{"schema": "tone", "name": "5"}, "5"]]}
    state = {"user_id": "anna", "instance_id_ordering": ["c1", "c2"], "instance_id_to_label_to_value": labels}
    assert guess_format(state, NAMING) == "potato"
    found = [(sheet.slot.name, mark.criterion, mark.value) for sheet in read("potato", state) for mark in sheet.marks]
    assert found == [("c1", "tone", "4"), ("c2", "tone", "5")]
    with pytest.raises(Misfit, match="instance_id_to_label_to_value.c1: found "):
        read("potato", state | {"instance_id_to_label_to_value": {"c1": [["tone", "4"]]}})


@pytest.mark.parametrize(
    "row",
    [
        {"quality.tone": "4", "quality.clarity": "3"},
        {"tone.4": "4", "tone.5": "", "clarity.3": "3"},
    ],
)
def test_columns_of_a_scheme_and_a_label_are_marks(row):
    assert marks("csv", {"instance_id": "c1", "user_id": "anna"} | row) == {"tone": "4", "clarity": "3"}


def test_notes_of_a_potato_row_may_be_by_criterion():
    (sheet,) = read("potato", WHO | {"quality": {"tone": "4", "clarity": "3"}, "notes": {"tone": "kind"}})
    assert sheet.marks == (Mark("tone", "4", notes="kind", scheme="quality"), Mark("clarity", "3", scheme="quality"))
    with pytest.raises(Misfit, match="notes: found 'clarity', expected criteria that the row rates"):
        read("potato", WHO | {"quality": {"tone": "4"}, "notes": {"clarity": "odd"}})


def test_criteria_of_one_name_in_two_schemes_are_two_marks():
    (sheet,) = read("potato", WHO | {"a": {"tone": "4"}, "b": {"tone": "5"}})
    assert sheet.marks == (Mark("tone", "4", scheme="a"), Mark("tone", "5", scheme="b"))


# -------- trajectories
def test_the_errors_of_a_trajectory_are_one_mark():
    (sheet,) = read("potato", WHO | {"annotations": [{"step": 3, "error_type": "tool", "severity": "major"}]})
    assert sheet.marks == (Mark("", (MarkedStep("3", "tool", "major"),), "running_score"),)
    for penalties, score in (({"major": 5}, 0.95), ({"major": 5, "tool/major": 25, "tool/minor": 1}, 0.75)):
        assert score_steps(StepScale(penalties=penalties).marks(sheet.marks[0].value), penalties) == score
    assert ranked_severities({"minor": 1, "major": 5, "style/major": 0.5}) == ("major", "minor")
    with pytest.raises(Misfit, match="found tool / major, expected one of minor, style/major"):
        StepScale(penalties={"minor": 1, "style/major": 5}).marks(sheet.marks[0].value)


def test_what_a_person_wrote_of_a_trajectory_is_kept_at_its_mark():
    (sheet,) = read("jsonl", WHO | {"annotations": [], "notes": "tidy"})
    assert (sheet.notes, sheet.marks) == (None, (Mark("", (), "running_score", "tidy"),))


@pytest.mark.parametrize("form", ["jsonl", "potato"])
def test_errors_beside_a_rubric_are_a_mark_too(form: str):
    left_out = LeftOut()
    rubric = {"criteria_ratings": {"tone": 4}, "weighted_score": 4, "mood": "calm"}
    errors = [{"step": 3, "error_type": "tool", "severity": "major"}]
    row = WHO | {"rubric": rubric, "annotations": errors, "notes": "odd"}
    (sheet,) = READERS[form](row, NAMING, left_out)
    assert sheet.marks == (Mark("tone", 4), Mark("", (MarkedStep("3", "tool", "major"),), "running_score", "odd"))
    assert left_out.words() == ("rubric.mood",)


def test_schemes_beside_a_rubric_are_named():
    left_out = LeftOut()
    row = WHO | {"rubric": {"criteria_ratings": {"tone": 4}}, "extra": {"clarity": "3"}}
    READERS["potato"](row, NAMING, left_out)
    assert left_out.words() == ("the scheme extra beside a rubric or a trajectory",)


def test_schemes_beside_a_form_of_steps_are_named_wherever_they_are():
    schemes = {"traced": {"form": '{"steps": [{"step": 3, "label": "right"}]}'}, "extra": {"clarity": "3"}}
    for row in (WHO | schemes, WHO | {"label_annotations": schemes}):
        left_out = LeftOut()
        (sheet,) = READERS["potato"](row, NAMING, left_out)
        assert sheet.marks == (Mark("", (MarkedStep("3", label="right"),), "running_score"),)
        assert left_out.words() == ("the scheme extra beside a rubric or a trajectory",)


@pytest.mark.parametrize("error", ["wrong", {"step": 1, "severity": "minor"}, {"error_type": "x", "severity": "minor"}])
def test_an_error_without_its_parts_is_refused(error):
    with pytest.raises(Misfit, match=r"annotations\[0\]"):
        read("jsonl", WHO | {"annotations": [error]})


# -------- Label Studio
def test_each_kind_of_result_is_a_mark():
    rating = {"from_name": "clarity", "type": "rating", "value": {"rating": 4}}
    assert marks("label-studio", task(CHOICE, rating)) == {"tone": "good", "clarity": 4}


def test_a_text_area_beside_a_criterion_is_its_notes():
    text = {"from_name": "tone_notes", "type": "textarea", "value": {"text": ["warm", "kind"]}}
    (sheet,) = read("label-studio", task(CHOICE, text))
    assert sheet.marks == (Mark("tone", "good", notes="warm\nkind"),)


def test_a_cancelled_annotation_is_left_out():
    assert read("label-studio", task(CHOICE, was_cancelled=True)) == ()


def test_the_rater_is_the_mail_address_where_there_is_one():
    (sheet,) = read("label-studio", task(CHOICE, completed_by={"id": 7, "email": "a@example.com"}))
    assert sheet.rater == "a@example.com"


def test_two_choices_are_no_rating():
    both = CHOICE | {"value": {"choices": ["good", "bad"]}}
    with pytest.raises(Misfit, match="tone: found 2 choices, expected one"):
        read("label-studio", task(both))


# -------- guessing
@law_over(
    ("row", "form"),
    [
        ({"task_id": "t", "threads": []}, "scale"),
        (task(CHOICE), "label-studio"),
        (WHO | {"rubric": {"criteria_ratings": {}}}, "jsonl"),
        (WHO | {"annotations": []}, "jsonl"),
        (WHO | {"quality": {"tone": "4"}}, "potato"),
        (WHO | {"tone": {"rating": 4}}, "jsonl"),
        (WHO | {"tone": 4, "metadata": {"lang": "en"}}, "jsonl"),
    ],
)
def test_a_format_is_known_by_its_first_row(row, form):
    assert guess_format(row, NAMING) == form
