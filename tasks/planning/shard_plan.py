"""Plan files of a shard: the votes wanted from the judges, and the ledger's answers to them."""

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, groupby
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gradebook.rubrics.model.rubric import Criterion, Rubric
from gradebook.rubrics.prompts.chat import shown_prompt
from gradebook.rubrics.prompts.decisions import render_state, typed_question
from gradebook.rubrics.prompts.prompt import (
    Case,
    PromptStyle,
    View,
    case_digest,
    request_key,
    template_of,
    view_of,
    without_template,
)
from gradebook.rubrics.prompts.trajectory import Trajectory
from gradebook.tasks.datasets.case_criteria import CASE_CRITERIA, judged_names, own_criteria
from gradebook.tasks.judging.opinions.rows import predict_needed, rows_of
from gradebook.tasks.judging.prices import prompt_bytes
from gradebook.tasks.judging.replies.batched_criteria import PackedQuestion, asked_digest, packs_of
from gradebook.tasks.judging.replies.question import Question
from gradebook.tasks.judging.settings.judge import Judge, Opinion, Packing
from gradebook.tasks.lake.sql import query
from gradebook.tasks.planning.applying import left_out_ids
from gradebook.tasks.planning.cases import media_bytes
from gradebook.tasks.planning.estimates import COUNTED_SCHEMA, Tallies, Tally, count_asked, count_typed
from gradebook.tasks.ratings.run_ratings import rated_outputs
from gradebook.tasks.system.files import PARQUET_SETTINGS, replaced_file
from gradebook.tasks.workspace.folder import RunFolder

_ROW_COLUMNS = ("output_id", "criterion_id", "replicate", "is_swapped", "request_key")


def shard_plan_files(folder: RunFolder, rubric: Rubric, shard_index: int) -> list[Path]:
    """Existing plan files of a shard: the rubric's judged criteria, then the per-case criteria."""
    files = [folder.plan_file(name, shard_index) for name in judged_names(rubric)]
    return [file for file in files if file.exists()]


def open_keys(folder: RunFolder, rubric: Rubric, judge_index: int, packing: Packing) -> Iterator[str]:
    """Request keys of a run's questions to one judge, see `asked_keys`; possibly with duplicates."""
    for _, of_shard in groupby(folder.plan_files(judged_names(rubric)), lambda file: file.name):
        planned = pa.concat_tables(
            pq.read_table(file, columns=[*_ROW_COLUMNS, "judge_index", "status"]) for file in of_shard
        )
        mine = planned.filter(pc.equal(planned.column("judge_index"), judge_index))
        yield from asked_keys(mine, pc.is_null(mine.column("status")), rubric, packing)


def asked_keys(planned: pa.Table, is_open: pa.ChunkedArray, rubric: Rubric, packing: Packing) -> list[str]:
    """Request keys of the open rows, and of rows in the same request: batched criteria are asked whole.

    planned: one judge's rows over a shard, of all criteria. is_open: (row,).
    """
    if packing.is_packed:
        criterion_ids = pc.unique(planned.column("criterion_id")).to_pylist()
        batchable = [criterion for criterion in rubric.judged_criteria if criterion.id in criterion_ids]
        first_ids = {criterion.id: pack[0].id for pack in packs_of(batchable, packing) for criterion in pack}
        indices = pc.index_in(planned.column("criterion_id"), pa.array(list(first_ids), pa.string()))
        packs = pc.coalesce(
            pa.array(list(first_ids.values()), pa.string()).take(indices), planned.column("criterion_id")
        )
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
        # not in the plan's file: bytes of the whole request, and of its typed questions
        pa.field("prompt_bytes", pa.int64()),
        pa.field("question_bytes", pa.int64()),
    ]
)
ROWS_JOINED = 100_000  # rows joined with the ledger at once: each join scans the ledger's keys
Pack = tuple[Criterion, ...]
Rated = Mapping[str, frozenset[str]]  # outputs that people scored, by criterion


ANSWER = (View(),)


