"""Resources of a run's scoring, opened before the first shard and closed after the last."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.model.taxonomy import Taxonomy
from gradebook.tasks.judging.session.session import Session, writer_session
from gradebook.tasks.judging.settings.embedder import LEXICAL
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.planning.plan import RunPlan
from gradebook.tasks.planning.similarity import read_compared_texts
from gradebook.tasks.runs.run import Run
from gradebook.tasks.scoring.computed import Computation, LastShards
from gradebook.tasks.scoring.embeddings import embed_texts
from gradebook.tasks.scoring.functions import FunctionPool, opened_functions
from gradebook.tasks.scoring.judge_sessions import judging
from gradebook.tasks.scoring.judge_shard import JudgedShards
from gradebook.tasks.scoring.similarity import OtherCases
from gradebook.tasks.system.processes import core_count
from gradebook.tasks.workspace.folder import RunFolder


@dataclass(frozen=True, slots=True)
class ScoringSetup:
    """Folders, schemas, judges and functions of a run's scoring."""

    folder: RunFolder
    schemas: Mapping[str, dict[str, Any]]  # the rubric's, by name
    dataset_folders: tuple[Path, ...] = ()  # relative paths in outputs are resolved in these
    functions: FunctionPool | None = None  # None: no function of the rubric may run
    lake: Lake | None = None  # whose ledger answers questions about claims and steps
    session: Session | None = None  # of the judge, or of the one that writes texts; None: no judge
    sessions: tuple[Session, ...] = ()  # of all members of the judge
    judged: JudgedShards | None = None  # answers of the judge by shard
    others: OtherCases = field(default_factory=OtherCases)  # that similarities are compared with
    taxonomy: Taxonomy | None = None  # the rubric's, of errors that steps may have
    shards: LastShards = field(
        default_factory=partial(LastShards, core_count())
    )  # as many as criteria computed at once

    def computation(self, criterion: Criterion, shard: str, shard_index: int) -> Computation:
        """Computation of a check or schema criterion over one shard."""
        target = self.folder.verdict_file(criterion.id, shard_index)
        return Computation(self.folder.run_id, criterion, shard, target, self.dataset_folders, self.schemas)


@contextmanager
def opened_setup(run: Run, plan: RunPlan, shards: Sequence[str] = ()) -> Iterator[ScoringSetup]:
    """Setup of a run, open while the block runs. shards: of the run. Raises as `judging`."""
    log_file = run.folder.path / "functions.log"
    compared = read_compared_texts(run.lake, run.rubric, run.request.baseline)
    make_space = embed_texts(run, plan, compared, shards)  # before other requests: both have one budget
    others = OtherCases(shards, make_space, compared, LEXICAL if run.embedder is None else run.embedder.name)
    with judging(run, plan) as sessions, opened_functions(run.rubric, run.functions, log_file) as functions:
        judged = session = None
        if run.judge is not None:
            session = writer_session(run.judge, sessions)
            judged = JudgedShards(run.folder, run.rubric, run.judge, sessions, run.folders)
        yield ScoringSetup(
            run.folder,
            run.rubric.schemas,
            run.folders,
            functions,
            run.lake,
            session,
            sessions,
            judged,
            others,
            run.rubric.taxonomy,
        )
