"""Question about the better of two answers to a case: its messages, its key and its reply.

The question is asked in both orders, each with its own key. The list of outcomes is the same in both, so that only the
order of the answers changes. A level always refers to the judged output, compared with the other
answer.
"""

import json
from typing import Any

from gradebook.rubrics.model.json_values import digest_of, drop_none
from gradebook.rubrics.model.levels import BETTER, SAME, WORSE
from gradebook.rubrics.model.methods import PreferenceMethod
from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.prompts.prompt import Case, Labels, Messages, case_digest, case_shown, case_text
from gradebook.rubrics.prompts.prompt_text import draw_labels, file_digest, read_sections, shown_json, shuffle_labels

PREFERENCE_VERSION = "preference_v1"
OUTCOMES = ("`first` is better", "neither is better", "`second` is better")


def preference_key(
    judge_digest: str,
    criterion: Criterion,
    case: Case,
    other: str,
    replicate: int = 0,
    *,
    is_swapped: bool,
    prompt: str = PREFERENCE_VERSION,
) -> str:
    """Key under which one order of the question is paid for once, 32 hex digits. is_swapped: the other answer first.

    prompt: name of the prompt file. The name of the other answer's model is not included, as the judge does not see it.
    """
    method = criterion.method_as(PreferenceMethod)
    question_digest = digest_of(
        json.dumps([criterion.description, criterion.name, method.guidance, method.max_tokens], ensure_ascii=False)
    )
    digests = (judge_digest, file_digest(prompt), question_digest, case_digest(case), digest_of(other))
    repeat = (str(replicate),) if replicate else ()
    return digest_of("|".join(("preference", *digests, "second" if is_swapped else "first", *repeat)))


def preference_levels(*, is_swapped: bool) -> tuple[str, str, str]:
    """Levels of the output that `OUTCOMES` stand for, in their order."""
    return (WORSE, SAME, BETTER) if is_swapped else (BETTER, SAME, WORSE)


def preference_labels(case: Case, other: str, key: str, *, is_swapped: bool) -> Labels:
    """Opaque label of each outcome, in the order shown: label -> level of the output. Drawn anew for each key."""
    levels = preference_levels(is_swapped=is_swapped)
    labels = draw_labels(len(levels), f"{case_text(case)}\n{other}")
    return dict(zip(shuffle_labels(labels, key), levels, strict=True))


def render_preference(case: Case, other: str, criterion: Criterion, labels: Labels, *, is_swapped: bool) -> Messages:
    """Messages of the question in one order. case: of the output; other: the answer it is compared with."""
    sections = read_sections(PREFERENCE_VERSION)
    content = preference_shown(case, other, is_swapped=is_swapped)
    outcomes = [{"label": label, "meaning": meaning} for label, meaning in zip(labels, OUTCOMES, strict=True)]
    guidance = criterion.method_as(PreferenceMethod).guidance
    question = {"name": criterion.name, "question": criterion.description, "guidance": guidance, "levels": outcomes}
    before_case, _, after_case = sections["user"].partition("{case}")
    before_criterion, _, after = after_case.partition("{criterion}")
    user = "".join((before_case, shown_json(content), before_criterion, shown_json(drop_none(question)), after))
    return [{"role": "system", "content": sections["system"]}, {"role": "user", "content": user}]


def preference_shown(case: Case, other: str, *, is_swapped: bool) -> dict[str, Any]:
    """Case with both answers, as the JSON object CASE of a request."""
    content = case_shown(case)
    del content["output"]
    answers = (other, case.output) if is_swapped else (case.output, other)
    return content | dict(zip(("first", "second"), answers, strict=True))


def settle(level: str | None, swapped_level: str | None) -> str | None:
    """Level of an output from its levels in both orders: the same level, else a tie; None if a level is missing."""
    if level is None or swapped_level is None:
        return None
    return level if level == swapped_level else SAME
