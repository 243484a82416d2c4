"""The ladder of reading a reply, as a truth table."""

import json
from typing import Any

import pytest

from gradebook.rubrics.prompts import reply_parser as replies
from gradebook.rubrics.prompts.prompt_text import fold_text
from gradebook.rubrics.prompts.reply_parser import (
    MOST_REPLY_LENGTH,
    ReadReply,
    find_unquoted,
    read_reply,
    read_requirements,
)
from gradebook.tasks.judging.replies.judgment_row import evidence_text
from tests.support.law_over import law_over

LABELS: dict[str, str | None] = {"BCDF": "bad", "GHJK": "good", "LMNP": None}
OUTPUT = "The dyke  holds.\nIt said \u201cyes\u201d: ﬁne."
REST = {"rationale": "So.", "level": "GHJK"}
GOOD = '{"evidence": [], "rationale": "So.", "level": "GHJK"}'


@law_over(
    ("text", "status", "level_id"),
    [
        (GOOD, "scored", "good"),
        (f"  {GOOD}\n", "scored", "good"),
        (f"<think>BCDF? {{}}</think>\n{GOOD}", "scored", "good"),
        (f"```json\n{GOOD}\n```", "scored", "good"),
        (f"```\n{GOOD}\n```", "scored", "good"),
        (f"<think>so</think>```json\n{GOOD}\n```", "scored", "good"),
        (None, "parse_error", None),
        ("", "parse_error", None),
        ("GHJK", "parse_error", None),
        ("The level is GHJK.", "parse_error", None),
        (f"Here it is: {GOOD}", "scored", "good"),
        (f"Sure!\n\n{GOOD}\nI hope it helps.", "scored", "good"),
        (f"BCDF at first, but: {GOOD}", "scored", "good"),  # a level is never read from a sentence
        (f"Sure! ```json {GOOD} ```", "scored", "good"),
        (f"Here it is: {GOOD.replace('GHJK', 'good')}", "parse_error", None),
        (f"{GOOD.replace('GHJK', 'BCDF')} No: {GOOD}", "parse_error", None),  # two objects
        (f"Like {{this}}: {GOOD}", "parse_error", None),
        (f'{{"draft": {GOOD}', "parse_error", None),  # a part of a larger one
        (f"All: [{GOOD}", "parse_error", None),
        (f"Hm, <think>maybe {GOOD}", "parse_error", None),
        (f"maybe {GOOD} </think> no.", "parse_error", None),
        (f"{GOOD} {GOOD}", "parse_error", None),
        (f"[{GOOD}]", "parse_error", None),
        (GOOD.replace("GHJK", "good"), "parse_error", None),
        (GOOD.replace("GHJK", "ghjk"), "scored", "good"),  # the label, in another case
        (GOOD.replace('"GHJK"', "1"), "parse_error", None),
        (GOOD.replace('"GHJK"', "null"), "parse_error", None),
        (GOOD.replace("}", ', "level": "BCDF"}'), "parse_error", None),
        (GOOD.replace("}", ', "score": 5}'), "scored", "good"),
        (GOOD.replace("}", ', "score": 5, "grade": 1}'), "parse_error", None),
        (GOOD.replace("}", ', "final": "bcdf"}'), "parse_error", None),  # another label
        (GOOD.replace("}", ', "final": {"level": 1}}'), "parse_error", None),
        ('{"rationale": "So.", "level": "GHJK"}', "parse_error", None),
        (GOOD.replace("[]", '"holds"'), "parse_error", None),
        (GOOD[:-1], "parse_error", None),
        ("[" * 100_000, "parse_error", None),
        ("<think>" + GOOD, "parse_error", None),
        (f"<thinking>so</thinking>{GOOD}", "scored", "good"),
        (f"<think>so</thinking>{GOOD}", "parse_error", None),
        (f"<think></think>{GOOD}</think>", "parse_error", None),
        (f"\ufeff{GOOD}", "scored", "good"),
        (f"```json\r\n{GOOD}\r\n```", "scored", "good"),
        (f"Here:\n```json\n{GOOD}\n```", "scored", "good"),
        (f"```json\n{GOOD}\n```\nDone.", "scored", "good"),
        (GOOD.replace("}", ', "score": NaN}'), "parse_error", None),
        (GOOD.replace('"So."', "NaN"), "parse_error", None),
        (GOOD.replace('"So."', "9" * 10_000), "parse_error", None),
        (GOOD.replace('"So."', "1e999"), "parse_error", None),
        (GOOD.replace("[]", "[" * 100_000), "parse_error", None),
        (GOOD.replace("[]", '[{"a": 1, "a": 2}]'), "parse_error", None),
        (GOOD.replace("GHJK", "QRST"), "parse_error", None),
        (GOOD.replace("GHJK", "LMNP"), "abstained", None),
        (GOOD.replace("GHJK", " GHJK"), "scored", "good"),
        (GOOD.replace("GHJK", "**GHJK**\u200b"), "scored", "good"),
        (GOOD.replace("GHJK", "GHJK or BCDF"), "parse_error", None),
        (f"It is fine.\n</think>\n{GOOD}", "scored", "good"),  # a server took the first mark
        (f"A draft: {GOOD.replace('GHJK', 'BCDF')}\n</think>\n{GOOD}", "scored", "good"),
        (f"[THINK]{{}} or [this]?[/THINK]{GOOD}", "scored", "good"),
        (f"<think>a</think> <think>b</think>{GOOD}", "scored", "good"),
        (f"<think>a <think>b</think> c</think>{GOOD}", "scored", "good"),
        (
            f"<|channel|>analysis<|message|>{{?<|end|><|start|>assistant<|channel|>final<|message|>{GOOD}",
            "scored",
            "good",
        ),
        ("<think>so</think>" + GOOD.replace("So.", "</think>"), "scored", "good"),
        ("<think>" * 10_000, "parse_error", None),
        ("{" * 10_000 + "</think>" * 10_000, "parse_error", None),
        (GOOD.replace(', "level"', ', // a grade, "BCDF"?\n "level"'), "scored", "good"),
        (GOOD.replace('"So."', '"So: // no comment, } and /* none */"'), "scored", "good"),
        (GOOD.replace(', "level"', '/* so */, "level"'), "scored", "good"),
        (GOOD.replace('"GHJK"}', '"GHJK",\n}'), "scored", "good"),
        (GOOD.replace("So.", "So\nit\tis."), "scored", "good"),
        ("So:\n```json\n" + GOOD.replace("[]", '["The",]') + "\n```", "scored", "good"),
        (GOOD.replace('"GHJK"', '"GHJK" "BCDF"'), "parse_error", None),
        (f"{GOOD} // or {GOOD.replace('GHJK', 'BCDF')}", "parse_error", None),
        (GOOD.replace('"', "'"), "parse_error", None),
        (f"[{GOOD}]", "parse_error", None),
        (GOOD.replace("[]", '"a quote"'), "parse_error", None),
        (GOOD.replace("[]", "null"), "parse_error", None),
    ],
)
def test_a_reply_is_read_as(text: str | None, status: str, level_id: str | None):
    read = read_reply(text, "stop", None, LABELS, OUTPUT)
    assert (read.status, read.level_id) == (status, level_id)


