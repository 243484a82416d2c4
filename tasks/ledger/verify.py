"""Verification of the ledger: recompute its keys, read its raw replies again, and look up its verdicts."""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from itertools import product
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import orjson
import pyarrow as pa
from pydantic import ValidationError

from gradebook.rubrics.files.case_criteria import read_case_criterion
from gradebook.rubrics.files.versions import rubric_from_body
from gradebook.rubrics.model.errors import InputError, RubricError
from gradebook.rubrics.model.methods import PreferenceMethod
from gradebook.rubrics.model.outputs import OUTPUT_COLUMNS, output_id, stored_output
from gradebook.rubrics.model.rubric import Criterion, Rubric
from gradebook.rubrics.model.steps import read_stored_steps
from gradebook.rubrics.prompts.decisions import question_digest, read_answers, typed_question
from gradebook.rubrics.prompts.feedback import FEEDBACK_CRITERION_ID
from gradebook.rubrics.prompts.media import has_media
from gradebook.rubrics.prompts.objects import OBJECT_CRITERION_ID
from gradebook.rubrics.prompts.preference import PREFERENCE_VERSION, preference_key
from gradebook.rubrics.prompts.prompt import (
    Case,
    PromptStyle,
    View,
    case_digest,
    criterion_digest,
    request_key,
    view_of,
)
from gradebook.rubrics.prompts.reply_parser import ReadReply, only_object
from gradebook.rubrics.prompts.trajectory import trajectory_of
from gradebook.rubrics.prompts.typed_parts import PARTS_PROMPT
from gradebook.tasks.judging.replies.judgment_row import distribution_text
from gradebook.tasks.judging.replies.question import Question
from gradebook.tasks.judging.replies.recorded_judge import RecordedReply, read_recorded
from gradebook.tasks.judging.settings.judge import identity_digest
from gradebook.tasks.judging.settings.model import DECISION_FORMS, FORMS
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect_up_to_date
from gradebook.tasks.lake.rows import make_table
from gradebook.tasks.lake.sql import query, quoted

# The finish reason of a reply is not in the ledger, and its text does not show it.
ENDINGS = frozenset({"refused", "truncated", "filtered"})

# Earlier versions read fewer forms of JSON, and compared quotation marks and dashes of quotes letter by letter.
READ_LATER = frozenset({"parse_error", "evidence_unverified"})

_QUESTION_NUMBER = re.compile(r'"q([0-9]{1,6})_')
_OTHER_ORDER = {"worst_first": "best_first", "best_first": "worst_first"}

Row = dict[str, Any]
Differences = dict[str, tuple[str | None, str | None]]  # column -> (value in the ledger, value from the reply)


@dataclass(frozen=True, slots=True)
class RecordedJudge:
    """Judge as recorded by a run. style: of its prompts, see `style_of`."""

    identity: Row
    digest: str
    style: PromptStyle | None

    @property
    def is_partly_stored(self) -> bool:
        """Whether its replies cannot be read again in full, as token probabilities are not stored."""
        return self.style is not None and self.style.reply == "logprobs"


def asked_judges(identity: Row) -> tuple[RecordedJudge, ...]:
    """Judges that a run may have asked, by the identity of its judge: members of a panel or cascade, in both orders of
    levels.
    """
    plain = [_plain(member) for member in identity.get("members", [identity])]
    return tuple(
        RecordedJudge(identity, identity_digest(identity), style_of(identity))
        for member in plain
        for identity in _both_orders(member)
    )


def _plain(identity: Row) -> Row:
    """Identity without the settings for the number of votes."""
    return {name: value for name, value in identity.items() if name not in ("opinions", "verdict")}


def _both_orders(identity: Row) -> list[Row]:
    other = _OTHER_ORDER.get(identity.get("level_order", ""))
    return [identity, identity | {"level_order": other}] if other else [identity]


def style_of(identity: Row) -> PromptStyle | None:
    """Style of an online judge's prompts; None for recorded replies, and for an identity with other keys."""
    try:
        orders = identity["reply_order"], identity["level_order"]
        return PromptStyle(identity["reply"], *orders, bool(identity.get("flaws_first")))
    except KeyError:
        return None


