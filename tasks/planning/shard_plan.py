"""Plan files of a shard: the votes wanted from the judges, and the ledger's answers to them."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gradebook.rubrics.model.rubric import Criterion, Rubric
from gradebook.rubrics.prompts.chat import shown_prompt
from gradebook.rubrics.prompts.prompt import Case, PromptStyle, case_digest, request_key
from gradebook.tasks.datasets.case_criteria import CASE_CRITERIA, own_criteria
from gradebook.tasks.judging.money.prices import prompt_bytes
from gradebook.tasks.judging.opinions.cascade import foresee_needed
from gradebook.tasks.judging.opinions.rows import rows_of
from gradebook.tasks.judging.replies.batched_criteria import PackedQuestion, asked_digest, packing_of, packs_of
from gradebook.tasks.judging.replies.question import Question
from gradebook.tasks.judging.settings.panels import (
    CascadeSettings,
    Judge,
    Opinion,
    asked_as,
    drawn_rows,
    style_of,
    wanted_opinions,
)
from gradebook.tasks.lake.sql import query
from gradebook.tasks.planning.cases import media_bytes
from gradebook.tasks.planning.request_counts import COUNTED_SCHEMA, Tallies, Tally, count_asked
from gradebook.tasks.ratings.run_ratings import rated_outputs
from gradebook.tasks.system.files import replaced_file
from gradebook.tasks.workspace.folder import RunFolder

_PLACE = ("output_id", "criterion_id", "replicate", "is_swapped", "request_key")


def shard_plan_files(folder: RunFolder, rubric: Rubric, shard_index: int) -> list[Path]:
    """Existing plan files of a shard: the rubric's judged criteria, then the per-case criteria."""
    names = [criterion.id for criterion in rubric.judged_criteria]
    files = [folder.plan_file(name, shard_index) for name in (*names, CASE_CRITERIA)]
    return [file for file in files if file.exists()]


def open_keys(folder: RunFolder, rubric: Rubric, judge_index: int, packing: int) -> Iterator[str]:
    """Request keys of a run's questions to one judge, see `asked_keys`; possibly with duplicates."""
    files: dict[str, list[Path]] = {}
    for file in sorted(folder.plan_folder.rglob("*.parquet")):
        files.setdefault(file.name, []).append(file)  # a shard's files have the same name under each criterion
    for of_shard in files.values():
        planned = pa.concat_tables(pq.read_table(file, columns=[*_PLACE, "judge_index", "status"]) for file in of_shard)
        mine = planned.filter(pc.equal(planned.column("judge_index"), judge_index))
        yield from asked_keys(mine, pc.is_null(mine.column("status")), rubric, packing)


def asked_keys(planned: pa.Table, is_open: pa.ChunkedArray, rubric: Rubric, packing: int) -> list[str]:
    """Request keys of the open rows, and of rows in the same request: batched criteria are asked whole.

    planned: one judge's rows over a shard, of all criteria. is_open: (row,). packing: criteria per request.
    """
    if packing > 1:
        named = pc.unique(planned.column("criterion_id")).to_pylist()
        batchable = [criterion for criterion in rubric.judged_criteria if criterion.id in named]
        first = {each.id: pack[0].id for pack in packs_of(batchable, packing) for each in pack}
        places = pc.index_in(planned.column("criterion_id"), pa.array(list(first), pa.string()))
        packs = pc.coalesce(pa.array(list(first.values()), pa.string()).take(places), planned.column("criterion_id"))
        opinions = [planned.column(name).cast(pa.string()) for name in ("replicate", "is_swapped")]
        requests = pc.binary_join_element_wise(planned.column("output_id"), packs, *opinions, " ")
        is_open = pc.is_in(requests, pc.unique(requests.filter(is_open)))
    keys: list[str] = planned.column("request_key").filter(is_open).to_pylist()
    return keys


_WANTED_SCHEMA = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in ("output_id", "criterion_id", "request_key")),
        pa.field("judge_index", pa.int32()),
        pa.field("replicate", pa.int32()),
        pa.field("is_swapped", pa.bool_()),
        pa.field("prompt_bytes", pa.int64()),  # of the whole request; not in the plan's file
    ]
)
Pack = tuple[Criterion, ...]
Rated = Mapping[str, frozenset[str]]  # outputs that people scored, by criterion


