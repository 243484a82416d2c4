"""Method `preference`: each output compared with another answer to its case, in both orders.

The other answers are those of a baseline or of another model.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import duckdb
import pyarrow as pa

from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.model.levels import BETTER, SAME, WORSE
from gradebook.rubrics.model.methods import BASELINE, PreferenceMethod
from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.model.verdicts import OPINION_SCHEMA, verdict_table
from gradebook.rubrics.prompts.preference import settle
from gradebook.rubrics.prompts.reply_parser import is_quoted
from gradebook.tasks.comparing.baseline import paired_groups
from gradebook.tasks.judging.opinions.parts import Scale, combine_parts
from gradebook.tasks.judging.replies.list_questions import ListAnswer
from gradebook.tasks.judging.settings.judge import Judge, Opinion
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect_up_to_date
from gradebook.tasks.lake.rows import Row, model_name, read_rows
from gradebook.tasks.lake.sql import file_list, open_database, query, quoted
from gradebook.tasks.methods.list_answers import ListJudges, ListMethod
from gradebook.tasks.methods.method import ScoringSetup
from gradebook.tasks.planning.applying import applied_shard
from gradebook.tasks.planning.estimates import ListCount, ListPlanner
from gradebook.tasks.planning.plan import Planning
from gradebook.tasks.planning.preferences import (
    PAIR_SCHEMA,
    PREFERENCE_SCALE,
    AnswerPair,
    PreferenceVote,
    preference_opinions,
    read_pairs,
)
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
class _OrderVotes:
    """Combined votes on a pair in one order.

    level: None without a usable vote; vote: first vote with this level, else any.
    """

    level: str | None
    vote: PreferenceVote

    @property
    def answer(self) -> ListAnswer | None:
        return self.vote.said


@dataclass(frozen=True, slots=True)
class _ComparedPair:
    """One pair.

    votes: of each order (output shown first, second); orders: votes combined by order, empty if not asked.
    """

    pair: AnswerPair
    votes: tuple[dict[Opinion, PreferenceVote], dict[Opinion, PreferenceVote]] = field(default_factory=lambda: ({}, {}))
    orders: list[_OrderVotes] = field(default_factory=list)

    @property
    def levels(self) -> tuple[str | None, str | None]:
        """Level of the output in each order."""
        first, second = (order.level for order in self.orders) if self.orders else (None, None)
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
        return next(order.vote.reason or "no_reply" for order in self.orders if order.level is None)

    @property
    def request_key(self) -> str | None:
        return self.orders[0].vote.request_key if self.orders else None

    @property
    def rationale(self) -> str | None:
        """Rationale of each order, and the votes if there are several."""
        if self.level is None or not self.orders:
            return _SAME_TEXT if self.pair.is_same else None
        lines = []
        for order, votes, position in zip(self.orders, self.votes, ("first", "second"), strict=True):
            text = order.answer.text if order.answer else ""
            counts = Counter(vote.level or "no level" for vote in votes.values())
            many = f" ({', '.join(f'{count} {level}' for level, count in counts.items())})" if len(votes) > 1 else ""
            lines.append(f"shown {position}: {order.level}{many}: {text}")
        return "\n".join(lines)

    @property
    def evidence(self) -> str | None:
        """Quotes from the output itself, as a JSON list; None without any."""
        evidence_texts = [order.answer.evidence for order in self.orders if order.answer and order.answer.evidence]
        quotes = dict.fromkeys(quote for text in evidence_texts for quote in json.loads(text))
        own_quotes = [quote for quote in quotes if is_quoted([quote], self.pair.case.output)]
        return json.dumps(own_quotes, ensure_ascii=False) if own_quotes else None


class PreferenceScoring(ListMethod):
    """Outputs compared with the answers of the plan's pairs."""

    unrecorded = "no_preferences: recorded replies hold no preferences"

    def prepare(
        self, lake: Lake | None, folder: RunFolder, criterion: Criterion, shards: Sequence[str], baseline: str | None
    ) -> None:
        """Write the pairs of answers to compare. Raises `InputError` as `write_pairs`."""
        write_pairs(lake, folder, criterion, shards, baseline)

    def count(self, planning: Planning, lists: ListPlanner, criterion: Criterion) -> dict[int, ListCount]:
        """Requests for both orders of all pairs."""
        opinions = preference_opinions(lists.judge, criterion.id)
        counts = {opinion.judge_index: ListCount() for opinion in opinions}
        for index, shard in enumerate(planning.shards_of(criterion)):
            pairs = [pair for pair in read_pairs(planning.folder, criterion.id, shard, index) if pair.is_asked]
            lists_of_pairs = [pair_list for pair in pairs for pair_list in pair.lists(criterion, ({}, {}))]
            lists.count_votes(opinions, PREFERENCE_SCALE, lists_of_pairs, counts)
        return counts

    def score_by(
        self, judges: ListJudges, setup: ScoringSetup, criterion: Criterion, shard: str, shard_index: int
    ) -> pa.Table:
        """Compare a shard's outputs with the answers of its pairs.

        Details: the preferences, as `PREFERENCE_SCHEMA`, and, for several votes, the level by each vote, as
        `OPINION_SCHEMA`.
        """
        folder, judge = setup.folder, judges.judge
        opinions = preference_opinions(judge, criterion.id)
        compared_pairs = [_ComparedPair(pair) for pair in read_pairs(folder, criterion.id, shard, shard_index)]
        asked_pairs = [compared_pair for compared_pair in compared_pairs if compared_pair.pair.is_asked]
        lists = [
            pair_list
            for compared_pair in asked_pairs
            for pair_list in compared_pair.pair.lists(criterion, compared_pair.votes)
        ]
        judges.ask_votes(criterion.id, PREFERENCE_SCALE, lists, opinions)
        for order_index in (0, 1):
            orders = _combine(judge, [compared_pair.votes[order_index] for compared_pair in asked_pairs])
            for compared_pair, order in zip(asked_pairs, orders, strict=True):
                compared_pair.orders.append(order)
        judges.timing.row_count = len(compared_pairs)
        rows = pa.Table.from_pylist(_rows(folder.run_id, criterion.id, compared_pairs), schema=PREFERENCE_SCHEMA)
        write_parquet(folder.detail_file("judged_preferences", criterion.id, shard_index), rows)
        if len(opinions) > 1:
            votes = _opinions(folder.run_id, criterion.id, judge, asked_pairs)
            write_parquet(folder.detail_file("opinions", criterion.id, shard_index), votes)
        return _verdicts(folder.run_id, criterion, compared_pairs)


