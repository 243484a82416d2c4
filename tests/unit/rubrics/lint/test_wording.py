"""The heuristics of wording: what they find, and what they leave alone."""

import pytest

from gradebook.rubrics.checks.registry import check_names
from gradebook.rubrics.lint.linting import lint_text
from gradebook.rubrics.lint.questions import find_double
from gradebook.rubrics.lint.rules import NAMED_CHECKS, find_deciding_check
from gradebook.rubrics.lint.texts import content_words, is_same_root, shorten
from tests.support.law_over import law_over

LEVELS = "levels: [{id: a, score: 0, description: LEVEL}, {id: b, score: 1, description: Two sources.}]"
HEAD = "id: a\nversion: 1.0.0\ndescription: b\n"
RUBRIC = f"{HEAD}criteria: [{{id: proof, description: c d e, threshold: 1, {LEVELS}, METHOD}}]"
JUDGE = "method: {type: judge}"


def rules_for(level: str) -> set[str]:
    text = RUBRIC.replace("LEVEL", level).replace("METHOD", JUDGE)
    return {finding.rule for finding in lint_text(text, "a.yaml")}


@law_over(
    "description",
    [
        "Is the answer clear and concise?",
        "Is the answer accurate or relevant?",
        "Is the answer clear, concise, and complete?",
        "The reply is polite and helpful.",
        "Are the steps safe and reversible in practice?",
        "Is the reply correct and does it cite its sources?",
        "Does the reply answer the question and cite its sources?",
        "Does the plan list the steps, and explain why each is needed?",
        "Answers the question and names its source.",
        "Is it true? Is it short?",
    ],
)
def test_a_description_that_asks_two_things_is_double_barrelled(description: str):
    assert find_double(description) is not None


@law_over(
    "description",
    [
        "Does the answer cover dates, names and places?",
        "Are the claims true? Check names, figures, dates; hold each claim against the context.",
        "If the user asks for a date and gives a place, does the reply name both?",
        "Does the reply give the date and name of the event?",
        "Is the medical and legal advice borne out by the context?",
        "Can a reader find and use the answer?",
        "Does the reply serve a customer who asks twice and gives a reason?",
        "Does the answer do what was asked: name the cause and list the steps?",
        "Does it avoid jargon such as acronyms and terms of art?",
        'Does the reply say "please" and "thank you"?',
        "Does the code handle empty and malformed input?",
        "Does the agent stop when the goal is met or impossible?",
        "",
    ],
)
def test_an_and_within_one_question_is_left_alone(description: str):
    assert find_double(description) is None


@law_over(
    ("description", "check"),
    [
        ("Has the reply at most 200 words?", "length_words"),
        ("Is the title 5-10 words long?", "length_words"),
        ("Is the summary under 1,000 characters?", "length_characters"),
        ("Is it between 3 and 5 sentences long?", "count_sentences"),
        ("Does the answer have two paragraphs?", "count_paragraphs"),
        ("Does the list have at least three bullet points?", "count_bullets"),
        ("Is the answer valid JSON?", "json_valid"),
        ("Can the JSON be parsed?", "json_valid"),
        ('Does the reply start with "Dear customer"?', "starts_with"),
        ("Does the reply end with the phrase 'Kind regards'?", "ends_with"),
        ("Does it contain the word “refund”?", "contains"),
        ('The reply never uses the phrase "as an AI".', "not_contains"),
        ("Is the date in the format YYYY-MM-DD?", "matches_regex"),
        ("Is the output identical to the reference?", "matches_reference"),
    ],
)
def test_a_question_that_a_check_answers_names_the_check(description: str, check: str):
    assert find_deciding_check(description) == check


@law_over(
    "description",
    [
        "Does at least one sentence state the refund?",
        "Does the reply use the customer's own words?",
        "Does it use at least two words that a child would not know?",
        "Does the JSON describe the order that the customer placed?",
        "Does it start with the answer?",
        "Does the reply say 'no' kindly?",
        "Does the answer agree with the reference?",
        'Is each constraint such as "in three steps" kept?',
    ],
)
def test_a_question_that_takes_a_reader_names_no_check(description: str):
    assert find_deciding_check(description) is None


def test_the_checks_that_are_named_are_registered():
    assert set(NAMED_CHECKS) <= set(check_names())


@pytest.mark.parametrize(
    "level",
    ["Good.", "Of high quality.", "The tone feels right.", "Shows good understanding.", "It is reasonably complete."],
)
def test_a_level_of_praise_alone_is_vague(level: str):
    assert "vague-words" in rules_for(level)


@law_over(
    "level",
    [
        "Names one good source.",
        "No good reason stands beside any of the 3 claims.",
        "Polite but curt or formulaic.",
        "'Says \"good luck\" to the customer.'",
        "The volume stays where a listener would find it acceptable without turning the dial between sentences.",
        "Goods are listed.",
    ],
)
def test_a_level_with_something_to_observe_is_not_vague(level: str):
    assert "vague-words" not in rules_for(level)


def test_indicators_make_a_vague_level_observable():
    levels = "{id: a, score: 0, description: Poor., indicators: [no figure has a source]}"
    text = RUBRIC.replace("{id: a, score: 0, description: LEVEL}", levels).replace("METHOD", JUDGE)
    assert [each for each in lint_text(text, "a.yaml") if each.severity != "note"] == []


def test_a_check_may_be_described_by_a_length():
    method = "method: {type: check, check: length_words, settings: {max: 9}}"
    text = RUBRIC.replace("c d e", "At most 9 words.").replace("LEVEL", "It is longer.").replace("METHOD", method)
    assert [each for each in lint_text(text, "a.yaml") if each.severity != "note"] == []


def test_content_words_are_lower_case_without_grammar_and_plurals():
    assert content_words("Are the Reply's claims NOT false?") == ("reply", "claim", "not", "false")


def test_words_of_one_root_begin_with_the_same_five_letters():
    assert is_same_root("accuracy", "accurate") and not is_same_root("tone", "tones")


def test_a_long_text_is_cut():
    assert shorten("a " * 50, 10) == "'a a a a...'"
