"""The files of a plan: the judgments that each shard wants, and what the ledger holds of them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rubrics.judging.prompt import Case, PromptStyle, case_digest, request_key
from rubrics.model import Criterion, Rubric
from tasks.case_criteria import CASE_CRITERIA, own_criteria
from tasks.cases import media_bytes
from tasks.files import replaced_file
from tasks.judging.packs import asked_digest, packing_of
from tasks.judging.panels import Judge, Opinion, asked_as, drawn_rows, style_of, wanted_opinions
from tasks.judging.prices import prompt_bytes
from tasks.judging.questions import Question
from tasks.workspace import RunFolder

_WANTED_SCHEMA = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in ("output_id", "criterion_id", "request_key")),
        pa.field("judge_index", pa.int32()),
        pa.field("replicate", pa.int32()),
        pa.field("is_swapped", pa.bool_()),
    ]
)
_PLANNED = """
with held as (
    select
        request_key,
        arg_min(
            struct_pack(status, level_id, distribution, evidence, rationale, cost_usd, paid_by := run_id),
            (asked_at, judgment_id)
        ) as judgment
    from held_judgments
    where status = 'scored' and request_key in (select request_key from wanted_keys)
    group by request_key
)

select w.*, unnest(h.judgment)
from wanted_keys as w left join held as h using (request_key)
"""


@dataclass(slots=True)
class Tally:
    """What is counted of one opinion on a criterion while shards are planned."""

    row_count: int = 0
    replayed_count: int = 0
    request_count: int = 0
    prompt_bytes: int = 0

    def add(self, row_count: int, replayed_count: int, request_count: int, question_bytes: int) -> None:
        """Count a shard. question_bytes: of all its questions, were they all to be asked."""
        self.row_count += row_count
        self.replayed_count += replayed_count
        self.request_count += request_count
        self.prompt_bytes += question_bytes * request_count // row_count if row_count else 0


Tallies = dict[Opinion, Tally]


@dataclass(frozen=True, slots=True)
class ShardCases:
    """What the plan needs of a shard. All lists: (output,)."""

    output_ids: list[str]
    digests: list[str]
    byte_counts: list[int]


def read_shard(shown: Iterable[tuple[str, Case]]) -> ShardCases:
    """Read a shard's cases, as a judge is shown them."""
    cases = ShardCases([], [], [])
    for output_id, case in shown:
        cases.output_ids.append(output_id)
        cases.digests.append(case_digest(case))
        cases.byte_counts.append(case_bytes(case))
    return cases


def case_bytes(case: Case) -> int:
    """Bytes of a case in a request: JSON within JSON."""
    texts = [text for text in (case.prompt, case.output, case.reference, *case.context) if text]
    return len(orjson.dumps(orjson.dumps(texts).decode())) + media_bytes(case)


@dataclass(slots=True)
class _Wanted:
    """The judgments wanted of a shard, an opinion after the other, column by column."""

    columns: dict[str, list[Any]] = field(default_factory=lambda: {name: [] for name in _WANTED_SCHEMA.names})
    byte_counts: dict[Opinion, int] = field(default_factory=dict)

    def add(self, criterion_id: str, opinion: Opinion, output_ids: list[str], keys: list[str], byte_count: int) -> None:
        """Want one opinion on one criterion of some outputs."""
        self.columns["output_id"] += output_ids
        self.columns["request_key"] += keys
        same = {
            "criterion_id": criterion_id,
            "judge_index": opinion.judge_index,
            "replicate": opinion.replicate,
            "is_swapped": opinion.is_swapped,
        }
        for name, value in same.items():
            self.columns[name] += [value] * len(keys)
        self.byte_counts[opinion] = self.byte_counts.get(opinion, 0) + byte_count


