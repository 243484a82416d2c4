"""The plan: which judgments are not in the ledger yet, and what asking for them will cost."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rubrics.judging.prompt import Case, case_digest, criterion_digest, render_messages, request_key
from rubrics.judgments import JUDGMENT_SCHEMA
from rubrics.model import Criterion, Rubric
from tasks.case_criteria import CASE_CRITERIA, OwnCount, case_criteria_files, own_criteria
from tasks.files import replaced_file
from tasks.judging.prices import Usage, cost_usd, find_price
from tasks.judging.settings import JudgeSettings, ReplaySettings
from tasks.lake import Lake, connect
from tasks.workspace import RunFolder

CASE_COLUMNS = ["output_id", "prompt", "output", "reference", "context"]
BYTES_PER_TOKEN = 4.0
# Where the ledger knows nothing of a criterion: evidence, a short rationale and a label.
USUAL_COMPLETION_TOKENS = 120.0


@dataclass(frozen=True, slots=True)
class CriterionPlan:
    """What one criterion will take. cost_usd: None where the price is unknown or nothing is to be paid for it."""

    criterion_id: str
    method: str
    row_count: int
    replayed_count: int = 0
    request_count: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = 0.0


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What the run will take, criterion by criterion, in the order of the rubric."""

    criteria: tuple[CriterionPlan, ...]
    unmatched_rating_count: int = 0  # ratings of the file that fit no output
    own_count: OwnCount = field(default_factory=OwnCount)  # criteria that rows bring along

    @property
    def request_count(self) -> int:
        """Requests to send."""
        return sum(criterion.request_count for criterion in self.criteria)

    @property
    def replayed_count(self) -> int:
        """Judgments that the ledger holds already."""
        return sum(criterion.replayed_count for criterion in self.criteria)

    @property
    def cost_usd(self) -> float | None:
        """Estimated dollars of the requests; None where a price is unknown."""
        costs = [criterion.cost_usd for criterion in self.criteria]
        return None if None in costs else sum(cost for cost in costs if cost is not None)


@dataclass(slots=True)
class _Tally:
    """What is counted while the shards of one criterion are planned."""

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


def plan_run(
    lake: Lake,
    folder: RunFolder,
    rubric: Rubric,
    judge: JudgeSettings | ReplaySettings | None,
    shards: tuple[str, ...],
    row_count: int,
) -> RunPlan:
    """Write a plan file for each judged criterion and shard; add up what is left to ask.

    A plan file has the columns output_id, criterion_id, request_key, and what the ledger holds for the key: status,
    level_id, evidence, rationale, cost_usd, paid_by (a run_id); null where the judgment is still to be made.
    """
    judged = [criterion for criterion in rubric.criteria if criterion.method.type == "judge"]
    own_count = sum(pq.read_metadata(file).num_rows for file in case_criteria_files(folder))
    unjudged = tuple(CriterionPlan(c.id, c.method.type, row_count) for c in rubric.criteria)
    if judge is None or not (judged or own_count):
        return RunPlan((*unjudged, CriterionPlan(CASE_CRITERIA, "", own_count)) if own_count else unjudged)
    tallies = {criterion.id: _Tally() for criterion in judged}
    own = _Tally()
    with _ledger(lake) as ledger:
        for index, shard in enumerate(shards):
            cases = _read_shard(shard)
            _plan_shard(ledger, folder, judged, judge, cases, index, tallies)
            _plan_case_criteria(ledger, folder, judge, cases, index, own)
        estimate = _Estimate(judge, _usual_completion_tokens(ledger, judge.judge))
    planned = [estimate.plan(c.id, c.method.type, tallies.get(c.id), row_count) for c in rubric.criteria]
    if own_count:
        planned.append(estimate.plan(CASE_CRITERIA, "", own, own_count))
    return RunPlan(tuple(planned))


def read_cases(shard: str) -> Iterator[tuple[str, Case]]:
    """The output id and the case of each row of a shard, a batch in memory at a time."""
    with pq.ParquetFile(shard) as file:
        for batch in file.iter_batches(batch_size=2_000, columns=CASE_COLUMNS):
            for output_id, prompt, output, reference, context in zip(
                *(batch.column(name).to_pylist() for name in CASE_COLUMNS), strict=True
            ):
                yield output_id, Case(prompt=prompt, output=output, reference=reference, context=tuple(context or ()))


def count_case_bytes(shard: str) -> int:
    """Bytes of the cases of a shard and of their outputs, as a judge is shown them."""
    return sum(_case_bytes(case) for _, case in read_cases(shard))


@contextmanager
def _ledger(lake: Lake) -> Iterator[duckdb.DuckDBPyConnection]:
    """The lake's judgments; none where there is no lake yet, as in the dry run of a first evaluation."""
    if lake.exists:
        with connect(lake, read_only=True) as connection:
            yield connection
        return
    with duckdb.connect() as connection:
        connection.register("judgments", JUDGMENT_SCHEMA.empty_table())
        yield connection


@dataclass(frozen=True, slots=True)
class _ShardCases:
    """What the plan needs of a shard. All lists: (output,)."""

    output_ids: list[str]
    digests: list[str]
    byte_counts: list[int]


def _read_shard(shard: str) -> _ShardCases:
    cases = _ShardCases([], [], [])
    for output_id, case in read_cases(shard):
        cases.output_ids.append(output_id)
        cases.digests.append(case_digest(case))
        cases.byte_counts.append(_case_bytes(case))
    return cases


