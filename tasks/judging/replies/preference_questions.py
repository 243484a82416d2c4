"""Questions which of two answers is better, in both orders."""

from functools import partial

from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.prompts.preference import (
    PREFERENCE_VERSION,
    preference_key,
    preference_labels,
    preference_method,
    render_preference,
)
from gradebook.rubrics.prompts.prompt import Case, Labels, reply_schema
from gradebook.rubrics.prompts.reply_parser import ReadReply, read_reply
from gradebook.rubrics.prompts.templates import file_digest
from gradebook.tasks.judging.replies.list_question import ListQuestion

PREFERENCE_TOKENS = 1_000  # of a reply, at most


def preference_questions(
    criterion: Criterion, output_id: str, case: Case, other: str, judge_digest: str, replicate: int = 0
) -> tuple[ListQuestion, ListQuestion]:
    """The question with the output shown first, then with the other answer shown first."""
    first, second = (
        _question(criterion, output_id, case, other, judge_digest, replicate, is_swapped=each) for each in (False, True)
    )
    return first, second


def _question(
    criterion: Criterion,
    output_id: str,
    case: Case,
    other: str,
    judge_digest: str,
    replicate: int,
    *,
    is_swapped: bool,
) -> ListQuestion:
    key = preference_key(judge_digest, criterion, case, other, replicate, is_swapped=is_swapped)
    labels = preference_labels(case, other, key, is_swapped=is_swapped)
    return ListQuestion(
        output_id,
        criterion.id,
        key,
        PREFERENCE_VERSION,
        file_digest(PREFERENCE_VERSION),
        partial(render_preference, case, other, criterion, labels, is_swapped=is_swapped),
        reply_schema(labels),
        preference_method(criterion).max_tokens or PREFERENCE_TOKENS,
        partial(_read, labels=labels, quotable=f"{case.output}\n{other}"),
        replicate,
    )


def _read(text: str | None, finish_reason: str | None, refusal: str | None, labels: Labels, quotable: str) -> ReadReply:
    return read_reply(text, finish_reason, refusal, labels, quotable)