@law_over(
    ("finish_reason", "refusal", "status"),
    [
        ("stop", "No.", "refused"),
        ("length", "No.", "refused"),
        ("length", None, "truncated"),
        ("MAX_TOKENS", None, "truncated"),
        ("max_tokens", None, "truncated"),
        ("content_filter", None, "filtered"),
        ("SAFETY", None, "filtered"),
        ("refusal", None, "refused"),
        ("end_turn", None, "scored"),
        ("stop", "", "scored"),
        (None, None, "scored"),
    ],
)
def test_how_a_reply_ended_comes_before_its_text(finish_reason: str | None, refusal: str | None, status: str):
    assert read_reply(GOOD, finish_reason, refusal, LABELS, OUTPUT).status == status


@law_over(
    ("quote", "status"),
    [
        ("The dyke holds.", "scored"),  # whitespace is folded
        ("holds. It said", "scored"),
        ("fine", "scored"),  # NFKC: the ligature is two letters
        ("holds.\\nIt", "scored"),  # as the judge is shown it, JSON-encoded
        ("", "scored"),  # a blank quote is no quote
        ("the dyke holds.", "evidence_unverified"),
        ("The dyke breaks.", "evidence_unverified"),
        ("ho\u200blds", "scored"),  # what shows nothing counts on neither side
        ("\u200b\u202e", "scored"),  # a quote of nothing else is blank
        ('"The dyke', "scored"),  # the quotation mark is JSON's, before the text
        ('"holds"', "evidence_unverified"),  # within the text there is none
        ("\\u201cyes", "scored"),  # a letter as JSON may write it
        ('It said "yes"', "scored"),  # one form of a mark is as good as another
        ("It said yes", "evidence_unverified"),
        (".sdloh", "evidence_unverified"),
    ],
)
def test_a_quote_has_to_occur_in_the_output(quote: str, status: str):
    text = json.dumps({"evidence": [quote], "rationale": "So.", "level": "GHJK"})
    assert read_reply(text, "stop", None, LABELS, OUTPUT).status == status


