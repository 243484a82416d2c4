"""Verdicts on criteria of the method `preference`: each output beside another answer to its case, in both orders."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from gradebook.rubrics.model.levels import PREFERENCE_LEVELS, SAME
from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.model.verdicts import verdict_table
from gradebook.rubrics.prompts.preference import settle_orders
from gradebook.rubrics.prompts.reply_parser import is_quoted
from gradebook.tasks.judging.replies.list_question import ListAnswer
from gradebook.tasks.planning.preferences import AnswerPair, read_pairs
from gradebook.tasks.scoring.list_answers import ListJudges
from gradebook.tasks.system.files import write_parquet
from gradebook.tasks.workspace.folder import RunFolder

PREFERENCE_SCHEMA = pa.schema(
    [
        *(pa.field(name, pa.string(), nullable=False) for name in ("run_id", "output_id", "criterion_id")),
        pa.field("other_output_id", pa.string(), nullable=False),
        *(pa.field(name, pa.string()) for name in ("level_id", "shown_first", "shown_second")),
        *(pa.field(name, pa.string()) for name in ("request_key_first", "request_key_second")),
    ]
)
_SAME_TEXT = "both answers have the same text"


@dataclass(frozen=True, slots=True)
class _Compared:
    """One pair. first, second: answers with the output shown first and second; None if nothing was asked."""

    pair: AnswerPair
    first: ListAnswer | None
    second: ListAnswer | None

    @property
    def levels(self) -> tuple[str | None, str | None]:
        """Level of the output in each order."""
        first, second = (None if each is None else each.level_id for each in (self.first, self.second))
        return first, second

    @property
    def level(self) -> str | None:
        """Level of the output, if both orders have one."""
        if self.pair.is_same:
            return SAME
        first, second = self.levels
        return None if first is None or second is None else settle_orders(first, second)

    @property
    def reason(self) -> str | None:
        """Why there is no level: no pair, or an order without a usable reply."""
        if self.pair.reason is not None or self.level is not None:
            return self.pair.reason
        return next(each.reason or "no_reply" for each in (self.first, self.second) if each and each.level_id is None)

    @property
    def words(self) -> str | None:
        """Rationale of each order."""
        if self.level is None or self.first is None or self.second is None:
            return _SAME_TEXT if self.pair.is_same else None
        named = ((self.first, "first"), (self.second, "second"))
        return "\n".join(f"shown {place}: {each.level_id}: {each.text}" for each, place in named)

    @property
    def evidence(self) -> str | None:
        """Quotes from the output itself, as a JSON list; None without any."""
        given = [each.evidence for each in (self.first, self.second) if each and each.evidence]
        quotes = dict.fromkeys(quote for text in given for quote in json.loads(text))
        own = [quote for quote in quotes if is_quoted([quote], self.pair.case.output)]
        return json.dumps(own, ensure_ascii=False) if own else None


def score_preferences(
    folder: RunFolder, criterion: Criterion, shard: str, shard_index: int, judges: ListJudges
) -> pa.Table:
    """Compare a shard's outputs with the answers of its plan: `VERDICT_SCHEMA`, one row per output, in its order.

    Writes the preferences to the run's folder, as `PREFERENCE_SCHEMA`. Replies in the ledger are not asked for again.
    Raises as `JudgingSession.ask`; replies until then are in the journal.
    """
    asker = judges.writer
    pairs = list(read_pairs(folder, criterion.id, shard, shard_index))
    questions = [pair.questions(criterion, asker.judge_digest) for pair in pairs]
    answers = asker.ask(question for of_pair in questions for question in of_pair)
    compared = [
        _Compared(pair, *([answers[each.request_key] for each in of_pair] or (None, None)))
        for pair, of_pair in zip(pairs, questions, strict=True)
    ]
    judges.timing.row_count = len(compared)
    rows = pa.Table.from_pylist(_rows(folder.run_id, criterion.id, compared), schema=PREFERENCE_SCHEMA)
    write_parquet(folder.detail_file("judged_preferences", criterion.id, shard_index), rows)
    return _verdicts(folder.run_id, criterion, compared)


def _rows(run_id: str, criterion_id: str, compared: Sequence[_Compared]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for each in compared:
        if each.pair.reason is not None:
            continue
        place = {"run_id": run_id, "output_id": each.pair.output_id, "criterion_id": criterion_id}
        first, second = each.levels
        told = {"level_id": each.level, "shown_first": first, "shown_second": second}
        asked = {"request_key_first": each.first, "request_key_second": each.second}
        keys = {name: None if answer is None else answer.request_key for name, answer in asked.items()}
        rows.append(place | {"other_output_id": each.pair.other_output_id} | told | keys)
    return rows


def _verdicts(run_id: str, criterion: Criterion, compared: Sequence[_Compared]) -> pa.Table:
    scores = dict(PREFERENCE_LEVELS)
    levels = [each.level for each in compared]
    return verdict_table(
        run_id,
        criterion,
        pa.array([each.pair.output_id for each in compared], pa.string()),
        pa.array(levels, pa.string()),
        pa.array([None if level is None else scores[level] for level in levels], pa.float64()),
        reasons=pa.array([each.reason for each in compared], pa.string()),
        evidence=pa.array([each.evidence for each in compared], pa.string()),
        rationales=pa.array([each.words for each in compared], pa.string()),
        request_keys=pa.array([each.first and each.first.request_key for each in compared], pa.string()),
    )