def misread(
    judgment: Row, criterion: Criterion, case: Case, identity: Row, style: PromptStyle | None
) -> Differences | None:
    """Differences of status, level and distribution from the raw reply; None if it cannot be read again.

    A reply cannot be read again if its finish reason decided the status, or its prompt is not today's. judgment: row of
    the ledger; identity: its judge's.
    """
    if judgment["status"] in ENDINGS:
        return _differences(judgment, {"level_id": None, "distribution": None})
    if identity.get("kind") == "replay":
        reply = _reread_recorded(judgment, case.quotable)
    elif is_typed(identity):
        reply = _reread_answer(judgment, criterion)
    elif style is None or identity.get("kind") != "openai_chat":
        return None
    elif style.reply == "logprobs":  # only the probabilities of the levels are stored
        return _differences(judgment, _implied_level(judgment, criterion))
    else:
        reply = _reread(judgment, criterion, case, style, is_plain="reply_format" in identity)
        if reply is not None and reply.status == "scored" and judgment["status"] in READ_LATER:
            return None
    if reply is None:
        return None
    level_id = reply.level_id if reply.status == "scored" else None
    distribution = distribution_text(reply) if reply.status == "scored" else None
    return _differences(judgment, {"status": reply.status, "level_id": level_id, "distribution": distribution})


def is_typed(identity: Row) -> bool:
    """Whether a judge is a decision model, which was asked typed questions."""
    return identity.get("kind") in [FORMS[form] for form in DECISION_FORMS]


def _reread_answer(judgment: Row, criterion: Criterion) -> ReadReply:
    """Answer to a typed question; the reply has the question's number."""
    numbered = _QUESTION_NUMBER.search(judgment["reply"] or "")
    question = typed_question(criterion, judgment["request_key"], int(numbered[1]) if numbered else 1)
    return read_answers(judgment["reply"], [question])[0]


def _reread(judgment: Row, criterion: Criterion, case: Case, style: PromptStyle, *, is_plain: bool) -> ReadReply | None:
    key, output_id = judgment["request_key"], judgment["output_id"]
    question = Question(output_id, criterion, case, key, judgment["replicate"], style=style)
    if question.prompt_digest != judgment["prompt_digest"]:
        return None
    text, reply_keys = judgment["reply"], style.of(criterion).reply_keys
    return question.request().read(only_object(text, reply_keys) if is_plain and text else text, None, None, None)


def _reread_recorded(judgment: Row, output: str) -> ReadReply | None:
    try:
        return read_recorded(RecordedReply.model_validate_json(judgment["reply"] or ""), output)
    except (ValidationError, ValueError):
        return None


def _implied_level(judgment: Row, criterion: Criterion) -> dict[str, str | None]:
    """Level implied by a distribution: the most probable level, the worst on ties."""
    if judgment["status"] != "scored":
        return {"level_id": None, "distribution": None}
    shares = _shares(judgment["distribution"])
    level_ids = [level.id for level in criterion.ranked_levels]
    if shares is None or not shares.keys() <= set(level_ids):
        return {"distribution": f"probabilities of {', '.join(level_ids)} that add up to 1"}
    return {"level_id": max(level_ids, key=lambda level_id: shares.get(level_id, 0.0))}


def _shares(text: str | None) -> dict[str, float] | None:
    """Probabilities by level; None unless the text has some that add up to 1."""
    try:
        shares = orjson.loads(text or "")
    except orjson.JSONDecodeError:
        return None
    if not isinstance(shares, dict) or not all(
        isinstance(share, float | int) and share >= 0 for share in shares.values()
    ):
        return None
    return shares if math.isclose(math.fsum(shares.values()), 1, abs_tol=1e-6) else None


def _differences(judgment: Row, expected: dict[str, str | None]) -> Differences:
    return {name: (judgment[name], value) for name, value in expected.items() if judgment[name] != value}


MOST_FINDINGS_STORED = 1_000
# Reasons for judgments that were not, or only partly, checked.
TEXTS = {FEEDBACK_CRITERION_ID: "feedback texts", OBJECT_CRITERION_ID: "proposals of a model"}
JUDGE_UNKNOWN = "judgments of runs that did not record their judge"
UNPUBLISHED = "judgments of runs that were never published"
IN_PARTS = "claims, steps, preferences and vectors, which are asked for in parts"
PACKED = "judgments of several criteria a request"
WITH_MEDIA = "judgments of cases with images or sounds"
LOGPROBS = "replies whose log-probabilities were not kept"
NOT_REREAD = "replies that can't be read again"


