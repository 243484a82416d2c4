"""Verdicts on criteria of the method `preference`: each output beside another answer to its case, in both orders."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from gradebook.rubrics.model.levels import BETTER, SAME, WORSE
from gradebook.rubrics.model.opinions import OPINION_SCHEMA
from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.model.verdicts import verdict_table
from gradebook.rubrics.prompts.preference import settle
from gradebook.rubrics.prompts.reply_parser import is_quoted
from gradebook.tasks.judging.opinions.parts import Scale, combine_parts
from gradebook.tasks.judging.replies.list_question import ListAnswer
from gradebook.tasks.judging.settings.panels import Judge, Opinion, member_names
from gradebook.tasks.planning.preferences import (
    PREFERENCE_SCALE,
    AnswerPair,
    PreferenceVote,
    preference_opinions,
    read_pairs,
)
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
_MIRRORED: Scale = {level: 1.0 - PREFERENCE_SCALE[level] for level in (BETTER, SAME, WORSE)}


@dataclass(frozen=True, slots=True)
class _Shown:
    """Votes on one order, combined. level: None if they have none; vote: the first with the level, or a lost one."""

    level: str | None
    vote: PreferenceVote

    @property
    def answer(self) -> ListAnswer | None:
        return self.vote.said


@dataclass(frozen=True, slots=True)
class _Compared:
    """One pair. votes: with the output shown first and second; shown: each combined, none if nothing was asked."""

    pair: AnswerPair
    votes: tuple[dict[Opinion, PreferenceVote], dict[Opinion, PreferenceVote]] = field(default_factory=lambda: ({}, {}))
    shown: list[_Shown] = field(default_factory=list)

    @property
    def levels(self) -> tuple[str | None, str | None]:
        """Level of the output in each order."""
        first, second = (each.level for each in self.shown) if self.shown else (None, None)
        return first, second

    @property
    def level(self) -> str | None:
        """Level of the output, if both orders have one."""
        return SAME if self.pair.is_same else settle(*self.levels)

    @property
    def reason(self) -> str | None:
        """Why there is no level: no pair, or an order without a usable reply."""
        if self.pair.reason is not None or self.level is not None:
            return self.pair.reason
        return next(each.vote.reason or "no_reply" for each in self.shown if each.level is None)

    @property
    def request_key(self) -> str | None:
        return self.shown[0].vote.request_key if self.shown else None

    @property
    def words(self) -> str | None:
        """Rationale of each order, and the votes if there are several."""
        if self.level is None or not self.shown:
            return _SAME_TEXT if self.pair.is_same else None
        lines = []
        for shown, votes, place in zip(self.shown, self.votes, ("first", "second"), strict=True):
            text = shown.answer.text if shown.answer else ""
            counts = Counter(vote.level or "no level" for vote in votes.values())
            many = f" ({', '.join(f'{count} {level}' for level, count in counts.items())})" if len(votes) > 1 else ""
            lines.append(f"shown {place}: {shown.level}{many}: {text}")
        return "\n".join(lines)

    @property
    def evidence(self) -> str | None:
        """Quotes from the output itself, as a JSON list; None without any."""
        given = [each.answer.evidence for each in self.shown if each.answer and each.answer.evidence]
        quotes = dict.fromkeys(quote for text in given for quote in json.loads(text))
        own = [quote for quote in quotes if is_quoted([quote], self.pair.case.output)]
        return json.dumps(own, ensure_ascii=False) if own else None


def score_preferences(
    folder: RunFolder, criterion: Criterion, shard: str, shard_index: int, judges: ListJudges
) -> pa.Table:
    """Compare a shard's outputs with the answers of its plan: `VERDICT_SCHEMA`, one row per output, in its order.

    Writes the preferences to the run's folder, as `PREFERENCE_SCHEMA`, and, where there are several votes, what each
    comes to, as `OPINION_SCHEMA`. Replies in the ledger are not asked for again. Raises as `JudgingSession.ask`;
    replies until then are in the journal.
    """
    judge, opinions = judges.judge, preference_opinions(judges.judge, criterion.id)
    compared = [_Compared(pair) for pair in read_pairs(folder, criterion.id, shard, shard_index)]
    asked = [each for each in compared if each.pair.is_asked]
    lists = [one for each in asked for one in each.pair.lists(criterion, each.votes)]
    judges.ask_votes(criterion.id, PREFERENCE_SCALE, lists, opinions)
    for place in (0, 1):
        combined = _combine(judge, [each.votes[place] for each in asked])
        for each, shown in zip(asked, combined, strict=True):
            each.shown.append(shown)
    judges.timing.row_count = len(compared)
    rows = pa.Table.from_pylist(_rows(folder.run_id, criterion.id, compared), schema=PREFERENCE_SCHEMA)
    write_parquet(folder.detail_file("judged_preferences", criterion.id, shard_index), rows)
    if len(opinions) > 1:
        votes = _opinions(folder.run_id, criterion.id, judge, asked)
        write_parquet(folder.detail_file("opinions", criterion.id, shard_index), votes)
    return _verdicts(folder.run_id, criterion, compared)


def _combine(judge: Judge, votes: Sequence[Mapping[Opinion, PreferenceVote]]) -> list[_Shown]:
    """Combine the votes on each pair in one order; an even number that is split in the middle is a tie.

    Votes combine to their lower median, which would favour the other answer: so it has to be the upper one too.
    """
    both = (combine_parts(judge, scale, votes) for scale in (PREFERENCE_SCALE, _MIRRORED))
    return [_Shown(settle(low.level, high.level), low) for low, high in zip(*both, strict=True)]


def _rows(run_id: str, criterion_id: str, compared: Sequence[_Compared]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for each in compared:
        if each.pair.reason is not None:
            continue
        place = {"run_id": run_id, "output_id": each.pair.output_id, "criterion_id": criterion_id}
        first, second = each.levels
        told = {"level_id": each.level, "shown_first": first, "shown_second": second}
        names = ("request_key_first", "request_key_second")
        keys = {name: shown.vote.request_key for name, shown in zip(names, each.shown, strict=False)}
        rows.append(place | {"other_output_id": each.pair.other_output_id} | told | keys)
    return rows


def _opinions(run_id: str, criterion_id: str, judge: Judge, asked: Sequence[_Compared]) -> pa.Table:
    """Level of each pair by each vote alone, as `OPINION_SCHEMA`."""
    rows, names = [], member_names(judge)
    for each in asked:
        for opinion, first in each.votes[0].items():
            second = each.votes[1][opinion]
            level = settle(first.level, second.level)
            rows.append(
                {
                    "run_id": run_id,
                    "output_id": each.pair.output_id,
                    "criterion_id": criterion_id,
                    "judge": names[opinion.judge_index],
                    "replicate": opinion.replicate,
                    "is_swapped": False,
                    "request_key": first.request_key,
                    "status": "unscored" if level is None else "scored",
                    "level_id": level,
                    "score": None if level is None else PREFERENCE_SCALE[level],
                    "reason": None if level is not None else first.reason or second.reason,
                }
            )
    return pa.Table.from_pylist(rows, schema=OPINION_SCHEMA)


def _verdicts(run_id: str, criterion: Criterion, compared: Sequence[_Compared]) -> pa.Table:
    levels = [each.level for each in compared]
    return verdict_table(
        run_id,
        criterion,
        pa.array([each.pair.output_id for each in compared], pa.string()),
        pa.array(levels, pa.string()),
        pa.array([None if level is None else PREFERENCE_SCALE[level] for level in levels], pa.float64()),
        reasons=pa.array([each.reason for each in compared], pa.string()),
        evidence=pa.array([each.evidence for each in compared], pa.string()),
        rationales=pa.array([each.words for each in compared], pa.string()),
        request_keys=pa.array([each.request_key for each in compared], pa.string()),
    )
