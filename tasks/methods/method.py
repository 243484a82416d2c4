"""Scoring method: how criteria of one method are prepared, planned, scored and verified."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from gradebook.rubrics.check_kit.columns import text_column
from gradebook.rubrics.checks.grading import CheckedCriterion, grade_checked
from gradebook.rubrics.model.rubric import Criterion, Rubric
from gradebook.rubrics.model.taxonomy import Taxonomy
from gradebook.rubrics.model.verdicts import verdict_table
from gradebook.tasks.datasets.case_criteria import OwnCriterion
from gradebook.tasks.judging.session.session import Session
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.methods.judge_shard import JudgedShards
from gradebook.tasks.planning.plan import MethodPlan, Planning, RunPlan
from gradebook.tasks.runs.run import Run
from gradebook.tasks.system.processes import core_count
from gradebook.tasks.workspace.folder import RunFolder
from gradebook.tasks.workspace.timings import Timing

NO_JUDGE = "no_judge: the run had no --judge"
Schemas = Mapping[str, dict[str, Any]]  # schemas of a rubric, by name
# Function that decides rows. Folders: those of the dataset's files, for outputs that name a sound file.
Outcomes = Callable[[pa.Table, tuple[Path, ...]], Iterator[CheckedCriterion]]


def read_columns(shard: str, columns: Sequence[str]) -> pa.Table:
    """Columns of a stored shard, read in this thread only, because CPU time is measured by thread."""
    with pq.ParquetFile(shard) as file:
        return file.read(list(columns), use_threads=False)


class ShardCache:
    """Thread-safe cache of the columns of recently read shards: criteria over one shard mostly follow one another."""

    def __init__(self, most: int = 1) -> None:
        """most: the number of shards in memory at once."""
        self._most = most
        self._lock = threading.Lock()
        self._rows: dict[str, pa.Table] = {}  # shard -> columns, most recently used last

    def read(self, shard: str, columns: Sequence[str]) -> pa.Table:
        """Columns of a shard, as `read_columns`; only columns not yet cached are read."""
        with self._lock:
            rows = self._rows.pop(shard, None)
            if rows is None:
                for oldest in list(self._rows)[: len(self._rows) - self._most + 1]:
                    del self._rows[oldest]  # freed before the new one is read
                rows = read_columns(shard, columns)
            elif missing := [name for name in columns if name not in rows.column_names]:
                further = read_columns(shard, missing)
                for field, column in zip(further.schema, further.columns, strict=True):
                    rows = rows.append_column(field, column)
            self._rows[shard] = rows
        return rows.select(list(columns))


@dataclass(frozen=True, slots=True)
class ScoringSetup:
    """Folders, schemas, judges and open resources of a run's scoring."""

    folder: RunFolder
    schemas: Schemas
    dataset_folders: tuple[Path, ...] = ()  # relative paths in outputs are resolved in these
    lake: Lake | None = None  # lake with earlier replies to questions about parts of outputs
    session: Session | None = None  # session of the judge, or of the member that writes texts; None: no judge
    sessions: tuple[Session, ...] = ()  # one per member of the judge
    judged: JudgedShards | None = None  # answers of the judge by shard; None: no judge
    taxonomy: Taxonomy | None = None  # the rubric's taxonomy of errors in steps
    resources: Mapping[str, Any] = field(default_factory=dict)  # kind of method -> its open resource
    # As many shards as criteria are computed at once.
    shards: ShardCache = field(default_factory=partial(ShardCache, core_count()))