@dataclass(frozen=True, slots=True)
class LedgerMismatch:
    """One difference between the ledger and its sources. judgment_id: None for a verdict without a judgment."""

    judgment_id: str | None
    run_id: str
    subject: str  # request_key, output, output_id, criterion, status, level_id, distribution, prompt_digest, verdict
    found: str | None
    expected: str | None


@dataclass(slots=True)
class Verification:
    """Result of a verification. findings: the first thousand.

    not_checked_count: judgments whose key was not recomputed, or whose reply was not read again; not_recomputed counts
    them by reason.
    """

    judgment_count: int = 0
    recomputed_count: int = 0  # judgments with a recomputed key
    reread_count: int = 0  # replies read again
    verdict_count: int = 0
    not_checked_count: int = 0
    not_recomputed: dict[str, int] = field(default_factory=dict)  # reason -> count
    finding_count: int = 0
    findings: list[LedgerMismatch] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def skip(self, reason: str) -> None:
        """Count a judgment that cannot be compared with all its sources."""
        self.not_checked_count += 1
        self.not_recomputed[reason] = self.not_recomputed.get(reason, 0) + 1

    def find(self, finding: LedgerMismatch) -> None:
        """Count a finding, and store it up to the limit."""
        self.finding_count += 1
        if len(self.findings) < MOST_FINDINGS_STORED:
            self.findings.append(finding)


@dataclass(frozen=True, slots=True)
class PayingRun:
    """Recorded origin of a run's judgments. judges: the judges it may have asked; empty if not recorded."""

    is_published: bool
    rubric: tuple[str, str]
    judges: tuple[RecordedJudge, ...]


class RubricCache:
    """Cache of the lake's rubrics, each read once."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._cached: dict[tuple[str, str], Rubric | None] = {}

    def criterion(self, version: tuple[str, str], criterion_id: str) -> Criterion | None:
        """Criterion of a rubric version; None if the lake has no readable version with it."""
        if version not in self._cached:
            self._cached[version] = self._read(version)
        rubric = self._cached[version]
        return (
            next((criterion for criterion in rubric.criteria if criterion.id == criterion_id), None) if rubric else None
        )

    def _read(self, version: tuple[str, str]) -> Rubric | None:
        row = self._connection.execute(
            "select body from lake.rubrics where rubric_id = ? and rubric_version = ?", version
        ).fetchone()
        try:
            return rubric_from_body(row[0]) if row else None
        except RubricError:
            return None


@dataclass(slots=True)
class Verifier:
    """Verifier of judgments, one row of the ledger at a time."""

    verification: Verification
    runs: dict[str, PayingRun]
    rubrics: RubricCache
    _read_case_criterion: Callable[[str], Criterion] = field(
        default_factory=lambda: lru_cache(maxsize=10_000)(read_case_criterion)
    )
    # output_id and view, recomputed id, digests of the case
    _last_digests: tuple[tuple[str, View], str, tuple[str, ...]] = (("", View()), "", ())

    def verify(self, row: Row) -> None:
        """Compare one judgment with all known sources."""
        self.verification.judgment_count += 1
        if row["criterion_id"] in TEXTS:
            return self.verification.skip(TEXTS[row["criterion_id"]])
        run = self.runs.get(row["run_id"])
        if run is None or not run.judges:
            return self.verification.skip(JUDGE_UNKNOWN)
        criterion = self._criterion(run, row)
        if criterion is not None and criterion.method.kind != "judge":
            return self.verification.skip(IN_PARTS)
        if row["output"] is None or criterion is None:
            return self._report_missing_source(row, run, criterion)
        view = view_of(criterion)
        found_id, cases = self._digests(row, view)
        if found_id != row["output_id"]:
            self._find(row, "output_id", row["output_id"], found_id)
        if criterion.hears_audio or has_media(row["prompt"], row["output"]):  # the media files are not in the lake
            return self.verification.skip(WITH_MEDIA)
        return self._verify_key(row, run, criterion, cases)

    def _verify_key(self, row: Row, run: PayingRun, criterion: Criterion, cases: tuple[str, ...]) -> None:
        """Compare the key with its recomputed value, then the reply. cases: digests of the case, today's first."""
        keys = {
            request_key(
                judge.digest,
                question_digest(criterion) if is_typed(judge.identity) else criterion_digest(criterion),
                case,
                row["replicate"],
            ): judge
            for case in cases
            for judge in run.judges
        }
        is_known = row["request_key"] in keys
        if not is_known and any(
            judge.identity.get("packing", 1) != 1 or judge.identity.get("reads_together") for judge in run.judges
        ):
            return self.verification.skip(PACKED)
        if not is_known and not run.is_published:  # the version may have been published later with another text
            return self.verification.skip(UNPUBLISHED)
        key = row["request_key"] if is_known else next(iter(keys))
        self.verification.recomputed_count += 1
        if key != row["request_key"]:
            self._find(row, "request_key", row["request_key"], key)
        self._reread(row, keys[key], criterion)
        return None

    def _criterion(self, run: PayingRun, row: Row) -> Criterion | None:
        if row["own_body"] is not None:
            return self._read_case_criterion(row["own_body"])
        return self.rubrics.criterion(run.rubric, row["criterion_id"])

    def _report_missing_source(self, row: Row, run: PayingRun, criterion: Criterion | None) -> None:
        """Report a missing source: a fault only in a published run."""
        if not run.is_published:
            return self.verification.skip(UNPUBLISHED)
        if row["output"] is None:
            self._find(row, "output", None, row["output_id"])
        if criterion is None:
            self._find(row, "criterion", None, row["criterion_id"])
        return None

    def _digests(self, row: Row, view: View) -> tuple[str, tuple[str, ...]]:
        """Recomputed id of the output, and digests of its case: today's, and that of version 0.1.0.

        Cached, as judgments of one output mostly follow one another.
        """
        if self._last_digests[0] != (row["output_id"], view):
            content = output_id(stored_output(row))
            case = stored_case(row).seen(view)
            digests = dict.fromkeys((case_digest(case), case_digest(case, shows_chat=False)))
            self._last_digests = ((row["output_id"], view), content, tuple(digests))
        return self._last_digests[1], self._last_digests[2]

    def _reread(self, row: Row, judge: RecordedJudge, criterion: Criterion) -> None:
        differences = misread(row, criterion, stored_case(row).seen(view_of(criterion)), judge.identity, judge.style)
        if differences is None:
            return self.verification.skip(NOT_REREAD)
        if judge.is_partly_stored and row["status"] not in ENDINGS:
            self.verification.skip(LOGPROBS)  # the level is checked against the distribution, which cannot be checked
        else:
            self.verification.reread_count += 1
        for name, (ledger_value, reply_value) in differences.items():
            self._find(row, name, ledger_value, reply_value)
        return None

    def _find(self, row: Row, subject: str, found: str | None, expected: str | None) -> None:
        self.verification.find(LedgerMismatch(row["judgment_id"], row["run_id"], subject, found, expected))