def test_one_false_quote_among_true_ones_is_found():
    text = json.dumps({"evidence": ["dyke", "sea"], "rationale": "So.", "level": "GHJK"})
    assert read_reply(text, "stop", None, LABELS, OUTPUT).status == "evidence_unverified"


def test_a_lone_surrogate_can_still_be_written_down():
    read = read_reply(GOOD.replace("So.", "\\ud800"), "stop", None, LABELS, OUTPUT)
    assert read.rationale == "?"


# -------- hidden text
@law_over(
    ("output", "quote", "is_there"),
    [
        ("It is sa\u200bfe.", "It is safe.", True),  # an honest quote leaves out what it can't see
        ("It is \u202eefas\u202c.", "It is safe.", False),  # as the page shows it, not as it is written
        ("It is \u202eefas\u202c.", "It is efas.", True),
        ("It's \u2018safe\u2019 \u2013 mostly", "It\u2019s 'safe' - mostly", True),
        ("It is safe \u2013 mostly", "It is safe \u201c mostly", False),
        ("Bad." + "".join(chr(0xE0000 + ord(letter)) for letter in "safe"), "safe", False),  # hidden in tags
        ("\u0645\u06cc\u200c\u062e\u0648", "\u0645\u06cc\u062e\u0648", True),
    ],
)
def test_hidden_characters_neither_spoil_nor_make_a_quote(output: str, quote: str, is_there: bool):
    assert (list(find_unquoted([quote], output)) == []) == is_there


# -------- limits
def test_a_reply_of_more_than_a_million_characters_is_not_parsed():
    assert read_reply(GOOD + " " * MOST_REPLY_LENGTH, "stop", None, LABELS, OUTPUT).status == "parse_error"


def test_what_is_kept_of_a_long_reply_is_cut_after_it_was_verified():
    output = "dyke " * 1_000
    text = json.dumps({"evidence": [output] * 21, "rationale": "so " * 2_000, "level": "GHJK"})
    read = read_reply(text, "stop", None, LABELS, output)
    assert (read.status, len(read.evidence), {len(quote) for quote in read.evidence}) == ("scored", 20, {1_000})
    assert len(read.rationale or "") == 4_000


def test_a_false_end_of_a_long_quote_is_found():
    output = "dyke " * 1_000
    text = json.dumps({"evidence": [output + "sea"], "rationale": "So.", "level": "GHJK"})
    assert read_reply(text, "stop", None, LABELS, output).status == "evidence_unverified"


def test_hundreds_of_quotes_are_no_evidence():
    text = json.dumps({"evidence": ["dyke"] * 201, "rationale": "So.", "level": "GHJK"})
    assert read_reply(text, "stop", None, LABELS, OUTPUT).status == "evidence_unverified"


def test_an_output_of_a_megabyte_is_folded_once_for_twenty_quotes(monkeypatch: pytest.MonkeyPatch):
    output = "The dyke holds, and the water stands\nbelow it. " * 21_000
    text = json.dumps({"evidence": [f"{output[place : place + 200]} " for place in range(1, 20_001, 1_000)]} | REST)
    folded = []

    def fold(text: str) -> str:
        folded.append(len(text))
        return fold_text(text)

    monkeypatch.setattr(replies, "fold_text", fold)
    assert read_reply(text, "stop", None, LABELS, output).status == "scored"
    assert folded.count(len(output)) == 1


