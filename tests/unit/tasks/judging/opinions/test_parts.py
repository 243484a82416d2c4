"""Votes on claims and on steps combine as votes on levels do."""

import json
from typing import Any

from gradebook.rubrics.model.levels import Level
from gradebook.tasks.judging.opinions.parts import CLAIM_SCALE, PartVote, Scale, combine_parts, is_unsure, read_claims
from gradebook.tasks.judging.replies.list_questions import ListAnswer
from gradebook.tasks.judging.settings.judge import CascadeSettings, JudgeSettings, Opinion, PanelSettings, When
from tests.support.law_over import law_over

LEVELS = (Level(id="wrong", score=0), Level(id="partial", score=0.5), Level(id="right", score=1))
STEPS: Scale = {level.id: level.score for level in LEVELS}
NAMES = {"s": "supported", "c": "contradicted", "n": "not_in_source", "u": "unverified"}
NAMES |= {"w": "wrong", "p": "partial", "r": "right"}
ONE, OTHER = JudgeSettings(model="m"), JudgeSettings(model="n")


def votes_of(text: str) -> dict[Opinion, PartVote[str]]:
    """Votes by one letter each, a judge a word, a replicate a letter: `-` for a reply that can't be read, `a` for an
    abstention; the key is the place, such as 10 for the second judge's first.
    """
    votes = {}
    for judge, word in enumerate(text.split()):
        for replicate, letter in enumerate(word):
            level, key = NAMES.get(letter), f"{judge}{replicate}"
            reason = None if level else "abstained" if letter == "a" else "parse_error"
            votes[Opinion(judge, replicate)] = PartVote(level, level, key, reason)
    return votes


@law_over(
    ("aggregate", "votes", "expected", "key"),
    [
        ("mean", "s", "supported", "00"),
        ("mean", "s n", "not_in_source", "10"),  # of two the lower
        ("mean", "s n s", "supported", "00"),
        ("mean", "s c", "contradicted", "10"),
        ("mean", "s u s u", "unverified", "10"),
        ("mean", "ssn n", "not_in_source", "02"),  # replicates first: supported, then the lower of two judges
        ("all", "s s n", "not_in_source", "20"),
        ("majority", "s s n", "supported", "00"),
        ("majority", "s n", "no_majority", "00"),
        ("mean", "s -", "supported", "00"),  # half of them is enough
        ("mean", "s - -", "parse_error", "10"),
        ("mean", "s a a", "abstained", "10"),
        ("mean", "-", "parse_error", "00"),
        ("all", "r w r", "wrong", "10"),
        ("majority", "r w p", "no_majority", "00"),
        ("mean", "r w p", "partial", "20"),
        ("majority", "www r r", "right", "10"),  # a judge's replicates first: wrong and right of three
        ("mean", "rpr", "right", "00"),
    ],
)
def test_a_part_gets_the_level_that_an_output_would_get(aggregate: Any, votes: str, expected: str, key: str):
    members = tuple(JudgeSettings(model="m") for _ in range(4))
    judge = members[0] if len(votes.split()) == 1 else PanelSettings(members, aggregate)
    given = votes_of(votes)
    (found,) = combine_parts(judge, STEPS if {*votes} & {*"wpr"} else CLAIM_SCALE, [given])
    assert (found.level or found.reason, found.said, found.request_key) == (expected, found.level, key)
    assert found.is_disputed == (len({vote.level for vote in given.values()} - {None}) > 1)


def test_the_first_vote_with_the_level_is_the_same_beside_any_other_parts():
    judge = PanelSettings((ONE, OTHER), "mean")
    for others in ([], [votes_of("n s")], [dict(reversed(votes_of("ss ss").items()))]):
        assert combine_parts(judge, CLAIM_SCALE, [*others, votes_of("ss s")])[-1].request_key == "00"


def test_the_second_judge_of_a_cascade_alone_counts_where_it_was_asked():
    found = combine_parts(CascadeSettings(ONE, OTHER), CLAIM_SCALE, [votes_of("c s"), votes_of("c")])
    assert [(each.level, each.is_disputed) for each in found] == [("supported", False), ("contradicted", False)]


@law_over(
    ("when", "votes", "expected"),
    [
        (When(), ["s"], False),
        (When(), ["s", "-"], True),
        (When(unscored=False), ["-"], False),
        (When(), ["sn"], False),
        (When(disagreement=True), ["ss", "sn"], True),
        (When(disagreement=True), ["ss"], False),
        (When(share_below=0.8), ["sssn"], True),
        (When(share_below=0.7), ["sssn"], False),
        (When(), [""], True),  # a criterion that only the second judge is asked
    ],
)
def test_the_second_judge_is_asked_where_the_first_is_unsure(when: When, votes: list[str], expected: bool):
    assert is_unsure(when, CLAIM_SCALE, [votes_of(each) for each in votes]) is expected


def test_an_abstention_in_a_reply_is_a_vote_without_a_level():
    text = '[{"verdict": "supported", "quote": "q"}, {"verdict": "abstained", "quote": ""}]'
    (said, none) = read_claims(ListAnswer("k", text, None, 1, None, None))
    assert (said.level, none.level, none.said, none.reason, none.request_key) == (
        "supported",
        None,
        None,
        "abstained",
        "k",
    )


@law_over(
    ("when", "expected"),
    [
        (When(share_below=0.7), True),
        (When(share_below=0.6), False),
        (When(margin_below=0.3), True),
        (When(margin_below=0.2), False),
        (When(entropy_above=0.9), True),
        (When(entropy_above=1.0), False),
    ],
)
def test_the_rule_of_a_cascade_reads_the_probabilities_of_a_decision_model(when: When, expected: bool):
    stored = [{"verdict": "supported", "quote": "", "probabilities": {"supported": 0.625, "not_in_source": 0.375}}]
    (vote,) = read_claims(ListAnswer("k", json.dumps(stored), None, 1, None, None))
    assert is_unsure(when, CLAIM_SCALE, [votes_of("s"), {Opinion(): vote}]) is expected