def preference_keys(row: Row, runs: Mapping[str, PayingRun], rubrics: RubricCache) -> Iterator[tuple[str, str]]:
    """Keys of both orders of a judged preference, for each judge and replicate of its run; none if they are unknown.

    row: of preferences_to_verify.
    """
    run = runs.get(row["run_id"])
    criterion = None if run is None else rubrics.criterion(run.rubric, row["criterion_id"])
    is_known = criterion is not None and isinstance(criterion.method, PreferenceMethod)
    if run is None or criterion is None or not is_known or None in (row["output"], row["other"]):
        return
    if has_media(row["prompt"], row["output"]) or has_media(None, row["other"]):
        return
    case = stored_case(row)
    prompts = {judge.digest: PARTS_PROMPT if is_typed(judge.identity) else PREFERENCE_VERSION for judge in run.judges}
    for (digest, prompt), replicate in product(prompts.items(), row["replicates"]):
        first, second = (
            preference_key(digest, criterion, case, row["other"], replicate, is_swapped=is_swapped, prompt=prompt)
            for is_swapped in (False, True)
        )
        yield first, second


def stored_case(row: Row) -> Case:
    """Case of a stored output, as a row of `outputs` has it."""
    steps = trajectory_of(read_stored_steps(row["steps"]), row["output"])
    return Case(row["prompt"], row["output"], row["reference"], tuple(row["context"] or ()), trajectory=steps)


BATCH_ROWS = 2_000
MEMORY_LIMIT = "1GB"

Advance = Callable[[int], None]

_VERDICT_COUNT = (
    "select count(*) from verdicts where status = 'scored' and ($run is null or run_id = $run) "
    "and (method = 'judge' or (method = 'preference' and request_key is not null))"
)
KEYS_SCHEMA = pa.schema([pa.field(name, pa.string()) for name in ("run_id", "first_key", "second_key")])
_PREFERENCE_KEYS = "create temp table preference_keys (run_id varchar, first_key varchar, second_key varchar)"
_RUNS = "select run_id, status, rubric_id, rubric_version, settings::json -> '$.judge' as judge from runs"


