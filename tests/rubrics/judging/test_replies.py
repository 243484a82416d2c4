"""The ladder of reading a reply, as a truth table."""

import json

import pytest

from rubrics.judging.replies import read_reply

LABELS = {"BCDF": "bad", "GHJK": "good"}
OUTPUT = "The dyke  holds.\nIt said \u201cyes\u201d: ﬁne."
GOOD = '{"evidence": [], "rationale": "So.", "level": "GHJK"}'


@pytest.mark.parametrize(
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
        (f"Here it is: {GOOD}", "parse_error", None),
        (f"{GOOD} {GOOD}", "parse_error", None),
        (f"[{GOOD}]", "parse_error", None),
        (GOOD.replace("GHJK", "good"), "parse_error", None),
        (GOOD.replace("GHJK", "ghjk"), "parse_error", None),
        (GOOD.replace('"GHJK"', "1"), "parse_error", None),
        (GOOD.replace('"GHJK"', "null"), "parse_error", None),
        (GOOD.replace("}", ', "level": "BCDF"}'), "parse_error", None),
        (GOOD.replace("}", ', "score": 5}'), "parse_error", None),
        ('{"rationale": "So.", "level": "GHJK"}', "parse_error", None),
        (GOOD.replace("[]", '"holds"'), "parse_error", None),
        (GOOD[:-1], "parse_error", None),
        ("[" * 100_000, "parse_error", None),
        ("<think>" + GOOD, "parse_error", None),
    ],
)
def test_a_reply_is_read_as(text: str | None, status: str, level_id: str | None):
    read = read_reply(text, "stop", None, LABELS, OUTPUT)
    assert (read.status, read.level_id) == (status, level_id)


@pytest.mark.parametrize(
    ("finish_reason", "refusal", "status"),
    [
        ("stop", "No.", "refused"),
        ("length", "No.", "refused"),
        ("length", None, "truncated"),
        ("content_filter", None, "filtered"),
        ("stop", "", "scored"),
        (None, None, "scored"),
    ],
)
def test_how_a_reply_ended_comes_before_its_text(finish_reason: str | None, refusal: str | None, status: str):
    assert read_reply(GOOD, finish_reason, refusal, LABELS, OUTPUT).status == status


@pytest.mark.parametrize(
    ("quote", "status"),
    [
        ("The dyke holds.", "scored"),  # whitespace is folded
        ("holds. It said", "scored"),
        ("fine", "scored"),  # NFKC: the ligature is two letters
        ("holds.\\nIt", "scored"),  # as the judge is shown it, JSON-encoded
        ("", "scored"),  # a blank quote is no quote
        ("the dyke holds.", "evidence_unverified"),
        ("The dyke breaks.", "evidence_unverified"),
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
