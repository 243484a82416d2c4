"""A run's working folder: who may write it, and which unfinished one a repeated command goes on with."""

import json
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from gradebook.tasks.system.files import write_text

_WORKING_FOLDERS = ("shards", "plan", "media", "verdicts", "collected", "opinions", "case_criteria", "marts")


@dataclass(frozen=True, slots=True)
class RunFolder:
    """ROOT/runs/RUN_ID and what stands in it."""

    path: Path

    @property
    def run_id(self) -> str:
        """The run's id is the folder's name."""
        return self.path.name

    @property
    def identity_file(self) -> Path:
        """What is evaluated by what: its fingerprint, and when it was begun."""
        return self.path / "run.json"

    @property
    def request_file(self) -> Path:
        """The words of the command that evaluates it, and the folder it was typed in."""
        return self.path / "request.json"

    @property
    def plan_summary_file(self) -> Path:
        """How much there is to do: counts of verdicts and requests, and their price."""
        return self.path / "planned.json"

    @property
    def lock_file(self) -> Path:
        """Held by the process that works on the run."""
        return self.path / "lock"

    @property
    def budget_file(self) -> Path:
        """What requests cost, a line each; not there where the judge has no price."""
        return self.path / "budget.jsonl"

    @property
    def published_file(self) -> Path:
        """The summary of the published run; not there while it is unfinished."""
        return self.path / "published.json"

    @property
    def quarantine_file(self) -> Path:
        """The refused rows."""
        return self.path / "quarantine.parquet"

    @property
    def ratings_file(self) -> Path:
        """The ratings that this run reads."""
        return self.path / "ratings.parquet"

    @property
    def feedback_file(self) -> Path:
        """What the judge wrote about the outputs; not there where it was not asked to."""
        return self.path / "feedback.parquet"

    @property
    def baseline_file(self) -> Path:
        """What the run was compared with; not there while it was not."""
        return self.path / "baseline.json"

    @property
    def report_file(self) -> Path:
        """The page about the run."""
        return self.path / "report.html"

    @property
    def timings_file(self) -> Path:
        """A line for each finished piece of work: its wall and CPU time and rows."""
        return self.path / "timings.jsonl"

    @property
    def quality_file(self) -> Path:
        """A line for each data-quality expectation."""
        return self.path / "quality.jsonl"

    @property
    def plan_folder(self) -> Path:
        """The plan files of all criteria and shards."""
        return self.path / "plan"

    def plan_file(self, criterion_id: str, shard_index: int) -> Path:
        """Request keys of one judged criterion over one shard, and what the ledger holds for them."""
        return self.plan_folder / criterion_id / f"shard-{shard_index:05d}.parquet"

    def case_criteria_file(self, shard_index: int) -> Path:
        """The criteria that the rows of one shard bring along; not there where they bring none."""
        return self.path / "case_criteria" / f"shard-{shard_index:05d}.parquet"

    def verdict_file(self, criterion_id: str, shard_index: int) -> Path:
        """Verdicts of one criterion over one shard."""
        return self.path / "verdicts" / criterion_id / f"shard-{shard_index:05d}.parquet"

    def opinion_file(self, criterion_id: str, shard_index: int) -> Path:
        """What the verdicts of one criterion over one shard rest on; there where a run has several opinions of each."""
        return self.path / "opinions" / criterion_id / f"shard-{shard_index:05d}.parquet"

    def opinion_files(self) -> list[Path]:
        """All of them, in order."""
        return sorted((self.path / "opinions").glob("*/*.parquet"))

    def collected_file(self, shard_index: int) -> Path:
        """Verdicts of all criteria over one shard, validated."""
        return self.path / "collected" / f"shard-{shard_index:05d}.parquet"

    def mart_file(self, mart: str) -> Path:
        """One mart's rows of this run."""
        return self.path / "marts" / f"{mart}.parquet"

    @property
    def notes(self) -> tuple[str, ...]:
        """What people should know of the way that the run was asked."""
        return tuple(json.loads(self._notes_file.read_text(encoding="utf-8"))) if self._notes_file.exists() else ()

    def keep_notes(self, notes: Iterable[str | None]) -> None:
        """Keep notes beside those of earlier commands, each once; None is none."""
        kept = list(dict.fromkeys([*self.notes, *(note for note in notes if note)]))
        if kept:
            write_text(self._notes_file, json.dumps(kept))

    @property
    def _notes_file(self) -> Path:
        return self.path / "notes.json"

    @property
    def is_untidy(self) -> bool:
        """Whether anything is left that the run works with."""
        return any((self.path / name).exists() for name in _WORKING_FOLDERS)

    def tidy(self) -> None:
        """Remove what a run works with, once it is published; what it sent in batches and spent stays on record."""
        for name in _WORKING_FOLDERS:
            shutil.rmtree(self.path / name, ignore_errors=True)
        for pattern in ("*.requests.jsonl", "*.replies-?.jsonl", "*.keys"):  # of batches, also of a killed process
            for file in (self.path / "batches").glob(pattern):
                file.unlink(missing_ok=True)