@dataclass(frozen=True, slots=True)
class ShardCases:
    """Cases of a shard, as a plan needs them. All lists: (output,). heard: the same with the sounds of transcripts."""

    output_ids: list[str]
    digests: list[str]
    byte_counts: list[int]
    heard: "Callable[[], ShardCases] | None" = None

    def shown_for(self, criterion: Criterion) -> "ShardCases":
        """Cases as the criterion's judge gets them."""
        return self.heard() if criterion.hears_audio and self.heard else self


def read_shard(shown: Iterable[tuple[str, Case]], heard: Callable[[], ShardCases] | None = None) -> ShardCases:
    """Read a shard's cases, as shown to a judge."""
    cases = ShardCases([], [], [], heard)
    for output_id, case in shown:
        cases.output_ids.append(output_id)
        cases.digests.append(case_digest(case))
        cases.byte_counts.append(case_bytes(case))
    return cases


def case_bytes(case: Case) -> int:
    """Bytes of a case in a request: JSON within JSON."""
    shown = shown_prompt(case.prompt)
    prompt = json.dumps(shown, ensure_ascii=False) if isinstance(shown, list) else shown
    texts = [text for text in (prompt, case.output, case.reference, *case.context) if text]
    return len(orjson.dumps(orjson.dumps(texts).decode())) + media_bytes(case)


@dataclass(slots=True)
class _Wanted:
    """Wanted judgments of a shard, vote by vote, as columns."""

    columns: dict[str, list[Any]] = field(default_factory=lambda: {name: [] for name in _WANTED_SCHEMA.names})
    opinions: dict[Opinion, None] = field(default_factory=dict)

    def add(
        self, criterion_id: str, opinion: Opinion, output_ids: list[str], keys: list[str], byte_counts: list[int]
    ) -> None:
        """Add one vote on one criterion of some outputs."""
        self.opinions[opinion] = None
        self.columns["output_id"] += output_ids
        self.columns["request_key"] += keys
        self.columns["prompt_bytes"] += byte_counts
        same = {
            "criterion_id": criterion_id,
            "judge_index": opinion.judge_index,
            "replicate": opinion.replicate,
            "is_swapped": opinion.is_swapped,
        }
        for name, value in same.items():
            self.columns[name] += [value] * len(keys)


