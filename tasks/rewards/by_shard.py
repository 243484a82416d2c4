"""Criteria of a few outputs whose methods score shards: claims, steps, preferences, similarity.

The outputs of a call are written as one shard, to a temporary folder, and scored as those of a run.
"""

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.model.methods import compares_with_baseline
from gradebook.rubrics.model.outputs import OUTPUT_COLUMNS, SHARD_SCHEMA, shard_column
from gradebook.rubrics.model.rubric import Criterion, Rubric
from gradebook.tasks.datasets.shards import write_shard
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect_up_to_date
from gradebook.tasks.lake.rows import read_published_run
from gradebook.tasks.methods.judge_shard import JudgedShards
from gradebook.tasks.methods.method import RowMethod, ScoringSetup, leave_unscored
from gradebook.tasks.methods.table import METHODS, method_of
from gradebook.tasks.rewards.asking import Asking
from gradebook.tasks.rewards.computing import Verdicts, verdicts_by_output
from gradebook.tasks.rewards.outputs import ReadOutput
from gradebook.tasks.workspace.folder import RunFolder
from gradebook.tasks.workspace.timings import Timing

_OF_RUN = f"""
select {", ".join(SHARD_SCHEMA.names)}
from outputs where output_id in (select output_id from output_scores where run_id = ?)
"""


NO_BASELINE = "no_baseline: nothing to compare with"


@dataclass(frozen=True, slots=True)
class ShardBatch:
    """Verdicts so far on the outputs of a call; `done` resolves after the last verdict, or raises."""

    verdicts: Verdicts = field(default_factory=dict)
    done: Future[None] = field(default_factory=Future)


class ShardScorer:
    """Scorer of the criteria that need a shard, in a thread for each call.

    asking: sessions of the judge; None: judged criteria have no verdicts. baseline: run of the lake with the answers
    that preferences and similarities compare with, and with the other cases of similarities; None: the other cases
    are those of the same call. Raises `InputError` for a run that is not published.
    """

    def __init__(self, rubric: Rubric, asking: Asking | None, lake: Lake | None, baseline: str | None) -> None:
        self._rubric, self._asking, self._lake, self._baseline = rubric, asking, lake, baseline
        self.criteria = tuple(filter(_needs_shard, rubric.criteria))
        self._resources: dict[str, Any] = {}
        if baseline is not None:
            self._resources = self._of_baseline(baseline)

    def _of_baseline(self, baseline: str) -> dict[str, Any]:
        """Resources of the methods from the outputs of a run. Raises `InputError`."""
        if self._lake is None:
            raise InputError("baseline", f"{baseline!r} without a lake", "a lake, which has the run")
        with TemporaryDirectory(prefix="gradebook-scorer-") as folder:
            shard = Path(folder) / "baseline.parquet"
            with connect_up_to_date(self._lake) as connection:
                read_published_run(connection, self._lake, baseline, option="--baseline")
                outputs = connection.execute(_OF_RUN, [baseline]).to_arrow_table()
            write_shard(outputs.cast(SHARD_SCHEMA), shard)
            return {
                kind: METHODS[kind].outside(self._lake, self._rubric, baseline, str(shard))
                for kind in {criterion.method.kind for criterion in self.criteria}
            }

    def start(self, outputs: Sequence[ReadOutput]) -> ShardBatch | None:
        """Start to score outputs; None if there is nothing to score."""
        if not self.criteria or not outputs:
            return None
        batch = ShardBatch()
        threading.Thread(target=self._run, args=(batch, outputs), name="scoring", daemon=True).start()
        return batch

    def _run(self, batch: ShardBatch, outputs: Sequence[ReadOutput]) -> None:
        try:
            self._score(batch, outputs)
        except BaseException as error:  # noqa: BLE001 - raised where the verdicts are awaited
            batch.done.set_exception(error)
        else:
            batch.done.set_result(None)

    def _score(self, batch: ShardBatch, outputs: Sequence[ReadOutput]) -> None:
        indices: dict[str, list[int]] = {}
        for index, output in enumerate(outputs):
            indices.setdefault(output.output_id, []).append(index)
        with TemporaryDirectory(prefix="gradebook-scorer-") as root:
            folder = RunFolder(Path(root) / "scorer")
            shard = folder.path / "shard.parquet"
            folder.path.mkdir()
            write_shard(_shard(outputs), shard)
            with self._setup(folder) as setup:
                for criterion in self.criteria:
                    met_shard = shard
                    if any(criterion.id in output.unmet for output in outputs):
                        met_shard = folder.path / f"{criterion.id}.parquet"
                        write_shard(
                            _shard([output for output in outputs if criterion.id not in output.unmet]), met_shard
                        )
                    verdicts = self._verdicts(setup, criterion, str(met_shard))
                    batch.verdicts.update(
                        {
                            (index, name): verdict
                            for (output_id, name), verdict in verdicts.items()
                            for index in indices[output_id]
                        }
                    )

    @contextmanager
    def _setup(self, folder: RunFolder) -> Iterator[ScoringSetup]:
        """Setup with the judge's sessions, if a criterion asks it."""
        rubric, folders = self._rubric, (Path.cwd(),)
        if self._asking is None or not any(criterion.method.is_asked for criterion in self.criteria):
            yield ScoringSetup(folder, rubric.schemas, folders, self._lake, resources=self._resources)
            return
        with self._asking.opened() as sessions:
            judged = JudgedShards(folder, rubric, self._asking.judge, sessions)
            yield ScoringSetup(
                folder,
                rubric.schemas,
                folders,
                self._lake,
                sessions=sessions,
                judged=judged,
                taxonomy=rubric.taxonomy,
                resources=self._resources,
            )

    def _verdicts(self, setup: ScoringSetup, criterion: Criterion, shard: str) -> dict[tuple[str, str], Any]:
        """Verdicts by output id; none where the judge is missing. shard: outputs that the criterion applies to."""
        criterion = criterion.model_copy(update={"applies": None})
        if criterion.method.is_asked and setup.judged is None:
            return {}
        method, reason = method_of(criterion), None
        try:
            if self._baseline is None and compares_with_baseline(criterion.method):
                reason = NO_BASELINE
            else:
                method.prepare(self._lake, setup.folder, criterion, [shard], self._baseline)
        except InputError as error:  # a call's outputs, unlike a run's, may not fit the criterion
            reason = f"no_pair: {error}"
        if reason is not None:
            rows = pq.read_table(shard, columns=["output_id"])
            return verdicts_by_output(leave_unscored(setup.folder.run_id, criterion, rows, reason))
        return verdicts_by_output(method.score_shard(setup, criterion, shard, 0, Timing("score")))


def _needs_shard(criterion: Criterion) -> bool:
    """Whether a criterion is scored by shard; `Asking` asks for one level of an output, `CodeScorer` scores rows."""
    return criterion.method.kind != "judge" and not isinstance(method_of(criterion), RowMethod)


def _shard(outputs: Sequence[ReadOutput]) -> pa.Table:
    """Outputs as rows of a shard, without duplicates."""
    unique = {output.output_id: output.output for output in outputs}
    columns = {
        name: shard_column(name, [getattr(output, name) for output in unique.values()]) for name in OUTPUT_COLUMNS
    }
    return pa.table({"output_id": pa.array(unique, pa.string())} | columns, schema=SHARD_SCHEMA)