class ShardPlanner:
    """Writes the plan files of a run, a shard at a time, and counts. tallies: by criterion, then by opinion."""

    def __init__(self, ledger: duckdb.DuckDBPyConnection, folder: RunFolder, judge: Judge) -> None:
        self.tallies: dict[str, Tallies] = {}
        self._ledger, self._folder, self._judge = ledger, folder, judge
        opinions = wanted_opinions(judge)
        self._digests = {opinion: asked_as(judge, opinion).judge_digest for opinion in opinions}
        self._styles = {opinion: style_of(judge, opinion) for opinion in opinions}

    def plan(self, judged: Sequence[Criterion], cases: ShardCases, shard_index: int) -> None:
        """Plan the rubric's judged criteria."""
        rows = range(len(cases.output_ids))
        for criterion in judged:
            wanted = _Wanted()
            self._want(wanted, criterion, judged, cases, rows)
            self._write(wanted, criterion.id, shard_index)

    def plan_own(self, cases: ShardCases, shard_index: int) -> None:
        """Plan the judged ones among the criteria that the rows bring along."""
        wanted = _Wanted()
        for own in own_criteria(self._folder, shard_index, "judge"):
            self._want(wanted, own.criterion, [own.criterion], cases, own.row_indices.to_pylist())
        if wanted.byte_counts:
            self._write(wanted, CASE_CRITERIA, shard_index)

    def _want(
        self,
        wanted: _Wanted,
        criterion: Criterion,
        judged: Sequence[Criterion],
        cases: ShardCases,
        rows: Sequence[int],
    ) -> None:
        """judged: the criteria that it may share a request with, itself included."""
        overheads: dict[PromptStyle, int] = {}
        for opinion in wanted_opinions(self._judge, criterion.id):
            style = self._styles[opinion]
            overhead = overheads.get(style) or overheads.setdefault(style, _prompt_overhead(criterion, style))
            drawn = drawn_rows(self._judge, opinion, cases.output_ids, rows)
            digest, asked = self._digests[opinion], self._asked_digest(criterion, judged, opinion)
            keys = [request_key(digest, asked, cases.digests[row], opinion.replicate) for row in drawn]
            output_ids = [cases.output_ids[row] for row in drawn]
            byte_count = sum(cases.byte_counts[row] for row in drawn) + overhead * len(keys)
            wanted.add(criterion.id, opinion, output_ids, keys, byte_count)

    def _asked_digest(self, criterion: Criterion, judged: Sequence[Criterion], opinion: Opinion) -> str:
        packing = packing_of(asked_as(self._judge, opinion))
        beside = [each for each in judged if opinion in wanted_opinions(self._judge, each.id)]
        return asked_digest(criterion, beside, packing)

    def _write(self, wanted: _Wanted, name: str, shard_index: int) -> None:
        planned = _join(self._ledger, pa.table(wanted.columns, schema=_WANTED_SCHEMA))
        _write_file(planned, self._folder.plan_file(name, shard_index))
        tallies = self.tallies.setdefault(name, {})
        for opinion, byte_count in wanted.byte_counts.items():
            tallies.setdefault(opinion, Tally()).add(*_counts(rows_of(planned, opinion)), byte_count)


def shard_plan_files(folder: RunFolder, rubric: Rubric, shard_index: int) -> list[Path]:
    """The plan files of a shard that are there: of the judged criteria, then of those that rows bring along."""
    names = [criterion.id for criterion in rubric.judged_criteria]
    files = [folder.plan_file(name, shard_index) for name in (*names, CASE_CRITERIA)]
    return [file for file in files if file.exists()]


def open_keys(folder: RunFolder, judge_index: int) -> Iterator[str]:
    """The request keys that the plan of a run leaves to one of its judges; equal ones may come again."""
    for file in sorted(folder.plan_folder.rglob("*.parquet")):
        planned = pq.read_table(file, columns=["request_key", "judge_index", "status"])
        is_open = pc.and_(pc.is_null(planned.column("status")), pc.equal(planned.column("judge_index"), judge_index))
        yield from planned.column("request_key").filter(is_open).to_pylist()


def rows_of(table: pa.Table, opinion: Opinion) -> pa.Table:
    """The rows of a plan, or of whatever has its columns, that are about one opinion."""
    is_swapped = table.column("is_swapped")
    is_it = pc.and_(
        pc.and_(
            pc.equal(table.column("judge_index"), opinion.judge_index),
            pc.equal(table.column("replicate"), opinion.replicate),
        ),
        is_swapped if opinion.is_swapped else pc.invert(is_swapped),
    )
    return table if pc.all(is_it).as_py() else table.filter(is_it)


def _join(ledger: duckdb.DuckDBPyConnection, wanted: pa.Table) -> pa.Table:
    """Join the wanted keys with the ledger; the earliest judgment of a key is the one that holds, for ever."""
    ledger.register("wanted_keys", wanted)
    planned = ledger.execute(_PLANNED).to_arrow_table()
    ledger.unregister("wanted_keys")
    return planned


def _write_file(planned: pa.Table, path: Path) -> None:
    with replaced_file(path) as temporary:
        pq.write_table(planned, temporary, compression="zstd")


def _counts(planned: pa.Table) -> tuple[int, int, int]:
    """How many rows there are, how many the ledger answers, and how many requests the others take, equal ones once."""
    open_keys = planned.column("request_key").filter(pc.is_null(planned.column("status")))
    return planned.num_rows, planned.num_rows - len(open_keys), pc.count_distinct(open_keys).as_py()


def _prompt_overhead(criterion: Criterion, style: PromptStyle) -> int:
    """Bytes of a request that are not the case: the instructions, the criterion and the schema of the reply."""
    request = Question("", criterion, Case("", ""), "0" * 32, style=style).request()
    return prompt_bytes(request.messages, request.schema)
