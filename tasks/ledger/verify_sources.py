"""Comparison of a judgment with its sources, with the differences and the judgments not checked."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from itertools import product
from typing import Any

import duckdb

from gradebook.rubrics.files.case_criteria import read_case_criterion
from gradebook.rubrics.files.digest import rubric_from_body
from gradebook.rubrics.model.errors import RubricError
from gradebook.rubrics.model.methods import PreferenceMethod, Sees
from gradebook.rubrics.model.outputs import output_id, stored_output
from gradebook.rubrics.model.rubric import Criterion, Rubric
from gradebook.rubrics.model.steps import read_stored_steps
from gradebook.rubrics.prompts.feedback import FEEDBACK_CRITERION_ID
from gradebook.rubrics.prompts.media import has_media
from gradebook.rubrics.prompts.preference import preference_key
from gradebook.rubrics.prompts.prompt import Case, case_digest, criterion_digest, request_key, sees_of
from gradebook.rubrics.prompts.trajectory import trajectory_of
from gradebook.tasks.ledger.rereading import ENDINGS, AskedJudge, misread

MOST_FINDINGS_STORED = 1_000
# Reasons for judgments that were not, or only partly, checked.
FEEDBACK = "feedback texts"
JUDGE_UNKNOWN = "judgments of runs that did not record their judge"
UNPUBLISHED = "judgments of runs that were never published"
IN_PARTS = "claims, steps, preferences and vectors, which are asked for in parts"
PACKED = "judgments of several criteria a request"
WITH_MEDIA = "judgments of cases with images or sounds"
LOGPROBS = "replies whose log-probabilities were not kept"
NOT_REREAD = "replies that can't be read again"


@dataclass(frozen=True, slots=True)
class LedgerMismatch:
    """One difference. judgment_id: None for a verdict without a judgment."""

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

    def skip(self, why: str) -> None:
        """Count a judgment that cannot be compared with all its sources."""
        self.not_checked_count += 1
        self.not_recomputed[why] = self.not_recomputed.get(why, 0) + 1

    def find(self, finding: LedgerMismatch) -> None:
        """Count a finding, and store it up to the limit."""
        self.finding_count += 1
        if len(self.findings) < MOST_FINDINGS_STORED:
            self.findings.append(finding)


Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PayingRun:
    """Recorded origin of a run's judgments. judges: the judges it may have asked; empty if not recorded."""

    is_published: bool
    rubric: tuple[str, str]
    judges: tuple[AskedJudge, ...]


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
class Verifier:
    """Verifier of judgments, one row of the ledger at a time."""

    verification: Verification
    runs: dict[str, PayingRun]
    rubrics: RubricCache
    _own: Callable[[str], Criterion] = field(default_factory=lambda: lru_cache(maxsize=10_000)(read_case_criterion))
    _last: tuple[tuple[str, Sees], str, tuple[str, ...]] = (
        ("", "answer"),
        "",
        (),
    )  # output_id and what is seen, recomputed id, digests of the case

    def verify(self, row: Row) -> None:
        """Compare one judgment with all known sources."""
        self.verification.judgment_count += 1
        if row["criterion_id"] == FEEDBACK_CRITERION_ID:
            return self.verification.skip(FEEDBACK)
        run = self.runs.get(row["run_id"])
        if run is None or not run.judges:
            return self.verification.skip(JUDGE_UNKNOWN)
        criterion = self._criterion(run, row)
        if criterion is not None and (criterion.method.type != "judge" or criterion.method.unit == "step"):
            return self.verification.skip(IN_PARTS)
        if row["output"] is None or criterion is None:
            return self._miss(row, run, criterion)
        sees = sees_of(criterion)
        found_id, cases = self._digests(row, sees)
        if found_id != row["output_id"]:
            self._find(row, "output_id", row["output_id"], found_id)
        if criterion.hears_audio or has_media(row["prompt"], row["output"]):  # the media files are not in the lake
            return self.verification.skip(WITH_MEDIA)
        return self._verify_key(row, run, criterion, cases)

    def _verify_key(self, row: Row, run: PayingRun, criterion: Criterion, cases: tuple[str, ...]) -> None:
        """Compare the key with its recomputed value, then the reply. cases: digests of the case, today's first."""
        digest = criterion_digest(criterion)
        keys = {request_key(each.digest, digest, case, row["replicate"]): each for case in cases for each in run.judges}
        is_known = row["request_key"] in keys
        if not is_known and any(each.identity.get("packing", 1) != 1 for each in run.judges):
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
            return self._own(row["own_body"])
        return self.rubrics.criterion(run.rubric, row["criterion_id"])

    def _miss(self, row: Row, run: PayingRun, criterion: Criterion | None) -> None:
        """Report a missing source: a fault only in a published run."""
        if not run.is_published:
            return self.verification.skip(UNPUBLISHED)
        if row["output"] is None:
            self._find(row, "output", None, row["output_id"])
        if criterion is None:
            self._find(row, "criterion", None, row["criterion_id"])
        return None

    def _digests(self, row: Row, sees: Sees) -> tuple[str, tuple[str, ...]]:
        """Recomputed id of the output, and digests of its case: today's, and that of version 0.1.0.

        Cached, as judgments of one output mostly follow one another.
        """
        if self._last[0] != (row["output_id"], sees):
            content = output_id(stored_output(row))
            case = stored_case(row).seen(sees)
            digests = dict.fromkeys((case_digest(case), case_digest(case, shows_chat=False)))
            self._last = ((row["output_id"], sees), content, tuple(digests))
        return self._last[1], self._last[2]

    def _reread(self, row: Row, judge: AskedJudge, criterion: Criterion) -> None:
        differences = misread(row, criterion, stored_case(row).seen(sees_of(criterion)), judge.identity, judge.style)
        if differences is None:
            return self.verification.skip(NOT_REREAD)
        if judge.is_partly_stored and row["status"] not in ENDINGS:
            self.verification.skip(LOGPROBS)  # the level is checked against the distribution, which cannot be checked
        else:
            self.verification.reread_count += 1
        for name, (found, expected) in differences.items():
            self._find(row, name, found, expected)
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
    for digest, replicate in product(dict.fromkeys(judge.digest for judge in run.judges), row["replicates"]):
        first, second = (
            preference_key(digest, criterion, case, row["other"], replicate, is_swapped=is_swapped)
            for is_swapped in (False, True)
        )
        yield first, second


def stored_case(row: Row) -> Case:
    """Case of a stored output, as a row of `outputs` has it."""
    steps = trajectory_of(read_stored_steps(row["steps"]), row["output"])
    return Case(row["prompt"], row["output"], row["reference"], tuple(row["context"] or ()), trajectory=steps)
