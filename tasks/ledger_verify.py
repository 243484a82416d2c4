"""The ledger held against itself: every key worked out anew, every reply read again, every verdict looked up."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import orjson

from rubrics.case_criteria import read_case_criterion
from rubrics.errors import InputError, RubricError
from rubrics.judging.feedback import FEEDBACK_CRITERION_ID
from rubrics.judging.media import has_media
from rubrics.judging.prompt import Case, case_digest, criterion_digest, request_key
from rubrics.model import Criterion, Rubric
from rubrics.outputs import OUTPUT_COLUMNS, Output, output_id
from rubrics.versions import rubric_from_body
from tasks.judging.readings import AskedJudge, asked_judges, misread
from tasks.lake import Lake, connect, upgrade_lake
from tasks.sql_text import quoted

BATCH_ROWS = 2_000
MOST_FINDINGS_KEPT = 1_000
MEMORY_LIMIT = "1GB"

FEEDBACK = "feedback texts"
JUDGE_UNKNOWN = "judgments of runs that did not record their judge"
UNPUBLISHED = "judgments of runs that were never published"
PACKED = "judgments of several criteria a request"
WITH_MEDIA = "judgments of cases with images or sounds"
NOT_REREAD = "replies that can't be read again"

Row = dict[str, Any]
Advance = Callable[[int], None]

_CHOSEN = """
create temp table chosen as
select judgment_id from judgments
where $run is null or run_id = $run or request_key in (select request_key from verdicts where run_id = $run)
or request_key in (select request_key from opinions where run_id = $run)
"""
_JUDGMENTS = f"""
select
    judgments.judgment_id, judgments.run_id, judgments.request_key, judgments.output_id, judgments.criterion_id,
    judgments.replicate, judgments.status, judgments.level_id, judgments.distribution, judgments.prompt_digest,
    judgments.reply, own.body as own_body, {", ".join(f"outputs.{name}" for name in OUTPUT_COLUMNS)}
from judgments
left join outputs on judgments.output_id = outputs.output_id
left join case_criteria as own
    on judgments.run_id = own.run_id
    and judgments.output_id = own.output_id
    and judgments.criterion_id = own.criterion_id
where judgments.judgment_id in (select judgment_id from chosen)
"""
# A run that judged at the same time as another holds its own judgment, whichever of the two came first.
_VERDICTS = """
with scored as (
    select request_key, run_id, level_id, asked_at, judgment_id from judgments where status = 'scored'
),

earliest as (
    select request_key, arg_min(level_id, (asked_at, judgment_id)) as level_id,
        arg_min(judgment_id, (asked_at, judgment_id)) as judgment_id
    from scored group by request_key
),

of_the_run as (
    select request_key, run_id, arg_min(level_id, (asked_at, judgment_id)) as level_id
    from scored group by request_key, run_id
),

-- What several opinions come to is no one judgment's level: each of them is held against the ledger.
said as (
    select run_id, output_id, criterion_id, level_id, request_key from verdicts where method = 'judge'
        and status = 'scored' and run_id not in (select run_id from opinions)
    union all
    select run_id, output_id, criterion_id, level_id, request_key from opinions where status = 'scored'
)

select verdicts.run_id, verdicts.output_id, verdicts.criterion_id, verdicts.level_id as found,
    earliest.level_id as expected, earliest.judgment_id, verdicts.request_key
from said as verdicts
left join earliest on verdicts.request_key = earliest.request_key
left join of_the_run on verdicts.request_key = of_the_run.request_key and verdicts.run_id = of_the_run.run_id
where ($run is null or verdicts.run_id = $run)
    and verdicts.level_id is distinct from earliest.level_id
    and verdicts.level_id is distinct from of_the_run.level_id
order by verdicts.run_id, verdicts.output_id, verdicts.criterion_id
"""
_VERDICT_COUNT = (
    "select count(*) from verdicts where method = 'judge' and status = 'scored' and ($run is null or run_id = $run)"
)
_RUNS = "select run_id, status, rubric_id, rubric_version, settings::json -> '$.judge' as judge from runs"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that does not agree. judgment_id: None where a verdict has no judgment."""

    judgment_id: str | None
    run_id: str
    subject: str  # request_key, output, output_id, criterion, status, level_id, distribution, prompt_digest, verdict
    found: str | None
    expected: str | None


