"""A run: one rubric version applied to one set of outputs, with its lake and working folder."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from importlib import metadata
from pathlib import Path

from gradebook.rubrics.model.rubric import Rubric
from gradebook.tasks.datasets.discovery import dataset_folders
from gradebook.tasks.judging.settings.embedder import Embedder
from gradebook.tasks.judging.settings.panels import Judge
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
    def asks_models(self) -> bool:
        """Whether the run may pay for replies: it has a judge or an embedder."""
        return self.judge is not None or self.embedder is not None

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.folder.run_id


def code_version() -> str:
    """Installed version of gradebook."""
    return metadata.version("gradebook")
