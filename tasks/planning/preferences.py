"""Pairs of answers that criteria of the method `preference` compare, and the questions about them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial

import pyarrow as pa
import pyarrow.parquet as pq

from gradebook.rubrics.model.levels import PREFERENCE_LEVELS
from gradebook.rubrics.model.methods import PreferenceMethod
from gradebook.rubrics.model.rubric import Criterion, Rubric
from gradebook.rubrics.prompts.media import has_media
from gradebook.rubrics.prompts.preference import (
    PREFERENCE_VERSION,
    preference_key,
    preference_labels,
    render_preference,
)
from gradebook.rubrics.prompts.prompt import Case, Labels, reply_schema
from gradebook.rubrics.prompts.prompt_text import file_digest
from gradebook.rubrics.prompts.reply_parser import ReadReply, read_reply
from gradebook.rubrics.prompts.typed_parts import (
    PARTS_PROMPT,
    preference_question,
    read_preference,
    render_pair_state,
)
from gradebook.tasks.judging.opinions.parts import PartList, PartVote, Scale
from gradebook.tasks.judging.replies.list_questions import AskedJudge, ListAnswer, ListQuestion, typed_list
from gradebook.tasks.judging.settings.judge import Judge, Opinion
from gradebook.tasks.planning.cases import read_stored_cases
from gradebook.tasks.workspace.folder import RunFolder

PAIR_SCHEMA = pa.schema([pa.field(name, pa.string()) for name in ("output_id", "other_output_id", "other", "reason")])
PREFERENCE_SCALE: Scale = dict(PREFERENCE_LEVELS)
WITH_MEDIA = "no_pair: found images or sounds, expected texts to compare"


@dataclass(frozen=True, slots=True)
class AnswerPair:
    """An output, and the answer to the same case that it is compared with. reason: why there is none to compare."""

    output_id: str
    case: Case
    other_output_id: str | None
    other: str
    reason: str | None

    @property
    def is_same(self) -> bool:
        """Whether both answers have the same text: a tie, which needs no question."""
        return self.reason is None and self.case.output == self.other

    @property
    def is_asked(self) -> bool:
        """Whether there is anything to ask."""
        return self.reason is None and not self.is_same

    def questions(self, criterion: Criterion, judge: AskedJudge, replicate: int = 0) -> tuple[ListQuestion, ...]:
        """Question about the pair in both orders; empty if there is nothing to ask."""
        if not self.is_asked:
            return ()
        return preference_questions(criterion, self.output_id, self.case, self.other, judge, replicate)

    def lists(
        self, criterion: Criterion, votes: Sequence[dict[Opinion, "PreferenceVote"]]
    ) -> Iterator[PartList[ListAnswer]]:
        """Questions about the pair, a list of one part for each order. votes: of each order; replies are added."""

        @cache  # both orders of a vote at once
        def questions(judge: AskedJudge, replicate: int) -> tuple[ListQuestion, ...]:
            return self.questions(criterion, judge, replicate)

        def question_maker(position: int) -> Callable[[AskedJudge, int], ListQuestion]:
            return lambda judge, replicate: questions(judge, replicate)[position]

        for position, of_order in enumerate(votes):
            yield PartList(self.output_id, question_maker(position), _read_vote, [of_order])


PreferenceVote = PartVote[ListAnswer]


def _read_vote(answer: ListAnswer) -> list[PreferenceVote]:
    return [PartVote(answer.level_id, answer, answer.request_key)]


def preference_opinions(judge: Judge, criterion_id: str) -> list[Opinion]:
    """Votes that a criterion of preferences may need for each pair; of a cascade, only those of its second judge."""
    return judge.deciding(judge.list_votes(criterion_id))


def preference_criteria(rubric: Rubric) -> list[Criterion]:
    """Criteria of the method `preference`."""
    return [criterion for criterion in rubric.criteria if isinstance(criterion.method, PreferenceMethod)]


def read_pairs(folder: RunFolder, criterion_id: str, shard: str, shard_index: int) -> Iterator[AnswerPair]:
    """Pairs of a shard's outputs, in its order, as the plan wrote them."""
    rows = pq.read_table(folder.pairs_file(criterion_id, shard_index))
    columns: Sequence[list[str | None]] = [rows.column(name).to_pylist() for name in PAIR_SCHEMA.names[1:]]
    for (output_id, case), other_id, other, reason in zip(read_stored_cases(shard), *columns, strict=True):
        has_some = other is not None and (has_media(case.prompt, case.output) or has_media(None, other))
        yield AnswerPair(output_id, case, other_id, other or "", reason or (WITH_MEDIA if has_some else None))


PREFERENCE_TOKENS = 1_000  # most tokens of a reply


def preference_questions(
    criterion: Criterion, output_id: str, case: Case, other: str, judge: AskedJudge, replicate: int = 0
) -> tuple[ListQuestion, ListQuestion]:
    """Two questions: with the output shown first, and with the other answer shown first."""
    first, second = (
        _question(criterion, output_id, case, other, judge, replicate, is_swapped=is_swapped)
        for is_swapped in (False, True)
    )
    return first, second


def _question(
    criterion: Criterion,
    output_id: str,
    case: Case,
    other: str,
    judge: AskedJudge,
    replicate: int,
    *,
    is_swapped: bool,
) -> ListQuestion:
    if judge.is_decision:
        key = preference_key(
            judge.digest, criterion, case, other, replicate, is_swapped=is_swapped, prompt=PARTS_PROMPT
        )
        typed = preference_question(criterion, key, is_swapped=is_swapped)
        render = partial(render_pair_state, case, other, is_swapped=is_swapped)
        return typed_list(output_id, criterion.id, key, render, (typed,), read_preference, judge, replicate)
    key = preference_key(judge.digest, criterion, case, other, replicate, is_swapped=is_swapped)
    labels = preference_labels(case, other, key, is_swapped=is_swapped)
    return ListQuestion(
        output_id,
        criterion.id,
        key,
        PREFERENCE_VERSION,
        file_digest(PREFERENCE_VERSION),
        partial(render_preference, case, other, criterion, labels, is_swapped=is_swapped),
        reply_schema(labels),
        criterion.method_as(PreferenceMethod).max_tokens or PREFERENCE_TOKENS,
        partial(_read, labels=labels, quotable=f"{case.output}\n{other}"),
        replicate,
    )


def _read(text: str | None, finish_reason: str | None, refusal: str | None, labels: Labels, quotable: str) -> ReadReply:
    return read_reply(text, finish_reason, refusal, labels, quotable)
