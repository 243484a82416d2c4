"""The plan: which judgments are not in the ledger yet, and what asking for them will cost."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rubrics.judging.prompt import Case, case_digest, criterion_digest, render_messages, request_key
from rubrics.judgments import JUDGMENT_SCHEMA
from rubrics.model import Criterion, Rubric
from tasks.files import replaced_file
from tasks.judging.prices import Price, Usage, cost_usd, find_price
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


def plan_run(
    lake: Lake,
    folder: RunFolder,
    rubric: Rubric,
    judge: JudgeSettings | ReplaySettings | None,
    shards: tuple[str, ...],
    row_count: int,
) -> RunPlan:
    """Write a plan file for each judged criterion and shard; add up what is left to ask.

    A plan file has the columns output_id, request_key, and what the ledger holds for the key: status, level_id,
    evidence, rationale, cost_usd, paid_by (a run_id); null where the judgment is still to be made.
    """
    judged = [criterion for criterion in rubric.criteria if criterion.method.type == "judge"]
    if judge is None or not judged:
        return RunPlan(tuple(CriterionPlan(c.id, c.method.type, row_count) for c in rubric.criteria))
    tallies = {criterion.id: _Tally() for criterion in judged}
    with _ledger(lake) as ledger:
        for index, shard in enumerate(shards):
            _plan_shard(ledger, folder, judged, judge, shard, index, tallies)
        completions = _usual_completion_tokens(ledger, judge.judge)
    price = find_price(judge) if isinstance(judge, JudgeSettings) else None
    return RunPlan(
        tuple(
            _criterion_plan(criterion, tallies.get(criterion.id), row_count, judge, price, completions)
            for criterion in rubric.criteria
        )
    )


def read_cases(shard: str) -> Iterator[tuple[str, Case]]:
    """The output id and the case of each row of a shard, a batch in memory at a time."""
    with pq.ParquetFile(shard) as file:
        for batch in file.iter_batches(batch_size=2_000, columns=CASE_COLUMNS):
            for output_id, prompt, output, reference, context in zip(
                *(batch.column(name).to_pylist() for name in CASE_COLUMNS), strict=True
            ):
                yield output_id, Case(prompt=prompt, output=output, reference=reference, context=tuple(context or ()))


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


def _plan_shard(
    ledger: duckdb.DuckDBPyConnection,
    folder: RunFolder,
    judged: list[Criterion],
    judge: JudgeSettings | ReplaySettings,
    shard: str,
    index: int,
    tallies: dict[str, _Tally],
) -> None:
    output_ids, digests, case_bytes = [], [], 0
    for output_id, case in read_cases(shard):
        output_ids.append(output_id)
        digests.append(case_digest(case))
        case_bytes += _case_bytes(case)
    for criterion in judged:
        asked = criterion_digest(criterion)
        keys = [request_key(judge.judge_digest, asked, digest, 0) for digest in digests]
        wanted = pa.table({"output_id": output_ids, "request_key": keys})
        replayed_count, request_count = _write_plan(ledger, wanted, folder.plan_file(criterion.id, index))
        tally = tallies[criterion.id]
        tally.row_count += len(keys)
        tally.replayed_count += replayed_count
        tally.request_count += request_count
        overhead = _prompt_overhead(criterion) * request_count
        tally.prompt_bytes += overhead + (case_bytes * request_count // len(keys) if keys else 0)


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

        select w.output_id, w.request_key, unnest(h.judgment)
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


def _criterion_plan(
    criterion: Criterion,
    tally: _Tally | None,
    row_count: int,
    judge: JudgeSettings | ReplaySettings,
    price: Price | None,
    completions: dict[str, float],
) -> CriterionPlan:
    if tally is None:
        return CriterionPlan(criterion.id, criterion.method.type, row_count)
    if isinstance(judge, ReplaySettings):
        return CriterionPlan(criterion.id, "judge", tally.row_count, replayed_count=tally.row_count)
    prompt_tokens = round(tally.prompt_bytes / BYTES_PER_TOKEN)
    completion_tokens = round(tally.request_count * completions.get(criterion.id, USUAL_COMPLETION_TOKENS))
    usage = Usage(prompt_tokens=prompt_tokens, completion_tokens=completion_tokens)
    return CriterionPlan(
        criterion.id,
        "judge",
        tally.row_count,
        tally.replayed_count,
        tally.request_count,
        prompt_tokens,
        completion_tokens,
        cost_usd(price, usage, tally.request_count) if tally.request_count else 0.0,
    )
