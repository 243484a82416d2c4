"""The probability of each level out of a reply's tokens."""

import math
from typing import Any

import pytest

from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.prompts.distributions import expected_score, read_levels
from gradebook.rubrics.prompts.reply_parser import ReadReply, TokenChoices
from tests.support.law_over import law_over

LABELS: dict[str, str | None] = {"Q": "bad", "B": "fair", "X": "good"}
HEAD = ((("{", 0.0),), (('"level', 0.0),), (('": "', 0.0),))
TAIL = ((('"}', 0.0),),)
REPLY = '{"level": "X"}'


def at(*alternatives: tuple[str, float]) -> TokenChoices:
    """The tokens of a reply, with probabilities of what stands in the place of the label."""
    token = tuple((text, math.log(probability) if probability else -math.inf) for text, probability in alternatives)
    return (*HEAD, (token[0], *token), *TAIL)  # as endpoints have it: the sampled token once more among the likeliest


def read(choices: TokenChoices | None, text: str = REPLY, labels: dict[str, str | None] = LABELS) -> ReadReply:
    return read_levels(text, "stop", None, choices, labels)


def rounded(found: ReadReply) -> dict[str, float]:
    return {level_id: round(share, 6) for level_id, share in (found.distribution or {}).items()}


def test_the_whole_distribution_is_kept_and_adds_up_to_1():
    # the labels' mass is 0.6 + 0.2 = 0.8: good 0.6 / 0.8 = 0.75, fair 0.2 / 0.8 = 0.25
    found = read(at(("X", 0.6), ("B", 0.2), ("the", 0.2)))
    assert (found.status, found.level_id, rounded(found)) == ("scored", "good", {"fair": 0.25, "good": 0.75})


def test_levels_under_a_hundredth_of_the_labels_mass_are_dropped():
    # of 0.8, a hundredth is 0.008: 0.007 goes, 0.193 / 0.793 = 0.24338 and 0.6 / 0.793 = 0.75662 stay
    found = read(at(("X", 0.6), ("B", 0.193), ("Q", 0.007)))
    assert rounded(found) == {"fair": 0.243380, "good": 0.756620}


def test_the_most_probable_level_counts_whatever_was_sampled():
    assert read(at(("X", 0.3), ("B", 0.5), ("Q", 0.2))).level_id == "fair"


def test_of_two_equal_levels_the_worse_one_counts():
    assert read(at(("X", 0.4), ("B", 0.2), ("Q", 0.4))).level_id == "bad"


def test_tokens_of_the_same_label_are_added_up():
    # "B", " B" and B with a quotation mark: 0.1 + 0.1 + 0.2 = 0.4 against 0.3
    assert read(at(("X", 0.3), ("B", 0.1), (" B", 0.1), ('"B', 0.2))).level_id == "fair"


@law_over("token", ["x", "XX", "X.", "'X'", "\u0425", "-X", "X-"])
def test_what_is_not_exactly_a_label_is_none(token: str):
    assert rounded(read(at(("X", 0.5), (token, 0.3), ("B", 0.1)))) == {"fair": 0.166667, "good": 0.833333}


@law_over("token", ["X", '"X', 'X"', " X", '"X"}', ':"X', "\u2581X", "\u0120X", '{"X'])
def test_marks_of_json_and_blanks_may_stand_in_a_labels_token(token: str):
    assert rounded(read(at((token, 1.0)))) == {"good": 1.0}


def test_the_last_place_that_is_the_replys_label_counts():
    early = (("X", 0.0), ("X", 0.0))
    found = read((early, *at(("X", 0.4), ("Q", 0.6))), "<think>X?</think>" + REPLY)
    assert found.level_id == "bad"


def test_a_bare_label_is_a_reply():
    assert read(at(("X", 1.0)), "X").level_id == "good"


@pytest.mark.parametrize("choices", [None, ()])
def test_without_log_probabilities_the_text_decides_nothing(choices: TokenChoices | None):
    assert read(choices) == ReadReply("no_logprobs")


@law_over(
    ("choices", "text"),
    [
        (at(("X", 0.4), ("the", 0.6)), REPLY),  # labels under half of the mass
        (at(("Y", 0.9), ("X", 0.1)), '{"level": "Y"}'),  # a letter that was not shown
        (at(("X", 1.0)), "The level is X."),
        (at(("X", 1.0)), '{"level": "X", "score": 1}'),
        (at(("X", 1.0)), '{"level": "B"}'),  # no token is the text's label
        (at(("X", math.nan)), REPLY),
        ((), ""),
        (((),), REPLY),
    ],
)
def test_no_level_comes_of(choices: TokenChoices, text: str):
    assert read(choices, text).level_id is None


@pytest.mark.parametrize(("finish_reason", "status"), [("length", "truncated"), ("content_filter", "filtered")])
def test_how_a_reply_ended_comes_first(finish_reason: str, status: str):
    assert read_levels(REPLY, finish_reason, None, None, LABELS).status == status


def test_a_judge_abstains_where_that_is_the_most_probable():
    labels = LABELS | {"Z": None}
    assert read(at(("Z", 0.5), ("X", 0.3)), '{"level": "Z"}', labels) == ReadReply("abstained")


def test_an_abstention_that_is_less_probable_leaves_the_levels_to_add_up_to_1():
    # 0.3 / (0.3 + 0.1) = 0.75
    found = read(at(("X", 0.3), ("B", 0.1), ("Z", 0.2)), REPLY, LABELS | {"Z": None})
    assert rounded(found) == {"fair": 0.25, "good": 0.75}


def test_a_probability_above_1_is_none():
    assert rounded(read((*HEAD, (("X", 50.0), ("B", 0.0)), *TAIL))) == {"fair": 0.5, "good": 0.5}


def test_the_expected_score_is_the_mean_over_the_distribution():
    # 0.25 * 0.5 + 0.75 * 1 = 0.875
    levels: list[dict[str, Any]] = [{"id": name, "score": n / 2} for n, name in enumerate(("bad", "fair", "good"))]
    criterion = Criterion.model_validate(
        {"id": "tone", "description": "Kind?", "method": {"type": "judge"}, "levels": levels}
    )
    assert expected_score({"fair": 0.25, "good": 0.75}, criterion) == pytest.approx(0.875)
