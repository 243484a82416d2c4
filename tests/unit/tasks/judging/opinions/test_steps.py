"""Votes on steps, combined."""

from typing import Literal

from gradebook.rubrics.model.levels import Level
from gradebook.rubrics.model.taxonomy import StepMark
from gradebook.tasks.judging.opinions.steps import StepVote, combine_votes, is_window_unsure
from gradebook.tasks.judging.settings.judge import JudgeSettings
from gradebook.tasks.judging.settings.panels import CascadeSettings, Judge, Opinion, PanelSettings, When
from tests.support.law_over import law_over

LEVELS = (Level(id="wrong", score=0), Level(id="partial", score=0.5), Level(id="right", score=1))
SCORES = {level.id: level.score for level in LEVELS}
ONE, OTHER = JudgeSettings(model="m"), JudgeSettings(model="n")


def votes(*labels: str | None, of_judge: tuple[int, ...] = (0, 1, 2)) -> list[StepVote]:
    """Votes on step 7, one for each judge; None: its reply could not be read."""
    return [
        StepVote(
            Opinion(judge, replicate=of_judge[:place].count(judge)),
            f"key{place}",
            {7: (StepMark("7", label, SCORES[label], rationale=f"vote {place}"), None)} if label else {},
            None if label else "parse_error",
        )
        for place, (label, judge) in enumerate(zip(labels, of_judge, strict=False))
    ]


def panel(aggregate: Literal["mean", "median", "majority", "all"]) -> PanelSettings:
    return PanelSettings((ONE, OTHER, ONE), aggregate)


@law_over(
    "judge, given, label, speaker, reason",
    [
        (panel("all"), votes("right", "wrong", "right"), "wrong", 1, None),
        (panel("majority"), votes("right", "wrong", "right"), "right", 0, None),
        (panel("majority"), votes("right", "wrong", "partial"), None, None, "no_majority"),
        (panel("mean"), votes("right", "wrong", "partial"), "partial", 2, None),
        (panel("mean"), votes("right", "wrong"), "wrong", 1, None),  # the lower of two
        (panel("all"), votes("right", None, None), None, None, "parse_error"),  # fewer than half
        (panel("mean"), votes("right", None), "right", 0, None),
        # a judge's replicates are combined first: right, and wrong of three
        (
            panel("majority"),
            votes("wrong", "wrong", "wrong", "right", "right", of_judge=(0, 0, 0, 1, 2)),
            "right",
            3,
            None,
        ),
        (ONE, votes("right", "partial", "right", of_judge=(0, 0, 0)), "right", 0, None),
        (ONE, votes("partial"), "partial", 0, None),
        (CascadeSettings(ONE, OTHER), votes("wrong", "right", of_judge=(0, 1)), "right", 1, None),
    ],
)
def test_votes_on_a_step_combine_as_those_on_an_output(
    judge: Judge, given: list[StepVote], label: str | None, speaker: int | None, reason: str | None
):
    (found,) = combine_votes(judge, LEVELS, [7], given)
    said = (None, None) if found.mark is None else (found.mark[0].label, found.mark[0].rationale)
    assert said == (label, None if speaker is None else f"vote {speaker}")
    assert found.reason == reason


@law_over(
    "when, given, is_unsure",
    [
        (When(), votes("wrong", of_judge=(0,)), False),
        (When(), votes(None, of_judge=(0,)), True),
        (When(unscored=False), votes(None, of_judge=(0,)), False),
        (When(disagreement=True), votes("wrong", "right", of_judge=(0, 0)), True),
        (When(disagreement=True), votes("right", "right", of_judge=(0, 0)), False),
        (When(share_below=0.7), votes("right", "right", "wrong", of_judge=(0, 0, 0)), True),  # 2 of 3
        (When(), [], True),  # a criterion that only the second judge is asked
    ],
)
def test_the_second_judge_of_a_cascade_is_asked_where_the_first_is_unsure(
    when: When, given: list[StepVote], is_unsure: bool
):
    assert is_window_unsure(CascadeSettings(ONE, OTHER, when), LEVELS, given) == is_unsure
