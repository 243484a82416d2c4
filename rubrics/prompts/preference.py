"""Question which of two answers to a case is better: its messages, its key and its reply.

It is asked in both orders, each under a key of its own. The list of outcomes reads the same in both, so that nothing
but the order of the answers changes; a level is always that of the judged output beside the other answer.
"""

import json
from typing import Any

from gradebook.rubrics.model.digests import digest_of
from gradebook.rubrics.model.levels import BETTER, SAME, WORSE
from gradebook.rubrics.model.methods import PreferenceMethod
from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.prompts.labels import draw_labels, shuffle_labels
from gradebook.rubrics.prompts.prompt import Case, Labels, Messages, case_digest, case_shown, case_text
from gradebook.rubrics.prompts.templates import file_digest, read_sections
from gradebook.rubrics.prompts.untrusted_text import shown_json

PREFERENCE_VERSION = "preference_v1"
_OUTCOMES = ("`first` is better", "neither is better", "`second` is better")


def preference_method(criterion: Criterion) -> PreferenceMethod:
    """Its method. Raises `TypeError` for another one."""
    if not isinstance(criterion.method, PreferenceMethod):
        raise TypeError(f"{criterion.id}: found the method {criterion.method.type}, expected preference")
    return criterion.method


def preference_key(
    judge_digest: str, criterion: Criterion, case: Case, other: str, replicate: int = 0, *, is_swapped: bool
) -> str:
    """Key under which one order of the question is paid for once, 32 hex digits. is_swapped: the other answer first.

    The name of the other answer's model is no part of it: the judge is not told.
    """
    method = preference_method(criterion)
    asked = digest_of(
        json.dumps([criterion.description, criterion.name, method.guidance, method.max_tokens], ensure_ascii=False)
    )
    parts = (judge_digest, file_digest(PREFERENCE_VERSION), asked, case_digest(case), digest_of(other))
    again = (str(replicate),) if replicate else ()
    return digest_of("|".join(("preference", *parts, "second" if is_swapped else "first", *again)))


def preference_labels(case: Case, other: str, key: str, *, is_swapped: bool) -> Labels:
    """Opaque label of each outcome, in the order shown: label -> level of the output. Drawn anew for each key."""
    levels = (WORSE, SAME, BETTER) if is_swapped else (BETTER, SAME, WORSE)
    labels = draw_labels(len(levels), f"{case_text(case)}\n{other}")
    return dict(zip(shuffle_labels(labels, key), levels, strict=True))


def render_preference(case: Case, other: str, criterion: Criterion, labels: Labels, *, is_swapped: bool) -> Messages:
    """Messages of the question in one order. case: of the output; other: the answer it is compared with."""
    sections = read_sections(PREFERENCE_VERSION)
    answers = (other, case.output) if is_swapped else (case.output, other)
    shown = case_shown(case)
    del shown["output"]
    shown |= dict(zip(("first", "second"), answers, strict=True))
    outcomes = [{"label": label, "meaning": words} for label, words in zip(labels, _OUTCOMES, strict=True)]
    named: dict[str, Any] = {"name": criterion.name, "question": criterion.description}
    named |= {"guidance": preference_method(criterion).guidance, "levels": outcomes}
    asked = {name: value for name, value in named.items() if value is not None}
    before_case, _, rest = sections["user"].partition("{case}")
    before_criterion, _, after = rest.partition("{criterion}")
    user = "".join((before_case, shown_json(shown), before_criterion, shown_json(asked), after))
    return [{"role": "system", "content": sections["system"]}, {"role": "user", "content": user}]


def settle(one: str | None, other: str | None) -> str | None:
    """Level of an output by two levels, as of the two orders: the same in both, else a tie; None if one is missing."""
    if one is None or other is None:
        return None
    return one if one == other else SAME
