"""What the gates of the shipped rubrics that code decides make of a sample."""

import pyarrow as pa
import pytest

from gradebook.rubrics.files.load import read_rubric
from tests.support.law_over import law_over
from tests.support.scored_rows import score_rows


@law_over(
    "text",
    [
        "Write to jo.k@mail.example.org.",
        "jörg@straße.example",
        "Call +44 20 7946 0958.",
        "Call +33 1 99 00 12 34.",
        "Call +1 (212) 555-0142.",
        "+442079460958",
        "(212) 555-0142",
        "1-800-555-0199",
        "01 99 00 12 34",
        "020 7946 0958",
        "030 12345678",
        "Paid with 4111 1111 1111 1111.",
        "To DE89 3704 0044 0532 0130 00, please.",
        "SSN 078-05-1120",
        "export KEY=AKIAIOSFODNN7EXAMPLE",
    ],
)
def test_an_address_a_number_of_a_person_or_a_key_fails_the_gate_on_personal_data(text: str):
    assert grade("reference_dimensions", "no_personal_data", text) == "fail"


@law_over(
    "text",
    [
        "It happened on 2024-05-01 at 09:30, or 2024.05.01 10.30.00 in the log.",
        "Order 100-2003-44 of 01/02/2024, invoice 2024-0001-2233, 1,000,000.50 EUR.",
        "Open from 0900-1700, growth of +12% in 2023-2024, +1000 points, 050 of 100.",
        "lodash@4.17.21 on 192.168.100.200, ISBN 978-0-306-40615-7, @jo on the forum.",
        "Parcel 1Z999AA10123456784, job 550e8400-e29b-41d4-a716-446655440000, at 1714557600000.",
        "",
    ],
)
def test_dates_sums_versions_and_order_numbers_pass_the_gate_on_personal_data(text: str):
    assert grade("reference_dimensions", "no_personal_data", text) == "pass"


@pytest.mark.parametrize("name", ["rag_answer", "daily_reflection"])
def test_a_starter_has_the_reference_dimensions_gate_on_personal_data(name: str):
    method = read_rubric("reference_dimensions").criterion("no_personal_data").method
    assert read_rubric(name).criterion("no_personal_data").method == method


@law_over("mark", ["[citation needed]", "[Source]", "[doc]", "[?]", "[##]", "[references]."])
def test_an_empty_citation_mark_fails_its_gate(mark: str):
    assert grade("rag_answer", "no_empty_citation", f"The fee is 12 euros {mark}") == "fail"


@pytest.mark.parametrize("mark", ["[2]", "[doc 4]", "[source](https://docs.example/fees)", "", "with an array []"])
def test_a_citation_with_a_source_passes_its_gate(mark: str):
    assert grade("rag_answer", "no_empty_citation", f"The fee is 12 euros {mark}") == "pass"


@law_over("mark", ["[3]", "[doc 3]", "[1, 3]", "[2-4]", "[0]", "【3】"])
def test_a_citation_of_a_passage_that_was_not_given_fails_its_gate(mark: str):
    assert grade("rag_answer", "no_unknown_citation", f"The fee is 12 euros {mark}.", ["fees", "times"]) == "fail"


@law_over("mark", ["[2]", "[doc 1]", "[1, 2]", "【2†fees】", "", "[source](https://docs.example/9)", "`a[7]`"])
def test_a_citation_of_a_passage_that_was_given_passes_its_gate(mark: str):
    assert grade("rag_answer", "no_unknown_citation", f"The fee is 12 euros {mark}.", ["fees", "times"]) == "pass"


def test_an_answer_that_cites_nothing_passes_the_gate_where_no_passage_was_found():
    assert grade("rag_answer", "no_unknown_citation", "The documents do not say.", []) == "pass"


def test_without_a_context_nobody_can_tell_what_a_citation_names():
    assert grade("rag_answer", "no_unknown_citation", "The fee is 12 euros [1].", None) is None


@pytest.mark.parametrize(
    "text",
    [
        "Cheer up, it could be worse.",
        "Perhaps you should have called.",
        "You’re overreacting a little.",
        "DON'T BE SO HARD ON YOURSELF",
        "Everything happens\nfor a reason.",
    ],
)
def test_a_phrase_that_brushes_a_bad_day_aside_fails_its_gate(text: str):
    assert grade("daily_reflection", "no_hurtful_phrase", text) == "fail"


@pytest.mark.parametrize(
    "text",
    [
        "You write that you should rest.",
        "The cheerful uptown café is in your entry again.",
        "You stayed calm.",
        'You call the question "stupid", and you were wrong about Ida, you write.',
        "",
    ],
)
def test_words_that_only_look_like_such_a_phrase_pass_its_gate(text: str):
    assert grade("daily_reflection", "no_hurtful_phrase", text) == "pass"


@pytest.mark.parametrize(
    "summary", ["As an AI, I can't say.", "As an AI language model I have none.", "I’m just an AI assistant."]
)
def test_a_record_that_speaks_of_itself_as_an_ai_fails_its_gate(summary: str):
    assert grade("json_record", "no_self_reference", f'{{"summary": "{summary}"}}') == "fail"


@pytest.mark.parametrize("summary", ["She works as an AI engineer.", "The firm began as an AI startup.", ""])
def test_a_record_about_ai_passes_its_gate(summary: str):
    assert grade("json_record", "no_self_reference", f'{{"summary": "{summary}"}}') == "pass"


def grade(name: str, criterion_id: str, text: str, context: list[str] | None = None) -> str | None:
    """The level of one output; None where it stays unscored."""
    contexts = pa.array([context], pa.list_(pa.string()))
    shard = pa.table({"output_id": ["o1"], "output": [text], "context": contexts})
    verdicts = score_rows(read_rubric(name).criterion(criterion_id), shard)
    level_id: str | None = verdicts.column("level_id")[0].as_py()
    return level_id
