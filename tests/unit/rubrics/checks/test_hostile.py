from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
from pydantic import ValidationError

from gradebook.rubrics.check_kit.check import Check, CheckVerdicts, Example, example_shard, read_settings
from gradebook.rubrics.check_kit.columns import MOST_EVIDENCE_CHARACTERS
from gradebook.rubrics.checks.registry import check_names, find_check
from tests.support.hostile_settings import WORSE
from tests.support.hostile_texts import hostile_texts
from tests.support.law_over import law_over
from tests.support.nightly import nightly

LARGE, SMALL = 200_000, 200
SHAPES = (
    "CRLF",
    "NUL in words",
    "emoji families",
    "one letter",
    "growing quotes",
    "nested lists",
    "distinct citations",
    "a table",
)
NAMES = [name for name in check_names() if find_check(name).examples and "audio" not in find_check(name).columns]


def shard_of(check: Check, texts: list[str], others: Mapping[str, Any]) -> pa.Table:
    rows = [example_shard(check, Example(text, None, others=others)) for text in texts]
    return pa.concat_tables(rows).combine_chunks()


def judge(name: str, text: str, settings: Mapping[str, Any], **others: Any) -> CheckVerdicts:
    check = find_check(name)
    return check.function(shard_of(check, [text], others), read_settings(check, settings))


def rows_of(found: CheckVerdicts) -> list[tuple[Any, ...]]:
    """A row an output: whether it passes, the evidence, the reason."""
    assert (found.is_passed.type, found.evidence.type) == (pa.bool_(), pa.string())
    reasons = pa.nulls(len(found.is_passed), pa.string()) if found.reasons is None else found.reasons
    columns = (found.is_passed, found.evidence, reasons)
    return list(zip(*(column.to_pylist() for column in columns), strict=True))


def is_told(is_passed: bool | None, evidence: str | None, reason: str | None) -> bool:
    """Whether a fail has its evidence and an unscored output its reason, and neither is long."""
    is_short = max(len(evidence or ""), len(reason or "")) <= MOST_EVIDENCE_CHARACTERS
    return is_short and bool(is_passed or (reason if is_passed is None else evidence))


@law_over("name", NAMES)
@pytest.mark.parametrize("shape", [SHAPES[0], *nightly(SHAPES[1:])])
def test_a_check_gives_a_verdict_on_large_texts_that_are_made_to_stall_it(name, shape):
    check = find_check(name)
    texts, example = [hostile_texts(LARGE)[shape]], check.examples[0]
    found = check.function(shard_of(check, texts, example.others), read_settings(check, example.settings))
    assert [is_told(*row) for row in rows_of(found)] == [True]


@pytest.mark.slow
@law_over("name", NAMES)
@pytest.mark.parametrize("chosen", [slice(1), *nightly([slice(1, 4)])], ids=str)
def test_a_check_gives_a_verdict_on_every_shape_with_the_worst_settings(name, chosen):
    check = find_check(name)
    texts, others = list(hostile_texts(SMALL).values()), check.examples[0].others
    shard = shard_of(check, texts, others)
    for given in WORSE.get(name, [])[chosen]:
        settings = read_settings(check, given)
        rows = rows_of(check.function(shard, settings))
        assert [is_told(*row) for row in rows] == [True] * len(texts)
        # A verdict is the same among fewer others.
        assert rows_of(check.function(shard.slice(0, 9), settings)) == rows[:9]


@pytest.mark.parametrize("whole_word", [False, True])
def test_a_long_word_is_looked_for_in_any_case(whole_word):
    # RE2 alone takes minutes over the first text, where each place is the start of a near match.
    settings = {"any": ["A" * 5_000 + "É"], "whole_word": whole_word}
    assert judge("contains", "a" * 1_000_000, settings).is_passed.to_pylist() == [False]
    assert judge("contains", f"{'a' * 5_000}é!", settings).is_passed.to_pylist() == [True]


def test_a_long_word_differs_by_case_where_that_counts():
    settings = {"any": ["A" * 5_000], "case_sensitive": True}
    assert judge("contains", "a" * 6_000, settings).is_passed.to_pylist() == [False]


@law_over(
    "name", ["contains_reference", "exact_match", "token_f1", "numeric_answer", "choice_letter", "edit_similarity"]
)
def test_a_reference_of_very_many_answers_stays_unscored(name):
    reference = "1|A|" * 500 + "1"  # 1001 answers
    settings = {"separator": "|"} | ({"min": 0.5} if name in ("token_f1", "edit_similarity") else {})
    expected = [(None, None, "too many answers in the reference, at most 1000")]
    assert rows_of(judge(name, "1 A", settings, reference=reference)) == expected
    assert judge(name, "1 A", settings, reference=reference[:-2]).is_passed.to_pylist() != [None]


LONG = "a" * 100_001


@pytest.mark.parametrize(
    ("name", "settings"),
    [("numeric_answer", {}), ("choice_letter", {}), ("contains_reference", {"fold": "accents"})],
)
def test_a_reference_that_is_too_long_to_be_read_closely_stays_unscored(name, settings):
    expected = [(None, None, "reference too long, at most 100000 characters are read")]
    assert rows_of(judge(name, "1 A", settings, reference=LONG)) == expected
    assert "too long" not in str(rows_of(judge(name, "1 A", settings, reference=LONG[1:])))