class ScoringMethod:
    """Scoring of criteria by one method; a subclass overrides its steps. `METHODS` has an object of each, by kind.

    is_computed: code decides from a shard's rows alone, so that a worker of a cluster may do it. reads_whole_shards:
    the method gets all rows of a shard even if a criterion applies to some; verdicts on the other rows are dropped.
    unrecorded: reason of unscored verdicts if recorded replies do not support the method. outside_run: reason of
    unscored verdicts outside of a run, if the method needs a run.
    """

    is_computed = False
    reads_whole_shards = False
    unrecorded: str | None = None
    outside_run: str | None = None

    def prepare(
        self, lake: Lake | None, folder: RunFolder, criterion: Criterion, shards: Sequence[str], baseline: str | None
    ) -> None:
        """Write the inputs of plan and scoring to the run's folder. baseline: run with the answers to compare with.

        Raises `InputError` for outputs that lack what a criterion needs.
        """

    def plan(self, planning: Planning, criteria: Sequence[Criterion]) -> MethodPlan:
        """Plan and price the questions of all criteria of the method. criteria: may be empty."""
        return MethodPlan()

    def outside(self, lake: Lake, rubric: Rubric, baseline: str, shard: str) -> Any:
        """Resource for scoring single outputs outside of a run. shard: outputs of the baseline's run."""
        return None

    @contextmanager
    def opened(self, run: Run, plan: RunPlan, shards: Sequence[str]) -> Iterator[Any]:
        """Resource of a run's scoring, open while the block runs; stored in `ScoringSetup.resources`."""
        yield None

    def score_shard(
        self, setup: ScoringSetup, criterion: Criterion, shard: str, shard_index: int, timing: Timing
    ) -> pa.Table:
        """Verdicts of a criterion over one shard: `VERDICT_SCHEMA`, one row per output, in the shard's order."""
        return leave_unscored(setup.folder.run_id, criterion, pq.read_table(shard, columns=["output_id"]))

    def score_own(
        self, setup: ScoringSetup, own_criteria: Sequence[OwnCriterion], shard: str, shard_index: int, timing: Timing
    ) -> pa.Table:
        """Verdicts on per-case criteria of a shard, each with its rows."""
        rows = pq.read_table(shard, columns=["output_id"]).combine_chunks()
        run_id = setup.folder.run_id
        return pa.concat_tables(
            [
                leave_unscored(run_id, own_criterion.criterion, rows.take(own_criterion.row_indices))
                for own_criterion in own_criteria
            ]
        )


class RowMethod(ScoringMethod):
    """Method that needs only some columns of a shard's rows."""

    def columns(self, criterion: Criterion) -> tuple[str, ...]:
        """Columns of a stored shard that the criterion reads; only these are loaded."""
        return ("output_id",)

    def score_rows(self, setup: ScoringSetup, criterion: Criterion, rows: pa.Table, timing: Timing) -> pa.Table:
        """Verdicts on rows with `columns`: `VERDICT_SCHEMA`, one row per output, in order."""
        raise NotImplementedError

    def score_shard(
        self, setup: ScoringSetup, criterion: Criterion, shard: str, shard_index: int, timing: Timing
    ) -> pa.Table:
        """Verdicts over one shard, by `score_rows`."""
        return self.score_rows(setup, criterion, pq.read_table(shard, columns=[*self.columns(criterion)]), timing)


class CodeMethod(RowMethod):
    """Method by which code decides whether each output passes."""

    is_computed = True

    def outcomes(self, criterion: Criterion, schemas: Schemas) -> Outcomes:
        """Read the criterion's settings; returns the function that decides rows.

        schemas: the rubric's; empty for per-case criteria.
        """
        raise NotImplementedError

    def score_rows(self, setup: ScoringSetup, criterion: Criterion, rows: pa.Table, timing: Timing) -> pa.Table:
        """Verdicts on rows with `columns`."""
        decide = self.outcomes(criterion, setup.schemas)
        return grade_checked(setup.folder.run_id, [*decide(rows, setup.dataset_folders)])

    def score_shard(
        self, setup: ScoringSetup, criterion: Criterion, shard: str, shard_index: int, timing: Timing
    ) -> pa.Table:
        """Verdicts over one shard, by `score_rows`; criteria over one shard share the columns in memory."""
        return self.score_rows(setup, criterion, setup.shards.read(shard, self.columns(criterion)), timing)

    def score_own(
        self, setup: ScoringSetup, own_criteria: Sequence[OwnCriterion], shard: str, shard_index: int, timing: Timing
    ) -> pa.Table:
        """Verdicts on per-case criteria, graded together: a table for each of thousands of criteria would be slow."""
        columns = sorted({name for own_criterion in own_criteria for name in self.columns(own_criterion.criterion)})
        rows = pq.read_table(shard, columns=columns).combine_chunks()
        checked: list[CheckedCriterion] = []
        for own_criterion in own_criteria:
            of_criterion = rows.select(self.columns(own_criterion.criterion)).take(own_criterion.row_indices)
            checked += self.outcomes(own_criterion.criterion, {})(of_criterion, setup.dataset_folders)
        return grade_checked(setup.folder.run_id, checked)


def leave_unscored(run_id: str, criterion: Criterion, shard: pa.Table, reason: str | None = None) -> pa.Table:
    """Verdicts of a criterion that cannot be scored: all unscored, with the reason. Returns `VERDICT_SCHEMA`."""
    count = shard.num_rows
    return verdict_table(
        run_id,
        criterion,
        text_column(shard, "output_id"),
        pa.nulls(count, pa.string()),
        pa.nulls(count, pa.float64()),
        reasons=pa.repeat(reason or f"unsupported_method: {criterion.method.type}", count),
    )
