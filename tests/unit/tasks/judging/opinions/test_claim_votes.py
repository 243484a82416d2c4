"""Votes on claims combine as votes on levels do."""

import pytest

from gradebook.rubrics.prompts.claims import CheckedClaim
from gradebook.tasks.judging.opinions.claims import ClaimVote, combined_claims, has_unsure, read_vote
from gradebook.tasks.judging.settings.judge import JudgeSettings
from gradebook.tasks.judging.settings.panels import CascadeSettings, Opinion, PanelSettings, When

NAMES = {"s": "supported", "c": "contradicted", "n": "not_in_source", "u": "unverified", "a": "abstained"}


def votes_of(text: str) -> dict[Opinion, ClaimVote]:
    """Votes by one letter each, a judge a word, a replicate a letter; `-` for a reply that can't be read."""
    return {
        Opinion(judge, replicate): ClaimVote(None, "parse_error", f"{judge}{replicate}")
        if letter == "-"
        else read_vote(CheckedClaim(NAMES[letter], ""), f"{judge}{replicate}")
        for judge, word in enumerate(text.split())
        for replicate, letter in enumerate(word)
    }


@pytest.mark.parametrize(
    ("aggregate", "votes", "expected"),
    [
        ("mean", "s", "supported"),
        ("mean", "s n", "not_in_source"),  # of two the lower
        ("mean", "s n s", "supported"),
        ("mean", "s c", "contradicted"),
        ("mean", "s u s u", "unverified"),
        ("mean", "ssn n", "not_in_source"),  # replicates first: supported, then the lower of two judges
        ("all", "s s n", "not_in_source"),
        ("majority", "s s n", "supported"),
        ("majority", "s n", "no_majority"),
        ("mean", "s -", "supported"),  # half of them is enough
        ("mean", "s - -", "parse_error"),
        ("mean", "s a a", "abstained"),
        ("mean", "-", "parse_error"),
    ],
)
def test_a_claim_gets_the_verdict_that_a_level_would_get(aggregate: str, votes: str, expected: str):
    members = tuple(JudgeSettings(model="m") for _ in range(4))
    judge = members[0] if len(votes.split()) == 1 else PanelSettings(members, aggregate)
    (found,) = combined_claims(judge, [votes_of(votes)])
    assert (found.said.verdict if found.said else found.reason) == expected
    assert found.request_key in {vote.request_key for vote in votes_of(votes).values()}


def test_the_second_judge_of_a_cascade_alone_counts_where_it_was_asked():
    judge = CascadeSettings(JudgeSettings(model="m"), JudgeSettings(model="n"))
    found = combined_claims(judge, [votes_of("c s"), votes_of("c")])
    assert [each.said.verdict for each in found if each.said] == ["supported", "contradicted"]


@pytest.mark.parametrize(
    ("when", "votes", "expected"),
    [
        (When(), ["s", "-"], True),
        (When(unscored=False), ["-"], False),
        (When(), ["sn"], False),
        (When(disagreement=True), ["ss", "sn"], True),
        (When(share_below=0.8), ["sssn"], True),
        (When(share_below=0.7), ["sssn"], False),
    ],
)
def test_the_second_judge_is_asked_where_the_first_is_unsure(when: When, votes: list[str], expected: bool):
    assert has_unsure(when, [votes_of(each) for each in votes]) is expected