@dataclass(slots=True)
class Verification:
    """What was held against what, and what does not agree. findings: the first thousand."""

    judgment_count: int = 0
    recomputed_count: int = 0  # judgments whose key was worked out anew
    reread_count: int = 0  # replies that were read again
    verdict_count: int = 0
    not_recomputed: dict[str, int] = field(default_factory=dict)  # why -> how many
    finding_count: int = 0
    findings: list[Finding] = field(default_factory=list)

    def as_json(self) -> Row:
        """One JSON object: what `--json` prints."""
        return asdict(self)

    def skip(self, why: str) -> None:
        """Count a judgment that can't be held against anything."""
        self.not_recomputed[why] = self.not_recomputed.get(why, 0) + 1

    def find(self, finding: Finding) -> None:
        """Count a finding, and keep it while there are few."""
        self.finding_count += 1
        if len(self.findings) < MOST_FINDINGS_KEPT:
            self.findings.append(finding)


@dataclass(frozen=True, slots=True)
class _PayingRun:
    """What a run says of how its judgments came about. judges: whom it asked, none where that was not recorded."""

    is_published: bool
    rubric: tuple[str, str]
    judges: tuple[AskedJudge, ...]


def verify_ledger(
    lake: Lake, run_id: str | None = None, begin: Advance = lambda _count: None, advance: Advance = lambda _count: None
) -> Verification:
    """Hold each judgment against its judge, criterion, case and raw reply, and each judged verdict against the ledger.

    run_id: only what this run paid for or its verdicts rest on. begin is told how many judgments there are, advance
    how many more are done. Memory does not grow with the ledger. Raises `InputError` for a run that is not there.
    """
    verification = Verification()
    upgrade_lake(lake)
    with _opened(lake) as connection:
        runs = _read_runs(connection)
        if run_id is not None and run_id not in runs:
            raise InputError(f"--run: found no {run_id!r} in {lake.name}, expected one that `gradebook runs` lists")
        connection.execute(_CHOSEN, {"run": run_id})
        begin(_count(connection, "select count(*) from chosen", {}))
        verifier = _Verifier(verification, runs, _Rubrics(connection.cursor()))
        for batch in connection.execute(_JUDGMENTS).to_arrow_reader(BATCH_ROWS):
            for row in batch.to_pylist():
                verifier.verify(row)
            advance(batch.num_rows)
        _verify_verdicts(connection, run_id, verification)
    return verification


@contextmanager
def _opened(lake: Lake) -> Iterator[duckdb.DuckDBPyConnection]:
    """The lake, with a limit of memory and a place for what does not fit into it."""
    with connect(lake, read_only=True) as connection, TemporaryDirectory(prefix="gradebook-verify-") as folder:
        connection.execute(f"set memory_limit = '{MEMORY_LIMIT}'")
        connection.execute(f"set temp_directory = '{quoted(folder)}'")
        yield connection


def _read_runs(connection: duckdb.DuckDBPyConnection) -> dict[str, _PayingRun]:
    runs = {}
    for run_id, status, rubric_id, version, text in connection.execute(_RUNS).fetchall():
        judge = orjson.loads(text) if text else None
        judges = asked_judges(judge) if isinstance(judge, dict) else ()
        runs[run_id] = _PayingRun(status == "published", (rubric_id, version), judges)
    return runs


def _count(connection: duckdb.DuckDBPyConnection, query: str, parameters: Row) -> int:
    row = connection.execute(query, parameters).fetchone()
    return int(row[0]) if row else 0


