"""Sentences of the reasons why figures are missing."""

from dataclasses import dataclass
from string import Formatter

from gradebook.rubrics.statistics.calibration import Estimate
from gradebook.rubrics.statistics.reasons import Cause, Reason, reason_of
from gradebook.rubrics.text.reasons import asdict_in_words, reason_words
from tests.support.law_over import law_over

NUMBERS = {
    name: 0.6 if name in ("share", "low", "high", "stated") else 2
    for name in (
        *("rater_count", "most", "share", "varied_count", "case_count", "least", "rated_count", "total", "low"),
        *("high", "high_count", "low_count", "unrated_count", "voice_count", "output_count", "link_count", "stated"),
    )
}


@law_over("cause", Cause)
def test_every_cause_has_a_sentence_without_open_places(cause: Cause):
    words = reason_words(reason_of(cause, **NUMBERS))
    assert words and not [name for _, name, *_ in Formatter().parse(words) if name is not None]


def test_a_count_of_one_has_its_noun():
    assert (
        reason_words(reason_of(Cause.FEW_RATED, rated_count=1, least=3)) == "found 1 rated output, expected 3 or more"
    )
    assert reason_words(reason_of(Cause.FEW_VOICES, voice_count=1, least=3)) == "found 1 rater or judge, expected 3"


def test_a_text_is_its_own_sentence_and_no_reason_is_none():
    assert (reason_words("nobody decided"), reason_words(None)) == ("nobody decided", "")


def test_a_dataclass_has_its_reasons_in_words():
    @dataclass
    class Row:
        name: str
        mean: Estimate

    found = asdict_in_words(Row("a", Estimate(None, None, None, Reason(Cause.NONE_RATED))))
    assert found == {
        "name": "a",
        "mean": {"value": None, "ci_low": None, "ci_high": None, "reason": "found no rated outputs"},
    }
