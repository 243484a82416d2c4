"""A run's working folder and the files in it."""

import json
import os
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self, get_args

from gradebook.rubrics.model.errors import LakeError
from gradebook.tasks.system.files import write_text

DEFAULT_LAKE = "sqlite:lake/catalog.sqlite"  # used by commands and flows without `--lake`
RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,79}")  # a folder's name, never a path
LATEST = "latest"  # in place of a run's id: the latest published run
SITE_URL = "GRADEBOOK_SITE_URL"  # address that serves the folder of `gradebook lake site`, for links to reports
DetailTable = Literal[
    "opinions", "claims", "claim_verdicts", "step_verdicts", "step_opinions", "similarities", "judged_preferences"
]  # tables with the details of a run's verdicts, each with run_id, output_id and criterion_id
DETAIL_TABLES: tuple[DetailTable, ...] = get_args(DetailTable)
_WORKING_FOLDERS = (
    "shards",
    "blocks",
    "applied",
    "plan",
    "media",
    "verdicts",
    "collected",
    "pairs",
    *DETAIL_TABLES,
    "case_criteria",
    "marts",
)


def usual_lake() -> str:
    """URI of the lake that commands take without `--lake`."""
    return os.environ.get("GRADEBOOK_LAKE") or DEFAULT_LAKE