class _Rubrics:
    """The rubrics of the lake, each read once."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._kept: dict[tuple[str, str], Rubric | None] = {}

    def criterion(self, version: tuple[str, str], criterion_id: str) -> Criterion | None:
        """A criterion of a rubric version; None where the lake has none, or none that can be read."""
        if version not in self._kept:
            self._kept[version] = self._read(version)
        rubric = self._kept[version]
        return next((each for each in rubric.criteria if each.id == criterion_id), None) if rubric else None

    def _read(self, version: tuple[str, str]) -> Rubric | None:
        row = self._connection.execute(
            "select body from lake.rubrics where rubric_id = ? and rubric_version = ?", version
        ).fetchone()
        try:
            return rubric_from_body(row[0]) if row else None
        except RubricError:
            return None


@dataclass(slots=True)
class _Verifier:
    """Holds judgments against what they came from, one row of the ledger at a time."""

    verification: Verification
    runs: dict[str, _PayingRun]
    rubrics: _Rubrics
    _own: Callable[[str], Criterion] = field(default_factory=lambda: lru_cache(maxsize=10_000)(read_case_criterion))
    _last: tuple[str, str, str] = ("", "", "")  # output_id, the id of its content, the digest of its case

    def verify(self, row: Row) -> None:
        """Hold one judgment against everything that is known of it."""
        self.verification.judgment_count += 1
        if row["criterion_id"] == FEEDBACK_CRITERION_ID:
            return self.verification.skip(FEEDBACK)
        run = self.runs.get(row["run_id"])
        if run is None or not run.judges:
            return self.verification.skip(JUDGE_UNKNOWN)
        criterion = self._criterion(run, row)
        if row["output"] is None or criterion is None:
            return self._miss(row, run, criterion)
        found_id, case = self._digests(row)
        if found_id != row["output_id"]:
            self._find(row, "output_id", row["output_id"], found_id)
        if has_media(row["prompt"], row["output"]):  # the files are not in the lake
            return self.verification.skip(WITH_MEDIA)
        digest = criterion_digest(criterion)
        keys = {request_key(each.digest, digest, case, row["replicate"]): each for each in run.judges}
        if row["request_key"] not in keys and any(each.identity.get("packing", 1) != 1 for each in run.judges):
            return self.verification.skip(PACKED)
        key = row["request_key"] if row["request_key"] in keys else next(iter(keys))
        self.verification.recomputed_count += 1
        if key != row["request_key"]:
            self._find(row, "request_key", row["request_key"], key)
        self._reread(row, keys[key], criterion)
        return None

    def _criterion(self, run: _PayingRun, row: Row) -> Criterion | None:
        if row["own_body"] is not None:
            return self._own(row["own_body"])
        return self.rubrics.criterion(run.rubric, row["criterion_id"])

    def _miss(self, row: Row, run: _PayingRun, criterion: Criterion | None) -> None:
        """Something that it came from is not there: a fault of a published run, and of no other."""
        if not run.is_published:
            return self.verification.skip(UNPUBLISHED)
        if row["output"] is None:
            self._find(row, "output", None, row["output_id"])
        if criterion is None:
            self._find(row, "criterion", None, row["criterion_id"])
        return None

    def _digests(self, row: Row) -> tuple[str, str]:
        """The id of the output's content, and the digest of its case; judgments of one output mostly stand together."""
        if self._last[0] != row["output_id"]:
            content = output_id(Output(*(row[name] for name in OUTPUT_COLUMNS)))
            self._last = (row["output_id"], content, case_digest(_case(row)))
        return self._last[1], self._last[2]

    def _reread(self, row: Row, judge: AskedJudge, criterion: Criterion) -> None:
        differences = misread(row, criterion, _case(row), judge.identity, judge.style)
        if differences is None:
            return self.verification.skip(NOT_REREAD)
        self.verification.reread_count += 1
        for name, (found, expected) in differences.items():
            self._find(row, name, found, expected)
        return None

    def _find(self, row: Row, subject: str, found: str | None, expected: str | None) -> None:
        self.verification.find(Finding(row["judgment_id"], row["run_id"], subject, found, expected))


def _case(row: Row) -> Case:
    return Case(row["prompt"], row["output"], row["reference"], tuple(row["context"] or ()))


def _verify_verdicts(connection: duckdb.DuckDBPyConnection, run_id: str | None, verification: Verification) -> None:
    verification.verdict_count = _count(connection, _VERDICT_COUNT, {"run": run_id})
    found = connection.execute(_VERDICTS, {"run": run_id})
    while rows := found.fetchmany(BATCH_ROWS):
        for run, output, criterion_id, level_id, expected, judgment_id, key in rows:
            where = f"verdict of {output} on {criterion_id}, key {key}"
            verification.find(Finding(judgment_id, run, where, level_id, expected))