class ShardPlanner:
    """Writer of a run's plan files, shard by shard, with counts. tallies: by criterion, then by vote."""

    def __init__(self, ledger: duckdb.DuckDBPyConnection, folder: RunFolder, judge: Judge) -> None:
        self.tallies: dict[str, Tallies] = {}
        self._ledger, self._folder, self._judge = ledger, folder, judge
        opinions = wanted_opinions(judge)
        self._digests = {opinion: asked_as(judge, opinion).judge_digest for opinion in opinions}
        self._styles = {opinion: style_of(judge, opinion) for opinion in opinions}
        self._packings = {opinion: packing_of(asked_as(judge, opinion)) for opinion in opinions}

    def plan(self, judged: Sequence[Criterion], cases: ShardCases, shard_index: int) -> None:
        """Plan the rubric's judged criteria."""
        planned: dict[Opinion, dict[str, pa.Table]] = {}
        rated = {each.id: rated_outputs(each, cases.output_ids, self._folder.ratings_file) for each in judged}
        for criterion in judged:
            wanted = _Wanted()
            self._want(wanted, criterion, judged, cases, range(len(cases.output_ids)), rated)
            counted = self._write(wanted, criterion.id, shard_index)
            for opinion in wanted.opinions:
                planned.setdefault(opinion, {})[criterion.id] = rows_of(counted, opinion)
        for opinion, tables in planned.items():
            batchable = [criterion for criterion in judged if criterion.id in tables]
            for pack in packs_of(batchable, self._packings[opinion]):
                self._count(opinion, [(criterion.id, tables[criterion.id]) for criterion in pack])

    def plan_own(self, cases: ShardCases, shard_index: int) -> None:
        """Plan the judged per-case criteria."""
        wanted = _Wanted()
        for own in own_criteria(self._folder, shard_index, "judge"):
            self._want(wanted, own.criterion, [own.criterion], cases, own.row_indices.to_pylist())
        if wanted.opinions:
            counted = self._write(wanted, CASE_CRITERIA, shard_index)
            for opinion in wanted.opinions:
                self._count(opinion, [(CASE_CRITERIA, rows_of(counted, opinion))])

    def _want(
        self,
        wanted: _Wanted,
        criterion: Criterion,
        judged: Sequence[Criterion],
        cases: ShardCases,
        rows: Sequence[int],
        rated: Rated | None = None,
    ) -> None:
        """Add the votes on one criterion.

        judged: criteria that may share its request, itself included. rated: outputs that people scored.
        """
        overheads: dict[tuple[int, PromptStyle], int] = {}
        cases = cases.shown_for(criterion)
        for opinion in wanted_opinions(self._judge, criterion.id):
            skipped = self._rated_outputs(criterion, opinion, judged, rated) if rated else frozenset()
            unrated = [row for row in rows if cases.output_ids[row] not in skipped] if skipped else rows
            drawn = drawn_rows(self._judge, opinion, cases.output_ids, unrated)
            packing, batchable = self._packings[opinion], self._batchable(opinion, judged)
            digest, asked = self._digests[opinion], asked_digest(criterion, batchable, packing)
            keys = [request_key(digest, asked, cases.digests[row], opinion.replicate) for row in drawn]
            output_ids = [cases.output_ids[row] for row in drawn]
            shape = (opinion.judge_index, self._styles[opinion])
            if shape not in overheads:
                (pack,) = (pack for pack in packs_of(batchable, packing) if criterion in pack)
                overheads[shape] = _prompt_overhead(pack, self._styles[opinion], is_packed=packing > 1)
            byte_counts = [cases.byte_counts[row] + overheads[shape] for row in drawn]
            wanted.add(criterion.id, opinion, output_ids, keys, byte_counts)

    def _batchable(self, opinion: Opinion, judged: Sequence[Criterion]) -> list[Criterion]:
        return [each for each in judged if opinion in wanted_opinions(self._judge, each.id)]

    def _rated_outputs(
        self, criterion: Criterion, opinion: Opinion, judged: Sequence[Criterion], rated: Rated
    ) -> frozenset[str]:
        """Outputs to skip for this opinion because people already rated every criterion in its request.

        The judges of a cascade skip the same outputs, as the second takes a missing answer of the first for doubt. If
        one of them batches criteria, these are the outputs that people rated on everything, as the batches of the two
        may differ.
        """
        if isinstance(self._judge, CascadeSettings) and max(self._packings.values()) > 1:
            return frozenset.intersection(*(rated[each.id] for each in judged))
        packing = self._packings[opinion]
        packs = packs_of(self._batchable(opinion, judged), packing)
        if any(len(pack) < packing for pack in packs[:-1]):
            return frozenset()  # the remaining criteria of an output would be batched differently than planned
        (own,) = (pack for pack in packs if criterion in pack)
        return frozenset.intersection(*(rated[each.id] for each in own))

    def _write(self, wanted: _Wanted, name: str, shard_index: int) -> pa.Table:
        """Write a plan file; returns the columns to count."""
        planned = _join(self._ledger, pa.table(wanted.columns, schema=_WANTED_SCHEMA))
        _write_file(planned.drop_columns("prompt_bytes"), self._folder.plan_file(name, shard_index))
        is_cascade = isinstance(self._judge, CascadeSettings)
        is_needed = foresee_needed(self._judge, planned) if is_cascade else pa.repeat(True, planned.num_rows)
        return planned.append_column("is_needed", is_needed).select(COUNTED_SCHEMA.names)

    def _count(self, opinion: Opinion, pack: Sequence[tuple[str, pa.Table]]) -> None:
        """Count one vote on batched criteria, by their names in the plan."""
        surely, at_most = count_asked([rows for _, rows in pack])
        for place, (name, rows) in enumerate(pack):
            tally = self.tallies.setdefault(name, {}).setdefault(opinion, Tally())
            tally.add_rows(rows)
            tally.add_asked(surely, at_most, place, len(pack))


def _join(ledger: duckdb.DuckDBPyConnection, wanted: pa.Table) -> pa.Table:
    """Join the wanted keys with the ledger; the earliest judgment of a key is always the one used."""
    ledger.register("wanted_keys", wanted)
    planned = ledger.execute(query("planning/planned_questions")).to_arrow_table()
    ledger.unregister("wanted_keys")
    return planned


def _write_file(planned: pa.Table, path: Path) -> None:
    with replaced_file(path) as temporary:
        pq.write_table(planned, temporary, compression="zstd")


def _prompt_overhead(pack: Pack, style: PromptStyle, *, is_packed: bool) -> int:
    """Bytes of a request batchables the case: the instructions, the criteria and the reply's schema."""
    questions = tuple(Question("", criterion, Case("", ""), "0" * 32, style=style) for criterion in pack)
    request = (PackedQuestion(questions) if is_packed else questions[0]).request()
    return prompt_bytes(request.messages, request.schema)
