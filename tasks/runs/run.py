"""A run: one rubric version applied to one set of outputs, with its lake and working folder."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from importlib import metadata
from pathlib import Path

from gradebook.rubrics.model.rubric import Rubric
from gradebook.rubrics.statistics.rules import AUTO
from gradebook.tasks.datasets.discovery import dataset_folders
from gradebook.tasks.judging.settings.embedder import Embedder
from gradebook.tasks.judging.settings.judge import Judge, JudgeSettings
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.runs.function_settings import FunctionSettings
from gradebook.tasks.runs.quality_suites import ExpectationSuite
from gradebook.tasks.runs.request import EvaluationRequest
from gradebook.tasks.workspace.folder import RunFolder


@dataclass(frozen=True, slots=True)
class Run:
    """One rubric version applied to one set of outputs."""

    request: EvaluationRequest
    lake: Lake
    folder: RunFolder
    rubric: Rubric
    rubric_digest: str
    judge: Judge | None
    files: tuple[Path, ...]
    functions: FunctionSettings
    dataset_digest: str
    created_at: datetime
    embedder: Embedder | None = None  # None: similarities are lexical
    suites: tuple[ExpectationSuite, ...] = ()  # of the team, checked with great-expectations
    taken_over: Mapping[str, object] = field(
        default_factory=dict
    )  # columns of its row that are copied from another run

    @property
    def folders(self) -> tuple[Path, ...]:
        """Folders of the dataset's files; relative paths in rows refer to one of them."""
        return dataset_folders(self.files)

    @property
    def require(self) -> str | None:
        """Rule of `--require`; of `auto` the chosen one, None until it is chosen."""
        if self.request.require != AUTO:
            return self.request.require
        file = self.folder.rule_file
        return json.loads(file.read_text(encoding="utf-8"))["require"] if file.exists() else None

    @property
    def asks_models(self) -> bool:
        """Whether the run may pay for replies: it has a judge or an embedder."""
        return self.judge is not None or self.embedder is not None

    @property
    def asked_models(self) -> tuple[JudgeSettings, ...]:
        """Models that are asked for verdicts; none without a judge."""
        return self.judge.online if self.judge else ()

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.folder.run_id


def code_version() -> str:
    """Installed version of gradebook."""
    return metadata.version("gradebook")