def _plan_shard(
    ledger: duckdb.DuckDBPyConnection,
    folder: RunFolder,
    judged: list[Criterion],
    judge: JudgeSettings | ReplaySettings,
    cases: _ShardCases,
    index: int,
    tallies: dict[str, _Tally],
) -> None:
    for criterion in judged:
        asked = criterion_digest(criterion)
        keys = [request_key(judge.judge_digest, asked, digest, 0) for digest in cases.digests]
        wanted = pa.table(
            {"output_id": cases.output_ids, "criterion_id": [criterion.id] * len(keys), "request_key": keys}
        )
        counts = _write_plan(ledger, wanted, folder.plan_file(criterion.id, index))
        question_bytes = sum(cases.byte_counts) + _prompt_overhead(criterion) * len(keys)
        tallies[criterion.id].add(len(keys), *counts, question_bytes)


def _plan_case_criteria(
    ledger: duckdb.DuckDBPyConnection,
    folder: RunFolder,
    judge: JudgeSettings | ReplaySettings,
    cases: _ShardCases,
    index: int,
    tally: _Tally,
) -> None:
    """Plan the judged ones among the criteria that the rows of a shard bring along."""
    output_ids, criterion_ids, keys, question_bytes = [], [], [], 0
    for own in own_criteria(folder, index, "judge"):
        asked, overhead = criterion_digest(own.criterion), _prompt_overhead(own.criterion)
        for row in own.row_indices.to_pylist():
            output_ids.append(cases.output_ids[row])
            criterion_ids.append(own.criterion.id)
            keys.append(request_key(judge.judge_digest, asked, cases.digests[row], 0))
            question_bytes += overhead + cases.byte_counts[row]
    if keys:
        wanted = pa.table({"output_id": output_ids, "criterion_id": criterion_ids, "request_key": keys})
        counts = _write_plan(ledger, wanted, folder.plan_file(CASE_CRITERIA, index))
        tally.add(len(keys), *counts, question_bytes)


def _write_plan(ledger: duckdb.DuckDBPyConnection, wanted: pa.Table, path: Path) -> tuple[int, int]:
    """Join the wanted keys with the ledger; the earliest judgment of a key is the one that holds, for ever.

    Returns how many rows the ledger answers, and how many requests the others take: equal keys are asked once.
    """
    ledger.register("wanted_keys", wanted)
    planned = ledger.execute(
        """
        with held as (
            select
                request_key,
                arg_min(
                    struct_pack(status, level_id, evidence, rationale, cost_usd, paid_by := run_id),
                    (asked_at, judgment_id)
                ) as judgment
            from judgments
            where status = 'scored' and request_key in (select request_key from wanted_keys)
            group by request_key
        )

        select w.*, unnest(h.judgment)
        from wanted_keys as w left join held as h using (request_key)
        """
    ).to_arrow_table()
    ledger.unregister("wanted_keys")
    with replaced_file(path) as temporary:
        pq.write_table(planned, temporary, compression="zstd")
    is_open = pc.is_null(planned.column("status"))
    open_keys = planned.column("request_key").filter(is_open)
    return planned.num_rows - len(open_keys), pc.count_distinct(open_keys).as_py()


def _case_bytes(case: Case) -> int:
    texts = (case.prompt or "", case.output, case.reference or "", *case.context)
    return sum(len(text.encode()) for text in texts)


def _prompt_overhead(criterion: Criterion) -> int:
    """Bytes of a request that are not the case: the instructions and the criterion."""
    messages = render_messages(Case(prompt="", output="", reference=None, context=()), criterion, "0" * 32)
    return sum(len(message["content"].encode()) for message in messages)


def _usual_completion_tokens(ledger: duckdb.DuckDBPyConnection, judge: str) -> dict[str, float]:
    """Mean completion tokens by criterion, as this judge's past replies had them."""
    rows = ledger.execute(
        "select criterion_id, avg(completion_tokens) from judgments where judge = ? group by criterion_id", [judge]
    ).fetchall()
    return dict(rows)


@dataclass(frozen=True, slots=True)
class _Estimate:
    """What questions to this judge take. completions: mean completion tokens by criterion."""

    judge: JudgeSettings | ReplaySettings
    completions: dict[str, float]

    def plan(self, criterion_id: str, method: str, tally: _Tally | None, row_count: int) -> CriterionPlan:
        """The plan of one criterion; tally: None where nobody is asked."""
        if tally is None:
            return CriterionPlan(criterion_id, method, row_count)
        if isinstance(self.judge, ReplaySettings):
            return CriterionPlan(criterion_id, method, row_count, replayed_count=tally.row_count)
        price = find_price(self.judge)
        prompt_tokens = round(tally.prompt_bytes / BYTES_PER_TOKEN)
        completion_tokens = round(tally.request_count * self.completions.get(criterion_id, USUAL_COMPLETION_TOKENS))
        usage = Usage(prompt_tokens=prompt_tokens, completion_tokens=completion_tokens)
        return CriterionPlan(
            criterion_id,
            method,
            row_count,
            tally.replayed_count,
            tally.request_count,
            prompt_tokens,
            completion_tokens,
            cost_usd(price, usage, tally.request_count) if tally.request_count else 0.0,
        )