def test_many_answers_are_looked_for_in_a_long_output_up_to_a_bound():
    text, answers = "a" * 500_000, ["b" * length for length in range(1, 302)]
    assert judge("contains_reference", text, {"expected": answers[:300]}).is_passed.to_pylist() == [False]
    expected = "too much to search: found 500000 characters and 301 answers, at most 150000000 multiplied"
    assert rows_of(judge("contains_reference", text, {"expected": answers})) == [(None, None, expected)]


def test_json_of_very_many_lists_stays_unscored():
    most, more = ("[" + ",".join(["[]"] * count) + "]" for count in (199_999, 200_000))
    assert rows_of(judge("json_equals", most, {}, reference=most)) == [(True, None, None)]
    for output, reference, where in (("[]", more, "the reference"), (more, "[]", "the output")):
        reason = f"too many lists and objects to compare: found 200001 opening brackets in {where}, at most 200000"
        assert rows_of(judge("json_equals", output, {}, reference=reference)) == [(None, None, reason)]


def test_more_different_numbers_than_are_compared_stay_unscored():
    many = " ".join(str(place) for place in range(100_001))
    expected = "too many numbers to compare: found 100001 different ones, at most 100000"
    for output, source in ((many, "1"), ("1", many)):
        assert rows_of(judge("numbers_in_context", output, {}, context=[source])) == [(None, None, expected)]
    assert judge("numbers_in_context", "1 99999", {}, context=[many[:-7]]).is_passed.to_pylist() == [True]


def test_long_texts_have_no_bleu():
    found = judge("bleu", "é" * 150_001, {"min": 0.5}, reference="a" * 300_000)
    expected = "too long to compare: found 600002 bytes, at most 600000 together"
    assert rows_of(found) == [(None, None, expected)]


def test_a_text_too_long_for_bleu_leaves_the_other_rows_their_verdicts():
    check = find_check("bleu")
    shard = pa.table({"output": ["a b c d", "a" * 600_000, "a"], "reference": ["a b c d", "a", None]})
    found = check.function(shard, read_settings(check, {"min": 0.5}))
    assert found.is_passed.to_pylist() == [True, None, None]
    assert [row[2] and row[2][:12] for row in rows_of(found)] == [None, "too long to ", "no reference"]


def test_a_text_of_very_many_different_words_has_no_reading_level():
    many, check = " ".join(f"a{place}" for place in range(50_001)), find_check("reading_level")
    shard = pa.table({"output": ["The cat sat.", many, "The cat sat."]})
    found = rows_of(check.function(shard, read_settings(check, {"max": 5})))
    assert found[1] == (None, None, "too many different words: more than 50000")
    assert found[0] == found[2] == rows_of(judge("reading_level", "The cat sat.", {"max": 5}))[0]


@law_over("filler", ["not a ", "\t- ", "word " * 200])
@law_over(
    ("claim", "is_passed"),
    [("not q w e booked", True), ("not q w e r booked", False), ("not booked. It is booked", False)],
)
def test_a_claim_far_into_a_text_is_read_with_the_negation_before_it(filler, claim, is_passed):
    text = f"It is not booked. {filler * (3_000 // len(filler))}; {claim}"
    found = judge("claim_needs_tool", text, {"claims": ["booked"], "tools": ["f"]}, metadata={})
    assert found.is_passed.to_pylist() == [is_passed]


@law_over(
    ("output", "tolerances", "is_passed"),
    [
        ("2.4 and 9.6", {"tolerance": 0.5}, True),  # 9.6 is 0.4 from 10
        ("2.4 and 9.4", {"tolerance": 0.5}, False),
        ("2.4 and 9.4", {"relative_tolerance": 0.06}, True),  # 0.06 of 10 is 0.6
        ("1000.5", {"relative_tolerance": 0.001}, True),  # reaches from 999 to 1001, and stands behind the span of 10
        ("0.94 and 1002", {"relative_tolerance": 0.001, "tolerance": 0.05}, False),
        ("0.95", {"relative_tolerance": 0.001, "tolerance": 0.05}, True),  # the end of a span is within it
    ],
)
def test_any_of_many_numbers_may_come_near_one_of_many_answers(output, tolerances, is_passed):
    found = judge("numeric_answer", output, {"take": "any", "separator": " ", **tolerances}, reference="10 1000 1")
    assert found.is_passed.to_pylist() == [is_passed]


@law_over(
    ("name", "settings"),
    [
        ("no_profanity", {"more": ["a " * 20 + "b"]}),
        ("no_refusal", {"except": ["a " * 20 + "b"]}),
        ("no_banned_tone", {"words": ["a " * 20 + "b"]}),
        ("slots", {"names": {"guest": ["-" * 501]}}),
        ("has_sections", {"any": ["a" * 501]}),
        ("claim_needs_tool", {"claims": ["a" * 501], "tools": ["f"]}),
        ("keywords:forbidden_words", {"forbidden_words": ["a" * 201]}),
        ("keywords:existence", {"keywords": ["a" * 201]}),
    ],
)
def test_a_phrase_too_long_to_be_looked_for_at_each_place_is_refused(name, settings):
    with pytest.raises(ValidationError, match="at most"):
        read_settings(find_check(name), settings)
