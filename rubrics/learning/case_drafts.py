"""Criteria of one case as a model proposes them, and the rules that accept them.

A criterion may not repeat words of the case's reference: an output would be rewarded for its wording.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from gradebook.rubrics.files.case_criteria import case_criteria_fault
from gradebook.rubrics.files.dump import question_id
from gradebook.rubrics.learning.proposals import Dropped, asks_same, one_line
from gradebook.rubrics.lint.texts import words_of

FEWEST, MOST = 5, 12  # criteria of a case
LEAKED_WORDS = 5  # words in a row that a question may not share with the reference alone
LARGEST_WEIGHT = 10


class ProposedCaseCriterion(BaseModel):
    """Criterion of a case. weight: from 1 to 10."""

    model_config = ConfigDict(extra="forbid", strict=True)

    question: str
    weight: int


class ProposedCase(BaseModel):
    """All criteria of a case."""

    model_config = ConfigDict(extra="forbid", strict=True)

    criteria: list[ProposedCaseCriterion] = Field(max_length=60)


CASE_INSTRUCTIONS = f"""
You write criteria for answers to one prompt. MATERIAL is one JSON object: `prompt` is what is asked, `reference`, where
given, an answer known to be good, `context`, where given, what an answer may draw on, and `notes`, where given, what
the people want.

Write {FEWEST} to {MOST} criteria. Each has `question`, which a good answer to this prompt answers with yes, and which
two readers would answer alike by pointing at the answer. Each has `weight`, from 1 for what is welcome to
{LARGEST_WEIGHT} for what the answer is worthless without. Ask for one fact or one quality in each. Ask for what the
prompt needs, not for the reference: another good answer may say it in other words, other order and other length. So
copy no phrase of the reference, ask nothing about style that the prompt does not ask for, and do not mention that
there is a reference.
"""


def read_case(
    reply: ProposedCase, case_id: str, reference: str | None, others: Iterable[str]
) -> tuple[list[dict[str, Any]], list[Dropped]]:
    """(accepted criteria of a case, in the form of a row; dropped ones).

    others: texts that may be repeated: the prompt and the context.
    """
    leaking = _word_run_set(reference or "")
    for text in others:
        leaking -= _word_run_set(text)
    criteria: list[dict[str, Any]] = []
    dropped: list[Dropped] = []
    for proposal in reply.criteria:
        question = one_line(proposal.question, 600)
        reason = _refused(
            question,
            proposal.weight,
            leaking,
            [str(accepted_criterion["description"]) for accepted_criterion in criteria],
        )
        values = {
            "id": question_id(question, [str(accepted_criterion["id"]) for accepted_criterion in criteria]),
            "description": question,
            "weight": proposal.weight,
            "method": {"type": "judge"},
        }
        reason = reason or case_criteria_fault([values])
        if reason:
            dropped.append(Dropped(f"case {one_line(case_id, 60)}: {question[:90]}", reason))
        else:
            criteria.append(values)
    return criteria, dropped


def _refused(question: str, weight: int, leaking: set[tuple[str, ...]], accepted: Sequence[str]) -> str | None:
    if not question:
        return "asks nothing"
    if not 1 <= weight <= LARGEST_WEIGHT:
        return f"found the weight {weight}, expected 1 to {LARGEST_WEIGHT}"
    if leaked := [run for run in _word_runs(question) if run in leaking]:
        return f'repeats words of the reference: "{" ".join(leaked[0])}"'
    if any(asks_same(question, other) for other in accepted):
        return "asks the same as an earlier one"
    return f"one of more than {MOST}" if len(accepted) == MOST else None


def _word_run_set(text: str) -> set[tuple[str, ...]]:
    return {*_word_runs(text)}


def _word_runs(text: str) -> list[tuple[str, ...]]:
    """All sequences of `LEAKED_WORDS` consecutive words of a text."""
    words = words_of(text)
    return [tuple(words[start : start + LEAKED_WORDS]) for start in range(len(words) - LEAKED_WORDS + 1)]