def refuse_run_ids(run_ids: Iterable[str | None]) -> None:
    """Raise `LakeError` for invalid run ids: pages and folders are named after them."""
    for run_id in run_ids:
        if run_id is not None and not RUN_ID.fullmatch(run_id):
            expected = "up to 80 letters, digits, - and _; the catalog was changed by something else"
            raise LakeError("lake", f"a run of the id {run_id[:90]!r}", expected)


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The folder ROOT/runs/RUN_ID and its files."""

    path: Path

    @classmethod
    def below(cls, root: Path, run_id: str) -> Self:
        """Folder of a run below a lake's root. Raises as `refuse_run_ids`."""
        refuse_run_ids([run_id])
        return cls(root / "runs" / run_id)

    @property
    def run_id(self) -> str:
        return self.path.name

    @property
    def identity_file(self) -> Path:
        """Fingerprint of the evaluation and the time the run began."""
        return self.path / "run.json"

    @property
    def request_file(self) -> Path:
        """Arguments of the command that evaluates the run, and its working directory."""
        return self.path / "request.json"

    @property
    def plan_summary_file(self) -> Path:
        """Size of the plan: counts of verdicts and requests, and their price."""
        return self.path / "planned.json"

    @property
    def lock_file(self) -> Path:
        """Lock file, locked by the process that works on the run."""
        return self.path / "lock"

    @property
    def budget_file(self) -> Path:
        """Cost of requests, one line each; missing if the judge has no price."""
        return self.path / "budget.jsonl"

    @property
    def batch_folder(self) -> Path:
        """Folder with the record of batches and their files."""
        return self.path / "batches"

    @property
    def published_file(self) -> Path:
        """Summary of the published run; missing until it is published."""
        return self.path / "published.json"

    @property
    def quarantine_file(self) -> Path:
        """Rows refused by the ingest."""
        return self.path / "quarantine.parquet"

    @property
    def case_weights_file(self) -> Path:
        """Stratum and inclusion rate of each case; missing unless the cases were drawn by stratum."""
        return self.path / "case_weights.parquet"

    @property
    def ratings_file(self) -> Path:
        """Ratings that this run reads."""
        return self.path / "ratings.parquet"

    @property
    def feedback_file(self) -> Path:
        """Written feedback of the judge; missing if it was not asked for."""
        return self.path / "feedback.parquet"

    @property
    def baseline_file(self) -> Path:
        """Comparison with the baseline; missing until there is one."""
        return self.path / "baseline.json"

    @property
    def rule_file(self) -> Path:
        """Rule that `--require auto` chose, and why; missing without it."""
        return self.path / "rule.json"

    @property
    def block_folder(self) -> Path:
        """Blocks of cases of a run that may stop, and their order; missing without --stop."""
        return self.path / "blocks"

    @property
    def stopping_file(self) -> Path:
        """Outcome of the last interim analysis of a run that may stop; missing until there is one."""
        return self.path / "stopping.json"

    @property
    def report_file(self) -> Path:
        """HTML report of the run."""
        return self.path / "report.html"

    @property
    def timings_file(self) -> Path:
        """One line for each finished piece of work: wall time, CPU time and rows."""
        return self.path / "timings.jsonl"

    @property
    def quality_file(self) -> Path:
        """One line for each data-quality expectation."""
        return self.path / "quality.jsonl"

    @property
    def plan_folder(self) -> Path:
        """Plan files of all criteria and shards. Their schemas differ, so readers name the criteria."""
        return self.path / "plan"

    def plan_file(self, criterion_id: str, shard_index: int) -> Path:
        """Request keys of one judged criterion over one shard, and what the ledger has for them."""
        return self.plan_folder / criterion_id / f"shard-{shard_index:05d}.parquet"

    def plan_files(self, criterion_ids: Iterable[str]) -> list[Path]:
        """Existing plan files of the named criteria, by shard; within a shard in the given order."""
        files = [file for name in criterion_ids for file in (self.plan_folder / name).glob("shard-*.parquet")]
        return sorted(files, key=lambda file: file.name)

    def case_criteria_file(self, shard_index: int) -> Path:
        """Per-case criteria of one shard; missing if it has none."""
        return self.path / "case_criteria" / f"shard-{shard_index:05d}.parquet"

    def verdict_file(self, criterion_id: str, shard_index: int) -> Path:
        """Verdicts of one criterion over one shard."""
        return self.path / "verdicts" / criterion_id / f"shard-{shard_index:05d}.parquet"

    def verdict_files(self, criterion_id: str) -> list[Path]:
        """Verdicts of one criterion that are written, by shard."""
        return sorted((self.path / "verdicts" / criterion_id).glob("*.parquet"))

    def detail_file(self, table: DetailTable, criterion_id: str, shard_index: int) -> Path:
        """Rows of one criterion over one shard for a detail table; missing where the criterion has none."""
        return self.path / table / criterion_id / f"shard-{shard_index:05d}.parquet"

    def detail_files(self, table: DetailTable) -> list[Path]:
        """Files for a detail table, of all criteria and shards, in order."""
        return sorted((self.path / table).glob("*/*.parquet"))

    def pairs_file(self, criterion_id: str, shard_index: int) -> Path:
        """Answers that one shard's outputs are compared with, by one criterion."""
        return self.path / "pairs" / criterion_id / f"shard-{shard_index:05d}.parquet"

    def collected_file(self, shard_index: int) -> Path:
        """Validated verdicts of all criteria over one shard."""
        return self.path / "collected" / f"shard-{shard_index:05d}.parquet"

    def mart_file(self, mart: str) -> Path:
        """One mart's rows of this run."""
        return self.path / "marts" / f"{mart}.parquet"

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes to the user about how the run was set up."""
        return _read_notes(self.path / "notes.json")

    def add_notes(self, notes: Iterable[str | None]) -> None:
        """Add notes to those of earlier commands, each once; None is skipped."""
        _add_notes(self.path / "notes.json", notes)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Notes that are shown before all others."""
        return _read_notes(self.path / "warnings.json")

    def add_warnings(self, warnings: Iterable[str | None]) -> None:
        """Add warnings as `add_notes` does."""
        _add_notes(self.path / "warnings.json", warnings)

    @property
    def is_untidy(self) -> bool:
        """Whether the run still has working files."""
        return not self.path.is_symlink() and any((self.path / name).is_dir() for name in _WORKING_FOLDERS)

    def remove_working_files(self) -> None:
        """Remove files that the run can write again from its outputs and the paid replies; links remain."""
        for name in _WORKING_FOLDERS:
            shutil.rmtree(self.path / name, ignore_errors=True)

    def tidy(self) -> None:
        """Remove the working files of a published run; records of batches and spending remain.

        Nothing is removed through a link.
        """
        if self.path.is_symlink():
            return
        self.remove_working_files()
        batches = self.batch_folder
        if batches.is_symlink():
            return
        for pattern in ("*.requests.jsonl", "*.replies-?.jsonl", "*.keys"):  # including those of a killed process
            for file in batches.glob(pattern):
                file.unlink(missing_ok=True)


def _read_notes(file: Path) -> tuple[str, ...]:
    return tuple(json.loads(file.read_text(encoding="utf-8"))) if file.exists() else ()


def _add_notes(file: Path, notes: Iterable[str | None]) -> None:
    together = list(dict.fromkeys([*_read_notes(file), *(note for note in notes if note)]))
    if together:
        write_text(file, json.dumps(together))


def report_url(folder: RunFolder) -> str:
    """Address of a run's report: where the environment says that pages are served, else the file on this machine."""
    site = os.environ.get(SITE_URL, "").rstrip("/")
    return f"{site}/runs/{folder.run_id}.html" if site else folder.report_file.absolute().as_uri()
