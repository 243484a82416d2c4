"""Questions about claims and their replies: what counts is what code finds in the sentence and in the source."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradebook.rubrics.prompts.claims import (
    EXTRACT_VERSION,
    VERIFY_VERSION,
    CheckedClaim,
    claims_key,
    claims_of,
    read_extraction,
    read_verification,
    render_extraction,
    render_verification,
    sentence_claims,
    verdicts_of,
    windows_of,
)
from gradebook.rubrics.prompts.prompt_text import fold_text
from gradebook.rubrics.text.sentences import split_sentences
from tests.support.hostile_outputs import EVERY_HOSTILE_OUTPUT
from tests.support.law_over import law_over

SOURCE = (
    "Returns take 60 days.",
    "The caf\u00e9 is free on Sundays.",
    "No.",
    "Prices --------- \u9000\u8d27\u9700\u8981\u516d\u5341\u5929\u3002",
)
TEXT = "Dr. Lee is in. Returns take 60 days!\n- The cafe is free"


@law_over(
    ("text", "sentences"),
    [
        ("Dr. Who came at 3.5 p.m. today. He left.", ["Dr. Who came at 3.5 p.m. today.", "He left."]),
        (
            "\u8fd9\u662f\u53e5\u5b50\u3002\u7b2c\u4e8c\u53e5\uff01",
            ["\u8fd9\u662f\u53e5\u5b50\u3002", "\u7b2c\u4e8c\u53e5\uff01"],
        ),
        ("- one\n- two\n\n# Head", ["- one", "- two", "# Head"]),
        ('"Is it?" she said.', ['"Is it?"', "she said."]),
        ("?! ... \n", []),
        ("1. One.\n2) Two.\n(10). Ten.", ["1. One.", "2) Two.", "(10). Ten."]),
        ("It was in 1999. Then 5. 12.", ["It was in 1999.", "Then 5.", "12."]),
        ("It is open. [1][2, 3] Dogs wait.[4] [5] Title", ["It is open. [1][2, 3]", "Dogs wait.[4] [5]", "Title"]),
        (
            "It is open.[^1] Dogs wait.\u30104\u2020file\u3011 Title",
            ["It is open.[^1]", "Dogs wait.\u30104\u2020file\u3011", "Title"],
        ),
        ("\u5f00\u3002[1]\u5173\u3002", ["\u5f00\u3002[1]", "\u5173\u3002"]),
        ("Use:\n```python\nx = 1\n```", ["Use:", "x = 1"]),
        (
            "\u0939\u093e\u0901\u0964 \u0928\u0939\u0940\u0902\u0964",
            ["\u0939\u093e\u0901\u0964", "\u0928\u0939\u0940\u0902\u0964"],
        ),
    ],
)
def test_sentences_have_their_places(text: str, sentences: list[str]):
    found = split_sentences(text)
    assert [each.text for each in found] == sentences
    assert [text[each.start : each.stop] for each in found] == sentences


def extraction(*claims: dict[str, Any]) -> str:
    return json.dumps({"claims": [{"kind": "verifiable", "claim": "A claim.", **each} for each in claims]})


def test_a_claim_has_its_place_and_invented_words_drop_it():
    (window,) = windows_of(TEXT)
    reply = extraction(
        {"sentence": 2, "span": "60 days"},
        {"sentence": 1, "span": "Returns take 60 days"},  # of another sentence
        {"sentence": 9, "span": "Dr. Lee"},
        {"sentence": 3, "span": " "},
        {"sentence": 3, "span": "The cafe", "claim": ""},
    )
    read = read_extraction(reply, "stop", None, window)
    claims, dropped_count = claims_of(read.rationale or "", window)
    assert [(TEXT[each.start : each.stop], each.sentence) for each in claims] == [("60 days", 1)]
    assert dropped_count == 4


def test_texts_that_share_a_reply_have_their_own_places():
    texts = ("Tea is green. Cats fly.", "\n\nTea is green.   Cats fly.")
    (one,), (other,) = map(windows_of, texts)
    assert render_extraction(one) == render_extraction(other)
    read = read_extraction(extraction({"sentence": 2, "span": "Cats fly"}), "stop", None, one)
    for text, window in zip(texts, (one, other), strict=True):
        ((claim,), _) = claims_of(read.rationale or "", window)
        assert text[claim.start : claim.stop] == "Cats fly"


def test_a_long_text_without_end_marks_can_have_many_claims():
    (window,) = windows_of("word " * 100)
    read = read_extraction(extraction(*[{"sentence": 1, "span": "word"}] * 20), "stop", None, window)
    assert read.status == "scored"


@pytest.mark.parametrize(
    "reply",
    [
        "no list",
        "{}",
        json.dumps({"claims": [{"sentence": "1", "span": "a", "claim": "b", "kind": "verifiable"}]}),
        json.dumps({"claims": [{"sentence": 1, "span": "a", "claim": "b", "kind": "true"}]}),
        extraction(*[{"sentence": 1, "span": "Dr. Lee"}] * 1_000),
    ],
)
def test_a_reply_in_another_form_is_no_list_of_claims(reply: str):
    (window,) = windows_of(TEXT)
    assert read_extraction(reply, "stop", None, window).status == "parse_error"


def verified(*said: tuple[int, str, str], count: int | None = None) -> Any:
    reply = {"verdicts": [{"claim": number, "quote": quote, "verdict": verdict} for number, quote, verdict in said]}
    return read_verification(json.dumps(reply), "stop", None, SOURCE, count or len(said))


@law_over(
    ("quote", "verdict", "expected"),
    [
        ("Returns take 60 days", "supported", "supported"),
        ("returns take 60 days", "supported", "unverified"),  # other letters
        ("Returns take 600 days", "contradicted", "unverified"),
        ("Returns\u200b take  60\u00a0days", "supported", "supported"),  # invisible characters and blanks aside
        ("The cafe\u0301 is free", "supported", "supported"),  # the same letter in two characters
        ("Returns t\u0430ke 60 days", "supported", "unverified"),  # a Cyrillic a
        ("days. The caf\u00e9", "supported", "unverified"),  # over two passages
        ("60 days", "supported", "unverified"),  # too short to be evidence
        ("No.", "supported", "supported"),  # a whole passage
        ("", "supported", "unverified"),
        ("\u200b", "supported", "unverified"),
        ("---------", "supported", "unverified"),
        ("\\u0052\\u0065", "supported", "unverified"),  # two letters, encoded
        ('"\\u0052\\u0065', "supported", "unverified"),
        ("Returns\\u0020take", "supported", "supported"),
        ("\u9000\u8d27\u9700\u8981", "supported", "supported"),  # four wide characters
        ("\u9000\u8d27", "supported", "unverified"),
        ("made up", "not_in_source", "not_in_source"),
    ],
)
def test_a_claim_is_supported_only_by_words_of_the_source(quote: str, verdict: str, expected: str):
    (checked,) = verdicts_of(verified((1, quote, verdict)).rationale)
    assert checked.verdict == expected
    assert bool(checked.quote) == (expected in ("supported", "contradicted"))


@pytest.mark.parametrize("numbers", [(1,), (1, 1), (1, 3), (0, 1), (1, 2, 3)])
def test_a_reply_about_other_claims_is_no_verdict(numbers: tuple[int, ...]):
    assert verified(*((number, SOURCE[0], "supported") for number in numbers), count=2).status == "parse_error"


def test_verdicts_come_in_the_order_of_the_claims():
    read = verified((2, "", "not_in_source"), (1, SOURCE[0], "supported"))
    assert verdicts_of(read.rationale) == (CheckedClaim("supported", SOURCE[0]), CheckedClaim("not_in_source", ""))


@given(st.text(), st.sampled_from(("supported", "contradicted")), st.lists(st.text(), min_size=1, max_size=3))
@settings(max_examples=300, deadline=None)
def test_no_quote_confirms_what_the_source_does_not_say(quote: str, verdict: str, source: list[str]):
    reply = json.dumps({"verdicts": [{"claim": 1, "quote": quote, "verdict": verdict}]})
    read = read_verification(reply, "stop", None, tuple(source), 1)
    (checked,) = verdicts_of(read.rationale or "")
    if checked.verdict != "unverified":
        assert any(fold_text(quote) in fold_text(passage) for passage in source)


@pytest.mark.parametrize("version", [EXTRACT_VERSION, VERIFY_VERSION])
def test_a_hostile_text_closes_nothing_and_is_restored(version: str):
    for hostile in EVERY_HOSTILE_OUTPUT[:200]:
        if version == EXTRACT_VERSION:
            shown = [
                json.loads(render_extraction(window)[1]["content"].removeprefix("TEXT\n"))
                for window in windows_of(hostile)
            ]
            texts = [text for window in shown for text in window["sentences"].values()]
            assert texts == [each.text for each in split_sentences(hostile)]
        else:
            content = render_verification([hostile], [hostile])[1]["content"].removeprefix("SOURCE\n")
            source, _, claims = content.partition("\n\nCLAIMS\n")
            assert (json.loads(source), json.loads(claims)) == ([hostile], {"1": hostile})


def test_equal_questions_have_one_key_and_others_have_others():
    messages = [render_verification(["a"], ["b"]), render_verification(["a"], ["c"]), render_verification(["ab"], [])]
    keys = [
        claims_key(judge, version, each)
        for judge in ("x", "y")
        for version in (EXTRACT_VERSION, VERIFY_VERSION)
        for each in messages
    ]
    assert len(set(keys)) == len(keys)
    assert claims_key("x", VERIFY_VERSION, messages[0]) == keys[3]


def test_sentences_can_be_claims_without_a_question():
    assert [each.text for each in sentence_claims(TEXT)] == [each.text for each in split_sentences(TEXT)]