def _combine(judge: Judge, votes: Sequence[Mapping[Opinion, PreferenceVote]]) -> list[_OrderVotes]:
    """Combine the votes on each pair in one order; an even number of votes that is split in the middle is a tie.

    The lower median of the votes would favour the other answer, so the upper median has to be the same level.
    """
    medians = (combine_parts(judge, scale, votes) for scale in (PREFERENCE_SCALE, _MIRRORED))
    return [_OrderVotes(settle(low.level, high.level), low) for low, high in zip(*medians, strict=True)]


def _rows(run_id: str, criterion_id: str, compared_pairs: Sequence[_ComparedPair]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for pair in compared_pairs:
        if pair.pair.reason is not None:
            continue
        identity = {"run_id": run_id, "output_id": pair.pair.output_id, "criterion_id": criterion_id}
        first, second = pair.levels
        level_columns = {"level_id": pair.level, "shown_first": first, "shown_second": second}
        names = ("request_key_first", "request_key_second")
        keys = {name: order.vote.request_key for name, order in zip(names, pair.orders, strict=False)}
        rows.append(identity | {"other_output_id": pair.pair.other_output_id} | level_columns | keys)
    return rows


def _opinions(run_id: str, criterion_id: str, judge: Judge, asked_pairs: Sequence[_ComparedPair]) -> pa.Table:
    """Level of each pair by each vote alone, as `OPINION_SCHEMA`."""
    rows, names = [], judge.member_names
    for pair in asked_pairs:
        for opinion, first in pair.votes[0].items():
            second = pair.votes[1][opinion]
            level = settle(first.level, second.level)
            rows.append(
                {
                    "run_id": run_id,
                    "output_id": pair.pair.output_id,
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


def _verdicts(run_id: str, criterion: Criterion, compared_pairs: Sequence[_ComparedPair]) -> pa.Table:
    levels = [pair.level for pair in compared_pairs]
    return verdict_table(
        run_id,
        criterion,
        pa.array([pair.pair.output_id for pair in compared_pairs], pa.string()),
        pa.array(levels, pa.string()),
        pa.array([None if level is None else PREFERENCE_SCALE[level] for level in levels], pa.float64()),
        reasons=pa.array([pair.reason for pair in compared_pairs], pa.string()),
        evidence=pa.array([pair.evidence for pair in compared_pairs], pa.string()),
        rationales=pa.array([pair.rationale for pair in compared_pairs], pa.string()),
        request_keys=pa.array([pair.request_key for pair in compared_pairs], pa.string()),
    )


MOST_NAMED = 10
_COLUMNS = "output_id, case_id, model, checkpoint, sample_index"
_GROUPS = "select distinct model, checkpoint from read_parquet({files}) order by all"
_OF_BASELINE = """
select outputs.output, scores.output_id, scores.case_id, scores.model, scores.checkpoint, scores.sample_index
from output_scores as scores
inner join outputs on scores.output_id = outputs.output_id
where scores.run_id = '{run_id}'
"""
_GROUP_SCHEMA = pa.schema(
    [pa.field(name, pa.string()) for name in ("model", "checkpoint", "other_model", "other_checkpoint")]
)


def write_pairs(
    lake: Lake | None, folder: RunFolder, criterion: Criterion, shards: Sequence[str], baseline: str | None
) -> None:
    """Write the pairs of a preference criterion to the run's folder, as `PAIR_SCHEMA`, one file per shard.

    As in a comparison, an output is paired with the one answer to its case and sample of the model that it is
    compared with. Raises `InputError` for a model that the outputs lack.
    """
    against = criterion.method_as(PreferenceMethod).against
    if against == BASELINE:
        if baseline is None or lake is None:
            raise InputError(f"{criterion.id}: method.against", BASELINE, "a run with --baseline")
        with connect_up_to_date(lake) as connection, _views(connection, _OF_BASELINE, run_id=quoted(baseline)):
            groups = [_group(own, other) for other, own in paired_groups(lake, folder.run_id, baseline, shards)]
            _write(connection, folder, criterion, shards, groups, f"the run {baseline}")
    else:
        select = f"select output, {_COLUMNS} from read_parquet({{files}})"
        with open_database() as connection, _views(connection, select, files=file_list(shards)):
            groups = _groups_of(connection, criterion.id, against, shards)
            _write(connection, folder, criterion, shards, groups, against)


@contextmanager
def _views(connection: duckdb.DuckDBPyConnection, select: str, **words: str) -> Iterator[None]:
    connection.execute(f"create or replace temp view other_outputs as {select.format(**words)}")
    try:
        yield
    finally:
        connection.execute("drop view if exists other_outputs")


def _groups_of(
    connection: duckdb.DuckDBPyConnection, criterion_id: str, against: str, shards: Sequence[str]
) -> list[Row]:
    """Every (model, checkpoint) of the outputs, paired with the checkpoints of the model to compare with."""
    groups = read_rows(connection, _GROUPS.format(files=file_list(shards)))
    other_groups = [group for group in groups if against in (group["model"], model_name(group))]
    if not other_groups:
        names = [model_name(group) for group in groups]
        more = ", ..." if len(names) > MOST_NAMED else ""
        expected = f"{BASELINE}, or a model of the outputs: {', '.join(names[:MOST_NAMED])}{more}"
        raise InputError(f"{criterion_id}: method.against", against, expected)
    return [_group(group, other) for group in groups for other in other_groups]


def _group(own: Row, other: Row) -> Row:
    return {**own, "other_model": other["model"], "other_checkpoint": other["checkpoint"]}


def _write(
    connection: duckdb.DuckDBPyConnection,
    folder: RunFolder,
    criterion: Criterion,
    shards: Sequence[str],
    groups: Sequence[Row],
    name: str,
) -> None:
    connection.register("answer_groups", pa.Table.from_pylist(list(groups), _GROUP_SCHEMA))
    for index, whole_shard in enumerate(shards):
        shard = applied_shard(folder, criterion, whole_shard, index)
        own_rows = (
            f"select file_row_number as place, {_COLUMNS} from read_parquet('{quoted(shard)}', file_row_number = true)"
        )
        connection.execute(f"create or replace temp view own_outputs as {own_rows}")
        pairs = connection.execute(query("methods/answer_pairs")).to_arrow_table()
        reasons = [_reason(count, name) for count in pairs.column("other_count").to_pylist()]
        columns = [*pairs.columns[:3], pa.array(reasons, pa.string())]
        write_parquet(folder.pairs_file(criterion.id, index), pa.table(columns, schema=PAIR_SCHEMA))
    connection.execute("drop view if exists own_outputs")
    connection.unregister("answer_groups")


def _reason(other_count: int, name: str) -> str | None:
    if other_count == 1:
        return None
    answers = f"{other_count} answers" if other_count else "no answer"
    return f"no_pair: found {answers} of {name} to the case and sample, expected one"