def verify_ledger(
    lake: Lake, run_id: str | None = None, begin: Advance = lambda _count: None, advance: Advance = lambda _count: None
) -> Verification:
    """Compare each judgment with its judge, criterion, case and raw reply, and each judged verdict with the ledger.

    run_id: only judgments that this run paid for or whose replies its verdicts use. begin is called with the number of
    judgments, advance with the number of further ones done. Memory does not grow with the ledger. Raises `InputError`
    for an unknown run.
    """
    verification = Verification()
    with _connected(lake) as connection:
        runs = _read_runs(connection)
        if run_id is not None and run_id not in runs:
            raise InputError("--run", f"no {run_id!r} in {lake.name}", "one that `gradebook runs` lists")
        make_table(connection, "ledger/chosen", run_id=run_id)
        begin(_count(connection, "select count(*) from chosen", {}))
        output_columns = ", ".join(f"outputs.{name}" for name in OUTPUT_COLUMNS)
        judgments = query("ledger/judgments_to_verify", output_columns=output_columns)
        rubrics = RubricCache(connection.cursor())
        verifier = Verifier(verification, runs, rubrics)
        for batch in connection.execute(judgments).to_arrow_reader(BATCH_ROWS):
            for row in batch.to_pylist():
                verifier.verify(row)
            advance(batch.num_rows)
        _make_preference_keys(connection, run_id, runs, rubrics)
        _verify_verdicts(connection, run_id, verification)
    return verification


@contextmanager
def _connected(lake: Lake) -> Iterator[duckdb.DuckDBPyConnection]:
    """Connection to the lake, with a memory limit and a temporary folder for spilling."""
    with (
        connect_up_to_date(lake, is_unshared=True) as connection,
        TemporaryDirectory(prefix="gradebook-verify-") as folder,
    ):
        connection.execute(f"set memory_limit = '{MEMORY_LIMIT}'")
        connection.execute(f"set temp_directory = '{quoted(folder)}'")
        yield connection


def _read_runs(connection: duckdb.DuckDBPyConnection) -> dict[str, PayingRun]:
    runs = {}
    for run_id, status, rubric_id, version, text in connection.execute(_RUNS).fetchall():
        judge = orjson.loads(text) if text else None
        judges = asked_judges(judge) if isinstance(judge, dict) else ()
        runs[run_id] = PayingRun(status == "published", (rubric_id, version), judges)
    return runs


def _count(connection: duckdb.DuckDBPyConnection, select: str, parameters: Row) -> int:
    row = connection.execute(select, parameters).fetchone()
    return int(row[0]) if row else 0


def _make_preference_keys(
    connection: duckdb.DuckDBPyConnection, run_id: str | None, runs: dict[str, PayingRun], rubrics: RubricCache
) -> None:
    """Make the table of both keys of the judged preferences, as far as they can be recomputed."""
    connection.execute(_PREFERENCE_KEYS)
    output_columns = ", ".join(f"outputs.{name}" for name in OUTPUT_COLUMNS)
    preferences = query("ledger/preferences_to_verify", output_columns=output_columns)
    with closing(connection.cursor()) as cursor:
        cursor.execute("use lake")
        for batch in cursor.execute(preferences, {"run_id": run_id}).to_arrow_reader(BATCH_ROWS):
            keys = [
                {"run_id": row["run_id"], "first_key": first, "second_key": second}
                for row in batch.to_pylist()
                for first, second in preference_keys(row, runs, rubrics)
            ]
            connection.register("found_keys", pa.Table.from_pylist(keys, KEYS_SCHEMA))
            connection.execute("insert into preference_keys by name from found_keys")
            connection.unregister("found_keys")


def _verify_verdicts(connection: duckdb.DuckDBPyConnection, run_id: str | None, verification: Verification) -> None:
    verification.verdict_count = _count(connection, _VERDICT_COUNT, {"run": run_id})
    make_table(connection, "ledger/looked_up", run_id=run_id)
    make_table(connection, "ledger/passed_on")
    cursor = connection.execute(query("ledger/wrong_verdicts"))
    while rows := cursor.fetchmany(BATCH_ROWS):
        for run, output, criterion_id, level_id, expected, judgment_id, key in rows:
            where = f"verdict of {output} on {criterion_id}, key {key}"
            verification.find(LedgerMismatch(judgment_id, run, where, level_id, expected))
