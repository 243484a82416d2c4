"""Claims and steps of an output in the lists that single questions ask about."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial

from gradebook.rubrics.model.methods import ClaimsMethod
from gradebook.rubrics.model.taxonomy import StepMark
from gradebook.rubrics.prompts.claims import RANKED_VERDICTS, CheckedClaim, Claim, verdicts_of
from gradebook.rubrics.prompts.step_marks import StepCriterion, marks_of
from gradebook.tasks.judging.opinions.parts import PartList, PartVote, Scale
from gradebook.tasks.judging.replies.claim_questions import ClaimUnit, claim_packs, verification_question
from gradebook.tasks.judging.replies.list_question import ListAnswer, ListQuestion
from gradebook.tasks.judging.replies.step_questions import StepUnit, step_questions
from gradebook.tasks.judging.settings.panels import Opinion

QuotedMark = tuple[StepMark, str | None]
ClaimVote = PartVote[CheckedClaim]
StepVote = PartVote[QuotedMark]
CLAIM_SCALE: Scale = {verdict: float(verdict == "supported") for verdict in RANKED_VERDICTS}


def claim_lists(
    method: ClaimsMethod,
    criterion_id: str,
    unit: ClaimUnit,
    claims: Sequence[Claim],
    votes: Sequence[dict[Opinion, ClaimVote]],
) -> Iterator[PartList[CheckedClaim]]:
    """Claims of a text as they are verified. claims: those that can be checked; votes: where theirs are added."""
    for places in claim_packs(range(len(claims))):
        pack = [claims[place] for place in places]
        ask = partial(verification_question, unit, pack, criterion_id, can_abstain=method.can_abstain)
        yield PartList(unit.output_id, ask, read_claims, [votes[place] for place in places])


def read_claims(answer: ListAnswer) -> list[ClaimVote]:
    """Votes of a usable reply; an abstention is none."""
    return [
        PartVote(None, None, answer.request_key, "abstained")
        if said.verdict == "abstained"
        else PartVote(said.verdict, said, answer.request_key)
        for said in verdicts_of(answer.text or "")
    ]


def step_scale(asked: StepCriterion) -> Scale:
    """Scores of a criterion's levels, worst first."""
    return {level.id: level.score for level in asked.criterion.ranked_levels}


def step_lists(
    asked: StepCriterion, unit: StepUnit, votes: Mapping[int, dict[Opinion, StepVote]]
) -> Iterator[PartList[QuotedMark]]:
    """Steps of an output as they are judged. votes: where those on each step are added."""
    scale = step_scale(asked)

    @cache  # all questions of a vote at once: the trajectory is digested once
    def questions(judge_digest: str, replicate: int) -> tuple[ListQuestion, ...]:
        return tuple(step_questions(asked, unit, judge_digest, replicate))

    def ask(place: int, judge_digest: str, replicate: int) -> ListQuestion:
        return questions(judge_digest, replicate)[place]

    def read(answer: ListAnswer) -> list[StepVote]:
        marks = marks_of(answer.text or "", scale)
        return [PartVote(mark.label, (mark, quote), answer.request_key) for mark, quote in marks]

    for place, steps in enumerate(unit.windows):
        yield PartList(unit.output_id, partial(ask, place), read, [votes[step] for step in steps])
