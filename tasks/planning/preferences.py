"""Pairs of answers that criteria of the method `preference` compare, and the questions about them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from gradebook.rubrics.model.methods import PreferenceMethod
from gradebook.rubrics.model.rubric import Criterion, Rubric
from gradebook.rubrics.prompts.media import has_media
from gradebook.rubrics.prompts.prompt import Case
from gradebook.tasks.judging.replies.list_question import ListQuestion
from gradebook.tasks.judging.replies.preference_questions import preference_questions
from gradebook.tasks.planning.cases import read_stored_cases
from gradebook.tasks.workspace.folder import RunFolder

PAIR_SCHEMA = pa.schema([pa.field(name, pa.string()) for name in ("output_id", "other_output_id", "other", "reason")])
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
        """Whether both answers have the same text: a tie, of which nothing is asked."""
        return self.reason is None and self.case.output == self.other

    def questions(self, criterion: Criterion, judge_digest: str) -> tuple[ListQuestion, ...]:
        """The question in both orders; none where nothing is to ask."""
        if self.reason is not None or self.is_same:
            return ()
        return preference_questions(criterion, self.output_id, self.case, self.other, judge_digest)


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
