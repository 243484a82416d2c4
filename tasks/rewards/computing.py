"""Checks, schemas and functions of a rubric over a few outputs, without files."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from gradebook.rubrics.checks.grading import CheckedCriterion, grade_checked
from gradebook.rubrics.model.outputs import OUTPUT_COLUMNS, shard_column
from gradebook.rubrics.model.rubric import Criterion, Rubric
from gradebook.tasks.methods.function import FUNCTION_COLUMNS, FunctionPool, score_callable
from gradebook.tasks.methods.method import CodeMethod, Outcomes, RowMethod, ScoringSetup, leave_unscored
from gradebook.tasks.methods.table import method_of
from gradebook.tasks.rewards.outputs import ReadOutput, Verdict
from gradebook.tasks.runs.function_settings import function_of
from gradebook.tasks.workspace.folder import RunFolder
from gradebook.tasks.workspace.timings import Timing

NO_RUN = "place"  # run id of verdicts outside of a run
Verdicts = dict[tuple[int, str], Verdict]  # by the output's index in the batch and the criterion's id


class CodeScorer:
    """Scorer of the criteria that need only rows (checks, schemas, functions), prepared once."""

    def __init__(
        self, rubric: Rubric, functions: FunctionPool | None, callables: Mapping[str, Callable[..., Any]]
    ) -> None:
        """callables: the caller's functions, by their names in the rubric."""
        self._decisions, self._by_rows = list[Outcomes](), list[tuple[Criterion, RowMethod]]()
        self._by_callables: list[tuple[Criterion, Callable[..., Any]]] = []
        self._unscorable: list[tuple[Criterion, str]] = []  # (criterion, reason)
        self._columns = {"output"}
        for criterion in rubric.criteria:
            method = method_of(criterion)
            function = callables.get(function_of(criterion) or "")
            if function is not None:
                self._by_callables.append((criterion, function))
            elif method.outside_run is not None:
                self._unscorable.append((criterion, method.outside_run))
            elif isinstance(method, CodeMethod):
                self._decisions.append(method.outcomes(criterion, rubric.schemas))
                self._columns.update(method.columns(criterion))
            elif isinstance(method, RowMethod):
                self._by_rows.append((criterion, method))
        self._is_needed = bool(self._decisions or self._by_rows or self._by_callables or self._unscorable)
        self._setup = ScoringSetup(RunFolder(Path(NO_RUN)), rubric.schemas, resources={"function": functions})

    def has_work(self, outputs: Sequence[ReadOutput]) -> bool:
        """Whether the outputs have criteria that code scores."""
        return self._is_needed or any(output.own for output in outputs)

    def score(self, outputs: Sequence[ReadOutput]) -> Verdicts:
        """Verdicts on the outputs, also on their own criteria."""
        if not self.has_work(outputs):
            return {}
        indices = pa.array([str(index) for index in range(len(outputs))])
        shard, folders = _shard(outputs, indices, self._columns), (Path.cwd(),)
        checked = [checked_criterion for decide in self._decisions for checked_criterion in decide(shard, folders)]
        tables = [leave_unscored(NO_RUN, criterion, shard, reason) for criterion, reason in self._unscorable]
        for criterion, method in self._by_rows:
            rows = _applicable_rows(outputs, indices, criterion, method.columns(criterion))
            tables.append(method.score_rows(self._setup, criterion, rows, Timing("score")))
        for criterion, function in self._by_callables:
            rows = _applicable_rows(outputs, indices, criterion, FUNCTION_COLUMNS)
            tables.append(score_callable(NO_RUN, criterion, rows, function))
        own_outcomes = list(_score_own(outputs, folders))
        checked += [outcome for outcome in own_outcomes if isinstance(outcome, CheckedCriterion)]
        tables += [outcome for outcome in own_outcomes if isinstance(outcome, pa.Table)]
        verdicts: Verdicts = {}
        for table in [grade_checked(NO_RUN, checked), *tables]:
            verdicts |= verdicts_by_index(table)
        return verdicts


def verdicts_by_output(table: pa.Table) -> dict[tuple[str, str], Verdict]:
    """Verdicts of a table of `VERDICT_SCHEMA`, by output id and criterion."""
    columns = (table.column(name).to_pylist() for name in Verdict._fields)
    keys = zip(*(table.column(name).to_pylist() for name in ("output_id", "criterion_id")), strict=True)
    return dict(zip(keys, map(Verdict._make, zip(*columns, strict=True)), strict=True))


def verdicts_by_index(table: pa.Table) -> Verdicts:
    """Verdicts of a table whose output ids are indices, by index and criterion."""
    return {(int(index), name): verdict for (index, name), verdict in verdicts_by_output(table).items()}


def _shard(outputs: Sequence[ReadOutput], indices: pa.Array, columns: Collection[str]) -> pa.Table:
    values = {name: [getattr(output.output, name) for output in outputs] for name in OUTPUT_COLUMNS if name in columns}
    return pa.table({"output_id": indices} | {name: shard_column(name, column) for name, column in values.items()})


def _applicable_rows(
    outputs: Sequence[ReadOutput], indices: pa.Array, criterion: Criterion, columns: Collection[str]
) -> pa.Table:
    """Rows of the outputs that the criterion applies to."""
    rows = _shard(outputs, indices, columns)
    return (
        rows.filter(pa.array([criterion.id not in output.unmet for output in outputs])) if criterion.applies else rows
    )


def _score_own(outputs: Sequence[ReadOutput], folders: tuple[Path, ...]) -> Iterator[CheckedCriterion | pa.Table]:
    """Outcomes of the outputs' own criteria that code scores."""
    for index, output in enumerate(outputs):
        for criterion in output.own:
            method = method_of(criterion)
            columns = method.columns(criterion) if isinstance(method, CodeMethod) else ()
            row = _shard([output], pa.array([str(index)]), columns)
            if isinstance(method, CodeMethod):
                yield from method.outcomes(criterion, {})(row, folders)
            elif criterion.method.kind != "judge":
                yield leave_unscored(NO_RUN, criterion, row)