@dataclass(frozen=True, slots=True)
class ShardCases:
    """Cases of a shard, as a plan needs them. All lists: (output,). digests, byte_counts: by the view of a criterion.

    shortened_count: shortened trajectories. heard: the same cases with the sounds of transcripts.
    """

    output_ids: list[str]
    digests: Mapping[View, list[str]]
    byte_counts: Mapping[View, list[int]]
    shortened_count: int = 0
    heard: "Callable[[], ShardCases] | None" = None

    def shown_for(self, criterion: Criterion) -> "ShardCases":
        """Cases as the criterion's judge gets them."""
        return self.heard() if criterion.hears_audio and self.heard else self


def read_shard(cases: Iterable[tuple[str, Case]], views: Collection[View] = ANSWER) -> ShardCases:
    """Read a shard's cases, as shown to a judge. views: views of its criteria."""
    output_ids: list[str] = []
    digests: dict[View, list[str]] = {view: [] for view in views}
    byte_counts: dict[View, list[int]] = {view: [] for view in views}
    shortened_count = 0
    for output_id, case in cases:
        output_ids.append(output_id)
        shortened_count += bool(case.trajectory and case.trajectory.left_out)
        for view in views:
            seen_case = case.seen(view)
            digests[view].append(case_digest(seen_case))
            byte_counts[view].append(case_bytes(seen_case))
    return ShardCases(output_ids, digests, byte_counts, shortened_count)


def case_bytes(case: Case) -> int:
    """Bytes of a case in a request: JSON within JSON."""
    prompt_shown = shown_prompt(case.prompt)
    prompt = json.dumps(prompt_shown, ensure_ascii=False) if isinstance(prompt_shown, list) else prompt_shown
    steps = json.dumps(case.steps.shown, ensure_ascii=False) if case.steps else None
    output = None if case.sees == "steps" else case.output
    texts = [text for text in (prompt, output, case.reference, *case.context, steps) if text]
    return len(orjson.dumps(orjson.dumps(texts).decode())) + media_bytes(case)


@dataclass(slots=True)
class _Wanted:
    """Judgments that a shard needs, vote by vote, as columns."""

    columns: dict[str, list[Any]] = field(default_factory=lambda: {name: [] for name in _WANTED_SCHEMA.names})
    opinions: dict[Opinion, None] = field(default_factory=dict)

    def add(
        self,
        criterion_id: str,
        opinion: Opinion,
        output_ids: list[str],
        keys: list[str],
        byte_counts: list[int],
        question_bytes: int,
    ) -> None:
        """Add one vote on one criterion of some outputs."""
        self.opinions[opinion] = None
        self.columns["output_id"] += output_ids
        self.columns["request_key"] += keys
        self.columns["prompt_bytes"] += byte_counts
        constants = {
            "criterion_id": criterion_id,
            "judge_index": opinion.judge_index,
            "replicate": opinion.replicate,
            "is_swapped": opinion.is_swapped,
            "question_bytes": question_bytes,
        }
        for name, value in constants.items():
            self.columns[name] += [value] * len(keys)


class _Batches:
    """Batches of criteria that share a request, by opinion; and the outputs that people already rated on them."""

    def __init__(
        self, judge: Judge, judged: Sequence[Criterion], packings: Mapping[Opinion, Packing], rated: Rated
    ) -> None:
        batchable: dict[Opinion, list[Criterion]] = defaultdict(list)
        for criterion in judged:
            for opinion in judge.votes(criterion.id):
                batchable[opinion].append(criterion)
        self.of_opinion = {opinion: packs_of(criteria, packings[opinion]) for opinion, criteria in batchable.items()}
        self._packs = {
            opinion: {criterion.id: pack for pack in packs for criterion in pack}
            for opinion, packs in self.of_opinion.items()
        }
        self._packings = packings
        self._is_whole = judge.when is not None and any(packing.is_packed for packing in packings.values())
        self._rated_on_all = frozenset.intersection(*rated.values()) if rated else frozenset()
        self._rated = rated
        # With a shorter batch before the last, the remaining criteria of an output would be batched differently.
        self._is_even = {
            opinion: all(len(pack) == packings[opinion].size for pack in packs[:-1])
            for opinion, packs in self.of_opinion.items()
        }

    def pack(self, criterion: Criterion, opinion: Opinion) -> Pack:
        """Criteria that share a request with this one, itself included."""
        return self._packs[opinion][criterion.id] if self._packings[opinion].is_packed else (criterion,)

    def rated_outputs(self, criterion: Criterion, opinion: Opinion) -> frozenset[str]:
        """Outputs to skip for this opinion because people already rated every criterion in its request.

        The judges of a cascade skip the same outputs, as a missing answer of the first counts as doubt. If one of them
        batches criteria, only outputs that people rated on all criteria are skipped, as their batches may differ.
        """
        if not self._rated or self._is_whole:
            return self._rated_on_all
        if self._packings[opinion].is_packed and not self._is_even[opinion]:
            return frozenset()
        return frozenset.intersection(*(self._rated[member.id] for member in self.pack(criterion, opinion)))


