"""`gradebook rubric new`: a copy of each shipped rubric, and a draft from answers."""

import io
import sys
from pathlib import Path

import pytest

from gradebook.rubrics.files.dump import id_from
from gradebook.rubrics.files.load import parse_rubric, shipped_rubrics
from tests.support.law_over import law_over

QUESTIONS = (
    "Does the reply answer the question that the customer asked?",
    'Is it "kind": #1, yes?',
    "Does the reply answer the question in the words of the customer?",
)


class Typed(io.StringIO):
    """Stdin that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def typed(gradebook, monkeypatch: pytest.MonkeyPatch):
    """The command with these lines typed as answers."""

    def call(*lines: str):
        monkeypatch.setattr(sys, "stdin", Typed("".join(f"{line}\n" for line in lines)))
        return gradebook("rubric", "new", "my_rubric.yaml")

    return call


@pytest.mark.parametrize("name", shipped_rubrics())
def test_a_copy_of_a_shipped_rubric_is_valid_and_has_its_comments(gradebook, tmp_path, name):
    finished = gradebook("rubric", "new", "my copy.yaml", "--from", name)
    assert (finished.code, "0 errors" in finished.out or "nothing found" in finished.out) == (0, True), finished.out
    text = (tmp_path / "my copy.yaml").read_text(encoding="utf-8")
    copy = parse_rubric(text, "my copy.yaml", tmp_path)
    assert (copy.id, copy.version, text.count("# Copied from the shipped rubric")) == ("my_copy", "1.0.0", 1)
    assert ("--judge" in finished.err) is bool(copy.asked_criteria)
    assert "`gradebook rubric lint './my copy.yaml'`" in finished.err


def test_answers_become_a_rubric_without_errors(typed, tmp_path):
    finished = typed("Whether a reply: helps", *QUESTIONS, "", "0.7")
    assert (finished.code, "no faults found" in finished.out) == (0, True), finished.out
    assert "gradebook evaluate outputs.jsonl --rubric ./my_rubric.yaml" in finished.err
    made = parse_rubric((tmp_path / "my_rubric.yaml").read_text(encoding="utf-8"), "my_rubric.yaml")
    assert (made.id, made.description, made.pass_threshold) == ("my_rubric", "Whether a reply: helps", 0.7)
    assert [each.description for each in made.criteria] == list(QUESTIONS)
    assert [each.id for each in made.criteria] == [
        "reply_answer_question_customer",
        "kind_1",
        "reply_answer_question_words",
    ]


@pytest.mark.parametrize("name", ["", *shipped_rubrics()])
def test_lint_has_no_complaint_of_what_the_command_wrote_itself(gradebook, typed, name):
    if name:
        finished = gradebook("rubric", "new", "my_rubric.yaml", "--from", name)
    else:
        finished = typed(
            "Whether a reply helps", "Does the reply answer the question?", "Is the tone kind?", "Are facts right?", ""
        )
    written = ("unusual-weight-sum", "equal-weights", "description-repeats-name")
    assert [rule for rule in written if rule in finished.out] == []


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (("about", ""), "found no criterion"),
        (("about",), "found the end of the input, expected an answer to 'Criterion 1'"),
        (("about", "Is it good?", "", "7"), "found '7', expected a score of 0 to 1"),
    ],
)
def test_an_answer_that_makes_no_rubric_writes_nothing(typed, tmp_path, lines, told):
    finished = typed(*lines)
    assert (finished.code, told in finished.err) == (2, True)
    assert not (tmp_path / "my_rubric.yaml").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("a.yaml",), "found no terminal to ask questions in, expected --from"),
        (("a.yaml", "--from", "nothing"), "--from: found 'nothing', expected one of agent_task, "),
        (("a", "--from", "general_answer"), "expected a file name that ends in .yaml"),
        (("there.yaml", "--from", "general_answer"), "found there.yaml already there"),
    ],
)
def test_invalid_words_are_refused(gradebook, tmp_path, monkeypatch, words, told):
    Path(tmp_path / "there.yaml").write_text("mine")
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    finished = gradebook("rubric", "new", *words)
    assert (finished.code, told in finished.err) == (2, True)
    assert [path.name for path in tmp_path.iterdir()] == ["there.yaml"]


@law_over(
    ("words", "name"),
    [
        ("Is it?", "is_it"),
        ("7 words", "c_7_words"),
        ("???", "criterion"),
        ("My Rubric", "my_rubric"),
        ("Größe & Ton", "gr_e_ton"),
        ("A" * 55 + " word", "a" * 55),  # an id has at most 64 characters, and may get a number
    ],
)
def test_an_id_is_made_of_the_first_telling_words(words, name):
    assert id_from(words) == name