# -------- what a judge that is asked again has to be told
@law_over(
    ("text", "fault", "found"),
    [
        ("Good.", "not_json", "found no JSON object"),
        (" ", "not_json", "found an empty text"),
        (f"{GOOD} No: {GOOD}", "not_json", "found more than one object"),
        (f"As [1] says: {GOOD}", "not_json", "found brackets"),
        (f"<think>{GOOD}", "not_json", "found brackets, or a thought without its other end"),
        (GOOD.replace(", ", " "), "not_json", "found broken JSON: Expecting ',' delimiter at line 1, column 17"),
        (
            GOOD.replace("}", ', "level": "BCDF"}'),
            "not_json",
            "found JSON of another shape: null, or an object with a key twice",
        ),
        (
            GOOD.replace("[]", '"The"'),
            "not_json",
            "found JSON of another shape: evidence: Input should be a valid list",
        ),
        ('{"level": "GHJK"}', "not_json", "found JSON of another shape: evidence: Field required"),
        (GOOD.replace("}", ', "a": 5, "b": 1}'), "not_json", "found the keys 'a', 'b' that were not asked for"),
        (GOOD.replace("GHJK", "QRST"), "unknown_label", "found the level 'QRST', expected one of the labels shown"),
        (GOOD, None, "So."),
    ],
)
def test_a_reading_says_what_was_wrong(text: str, fault: str | None, found: str):
    read = read_reply(text, "stop", None, LABELS, OUTPUT)
    assert (read.fault, (read.rationale or "")[: len(found)]) == (fault, found)


def test_a_reading_names_the_quotes_that_do_not_occur():
    text = json.dumps({"evidence": ["dyke", "sea", "land"]} | REST)
    read = read_reply(text, "stop", None, LABELS, OUTPUT)
    assert (read.fault, read.unverified) == ("unverified", ("sea", "land"))


def test_a_judge_that_abstains_is_held_to_no_quote():
    read = read_reply(json.dumps({"evidence": ["sea"]} | REST | {"level": "LMNP"}), "stop", None, LABELS, OUTPUT)
    assert (read.status, read.level_id, read.evidence, read.rationale) == ("abstained", None, (), "So.")


def test_a_nul_is_not_kept():
    read = read_reply(GOOD.replace("So.", "S\\u0000o."), "stop", None, LABELS, "")
    assert read.rationale == "So."


def listing(*entries: tuple[str, bool, str], **changes: Any) -> str:
    requirements = [{"requirement": text, "met": is_met, "quote": quote} for text, is_met, quote in entries]
    return json.dumps({"requirements": requirements, "rationale": "So.", "level": "BCDF"} | changes)


def read_listing(text: str, output: str) -> ReadReply:
    return read_reply(text, "stop", None, LABELS, output, lists_requirements=True)


def test_requirements_are_read_with_their_quotes():
    text = listing(("Name the capital.", True, "Canberra"), ("Name the year.", False, ""))
    read = read_listing(text, "It is Canberra.")
    assert (read.status, read.evidence) == ("scored", ("Canberra",))
    assert [(entry.requirement, entry.met, entry.quote) for entry in read.requirements] == [
        ("Name the capital.", True, "Canberra"),
        ("Name the year.", False, ""),
    ]
    assert read_requirements(evidence_text(read)) == list(read.requirements)


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (listing(("Name the capital.", True, "Sydney")), "evidence_unverified"),
        (GOOD, "parse_error"),  # evidence in place of the list
        (listing(requirements=[{"requirement": "Name it.", "met": "yes", "quote": ""}]), "parse_error"),
        (listing(requirements=[{"requirement": "Name it.", "met": True, "level": "BCDF"}]), "parse_error"),
    ],
)
def test_a_list_of_another_shape_or_with_a_false_quote_is_refused(text: str, status: str):
    assert read_listing(text, "It is Canberra.").status == status


def test_requirements_that_nobody_asked_for_are_refused():
    assert read_reply(listing(evidence=[]), "stop", None, LABELS, OUTPUT).status == "parse_error"


@pytest.mark.parametrize("evidence", [None, "[]", '["quote"]', '[{"requirement": "a"}', '[{"requirement": 1}]'])
def test_other_evidence_is_no_list_of_requirements(evidence: str | None):
    assert read_requirements(evidence) == []
