"""Pairs of answers that criteria of the method `preference` compare, and the questions about them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import pyarrow as pa
import pyarrow.parquet as pq

from gradebook.rubrics.model.levels import PREFERENCE_LEVELS
from gradebook.rubrics.model.methods import PreferenceMethod
from gradebook.rubrics.model.rubric import Criterion, Rubric
from gradebook.rubrics.prompts.media import has_media
from gradebook.rubrics.prompts.prompt import Case
from gradebook.tasks.judging.opinions.parts import PartList, PartVote, Scale
from gradebook.tasks.judging.replies.list_question import ListAnswer, ListQuestion
from gradebook.tasks.judging.replies.preference_questions import preference_questions
from gradebook.tasks.judging.settings.panels import CascadeSettings, Judge, Opinion, list_opinions
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
        """Whether both answers have the same text: a tie, of which nothing is asked."""
        return self.reason is None and self.case.output == self.other

    @property
    def is_asked(self) -> bool:
        """Whether there is anything to ask."""
        return self.reason is None and not self.is_same

    def questions(self, criterion: Criterion, judge_digest: str, replicate: int = 0) -> tuple[ListQuestion, ...]:
        """The question in both orders; none where nothing is to ask."""
        if not self.is_asked:
            return ()
        return preference_questions(criterion, self.output_id, self.case, self.other, judge_digest, replicate)

    def lists(
        self, criterion: Criterion, votes: Sequence[dict[Opinion, "PreferenceVote"]]
    ) -> Iterator[PartList[ListAnswer]]:
        """Questions about the pair, a list of one part for each order. votes: where those of each order are added."""

        @cache  # both orders of a vote at once
        def questions(judge_digest: str, replicate: int) -> tuple[ListQuestion, ...]:
            return self.questions(criterion, judge_digest, replicate)

        def asker(place: int) -> Callable[[str, int], ListQuestion]:
            return lambda judge_digest, replicate: questions(judge_digest, replicate)[place]

        for place, of_order in enumerate(votes):
            yield PartList(self.output_id, asker(place), _read_vote, [of_order])


PreferenceVote = PartVote[ListAnswer]


def _read_vote(answer: ListAnswer) -> list[PreferenceVote]:
    return [PartVote(answer.level_id, answer, answer.request_key)]


def preference_opinions(judge: Judge, criterion_id: str) -> tuple[Opinion, ...]:
    """Votes that a criterion of preferences may need for each pair; of a cascade, those of its second judge alone."""
    found = list_opinions(judge, criterion_id)
    last = max((each.judge_index for each in found), default=0)
    return tuple(each for each in found if each.judge_index == last or not isinstance(judge, CascadeSettings))


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