class ShardPlanner:
    """Writer of a run's plan files, shard by shard, with counts. tallies: by criterion, then by vote."""

    def __init__(self, ledger: duckdb.DuckDBPyConnection, folder: RunFolder, judge: Judge) -> None:
        self.tallies: dict[str, Tallies] = {}
        self._ledger, self._folder, self._judge = ledger, folder, judge
        opinions = judge.votes()
        self._digests = {opinion: judge.asked_as(opinion).judge_digest for opinion in opinions}
        self._styles = {opinion: judge.style_of(opinion) for opinion in opinions}
        self._packings = {opinion: judge.asked_as(opinion).packing_rule for opinion in opinions}

    def plan(self, judged: Sequence[Criterion], cases: ShardCases, shard_index: int) -> None:
        """Plan the rubric's judged criteria."""
        planned: dict[Opinion, dict[str, pa.Table]] = {}
        rated = {
            criterion.id: rated_outputs(criterion, cases.output_ids, self._folder.ratings_file) for criterion in judged
        }
        batches = _Batches(self._judge, judged, self._packings, rated)
        size = max(ROWS_JOINED // max(len(cases.output_ids), 1), 1)
        for group in (judged[first : first + size] for first in range(0, len(judged), size)):
            votes = _Wanted()
            for criterion in group:
                left_out = left_out_ids(self._folder, criterion, shard_index)
                rows = [row for row, output_id in enumerate(cases.output_ids) if output_id not in left_out]
                self._add_votes(votes, criterion, batches, cases, rows)
            for criterion, rows in zip(group, _by_criterion(_join(self._ledger, votes), group), strict=True):
                counted_rows = self._write(rows, criterion.id, shard_index, judged)
                for opinion in self._judge.votes(criterion.id):
                    planned.setdefault(opinion, {})[criterion.id] = rows_of(counted_rows, opinion)
        for opinion, tables in planned.items():
            for pack in batches.of_opinion[opinion]:
                self._count(opinion, [(criterion.id, tables[criterion.id]) for criterion in pack])

    def plan_own(self, cases: ShardCases, shard_index: int) -> None:
        """Plan the judged per-case criteria."""
        votes = _Wanted()
        for own_criterion in own_criteria(self._folder, shard_index, "judge"):
            single = _Batches(self._judge, [own_criterion.criterion], self._packings, {})
            self._add_votes(votes, own_criterion.criterion, single, cases, own_criterion.row_indices.to_pylist())
        if votes.opinions:
            counted_rows = self._write(_join(self._ledger, votes), CASE_CRITERIA, shard_index)
            for opinion in votes.opinions:
                self._count(opinion, [(CASE_CRITERIA, rows_of(counted_rows, opinion))])

    def _add_votes(
        self, wanted: _Wanted, criterion: Criterion, batches: _Batches, cases: ShardCases, rows: Sequence[int]
    ) -> None:
        """Add the votes on one criterion."""
        overheads: dict[tuple[int, PromptStyle], int] = {}
        cases = cases.shown_for(criterion)
        for opinion in self._judge.votes(criterion.id):
            skipped = batches.rated_outputs(criterion, opinion)
            unrated = [row for row in rows if cases.output_ids[row] not in skipped] if skipped else rows
            drawn_rows = self._judge.drawn_rows(opinion, cases.output_ids, unrated)
            pack, packing = batches.pack(criterion, opinion), self._packings[opinion]
            view = view_of(criterion)
            digest, criteria_digest = self._digests[opinion], asked_digest(criterion, pack, packing)
            keys = [
                request_key(digest, criteria_digest, cases.digests[view][row], opinion.replicate) for row in drawn_rows
            ]
            output_ids = [cases.output_ids[row] for row in drawn_rows]
            shape = (opinion.judge_index, self._styles[opinion])
            if shape not in overheads:
                overheads[shape] = _prompt_overhead(pack, self._styles[opinion], packing)
            own_bytes = sum(map(_question_bytes, pack)) if packing.is_typed else 0
            byte_counts = [cases.byte_counts[view][row] + overheads[shape] + own_bytes for row in drawn_rows]
            wanted.add(criterion.id, opinion, output_ids, keys, byte_counts, own_bytes)

    def _write(self, planned: pa.Table, name: str, shard_index: int, criteria: Sequence[Criterion] = ()) -> pa.Table:
        """Write a plan file; returns the columns to count. criteria: the rubric's, if the file is about them."""
        _write_file(planned.drop_columns(["prompt_bytes", "question_bytes"]), self._folder.plan_file(name, shard_index))
        is_needed = predict_needed(self._judge, planned, criteria)
        return planned.append_column("is_needed", is_needed).select(COUNTED_SCHEMA.names)

    def _count(self, opinion: Opinion, pack: Sequence[tuple[str, pa.Table]]) -> None:
        """Count one vote on batched criteria, by their names in the plan."""
        packing = self._packings[opinion]
        if packing.is_typed and not packing.is_whole:
            counts = count_typed([rows for _, rows in pack], packing.size)
            for (name, rows), typed_counts in zip(pack, counts, strict=True):
                tally = self.tallies.setdefault(name, {}).setdefault(opinion, Tally())
                tally.add_rows(rows)
                tally.add_typed(typed_counts)
            return
        surely, at_most = count_asked([rows for _, rows in pack])
        for position, (name, rows) in enumerate(pack):
            tally = self.tallies.setdefault(name, {}).setdefault(opinion, Tally())
            tally.add_rows(rows)
            tally.add_asked(surely, at_most, position, len(pack))


def _join(ledger: duckdb.DuckDBPyConnection, wanted: _Wanted) -> pa.Table:
    """Join the wanted keys with the ledger; the earliest judgment of a key is always the one used."""
    ledger.register("wanted_keys", pa.table(wanted.columns, schema=_WANTED_SCHEMA))
    planned = ledger.execute(query("planning/planned_questions")).to_arrow_table()
    ledger.unregister("wanted_keys")
    return planned


def _by_criterion(planned: pa.Table, criteria: Sequence[Criterion]) -> Iterator[pa.Table]:
    """Rows of each criterion."""
    indices = pc.index_in(planned.column("criterion_id"), pa.array([criterion.id for criterion in criteria])).to_numpy()
    rows = planned.take(np.argsort(indices, kind="stable"))
    counts = np.bincount(indices, minlength=len(criteria)).tolist()
    for end, count in zip(accumulate(counts), counts, strict=True):
        yield rows.slice(end - count, count)


def _write_file(planned: pa.Table, path: Path) -> None:
    with replaced_file(path) as temporary:
        pq.write_table(planned, temporary, **PARQUET_SETTINGS)


def _question_bytes(criterion: Criterion) -> int:
    """Bytes of a typed question."""
    return len(orjson.dumps(typed_question(criterion, "0" * 32)))


def _whole_view(criterion: Criterion) -> View:
    """View of the criterion with the whole output: no field fits an empty case."""
    return View(view_of(criterion).sees)


def _prompt_overhead(pack: Pack, style: PromptStyle, packing: Packing) -> int:
    """Bytes of a request besides the case: the instructions, the criteria and the reply's schema; of typed questions
    the instructions alone.
    """
    empty = Case("", "", trajectory=Trajectory(()))
    # No template fits an empty case: its text counts as it is.
    template, plain = template_of(pack[0]) or "", [without_template(criterion) for criterion in pack]
    if packing.is_typed:
        state = render_state(empty.seen(_whole_view(pack[0])), plain[0])
        return prompt_bytes(state, None) + len(template.encode())
    questions = tuple(
        Question("", criterion, empty.seen(_whole_view(criterion)), "0" * 32, style=style) for criterion in plain
    )
    request = (PackedQuestion(questions) if packing.is_packed else questions[0]).request()
    return prompt_bytes(request.messages, request.schema) + len(template.encode())
