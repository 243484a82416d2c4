"""Checks, schemas and functions of a rubric over a few outputs, without files."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from gradebook.rubrics.check_kit.check import Check, CheckSettings, read_settings
from gradebook.rubrics.checks.grading import CheckedCriterion, grade_checked
from gradebook.rubrics.checks.modes import run_check
from gradebook.rubrics.checks.registry import find_check
from gradebook.rubrics.model.methods import CheckMethod, Mode, SchemaMethod
from gradebook.rubrics.model.outputs import OUTPUT_COLUMNS, shard_column
from gradebook.rubrics.model.rubric import Criterion, Rubric
from gradebook.rubrics.schemas.validating import validate_outputs
from gradebook.tasks.datasets.media import with_audio
from gradebook.tasks.rewards.rows import ReadOutput
from gradebook.tasks.rewards.scored import Verdict
from gradebook.tasks.scoring.computed import check_outputs, leave_unscored, stored_columns
from gradebook.tasks.scoring.functions import FUNCTION_COLUMNS, FunctionPool, score_function
from gradebook.tasks.workspace.timings import Timing

PLACE = "place"  # run id of verdicts that belong to no run
# Reasons of the criteria that nothing scores here.
NEEDS = {
    "ratings": "needs_people: ratings count in a run",
    "claims": "needs_a_run: the claims of an output are found and checked in a run",
    "preference": "needs_a_run: an output is compared with the answer of a baseline or another model in a run",
    "similarity": "needs_a_run: similarity is measured beside the other cases of a run",
    "steps": "needs_a_run: the steps of an output are judged in a run",
}
Verdicts = dict[tuple[int, str], Verdict]  # by the output's place in the batch and the criterion's id


class _Prepared(NamedTuple):
    criterion: Criterion
    check: Check
    settings: CheckSettings
    mode: Mode


class CodeScorer:
    """Criteria of a rubric that code decides, prepared once."""

    def __init__(self, rubric: Rubric, functions: FunctionPool | None) -> None:
        self._rubric, self._functions = rubric, functions
        self._checks = [
            _prepared(each, each.method) for each in rubric.criteria if isinstance(each.method, CheckMethod)
        ]
        self._schemas = [each for each in rubric.criteria if isinstance(each.method, SchemaMethod)]
        self._called = [each for each in rubric.criteria if each.method.type == "function"]
        self._others = [(each, reason) for each in rubric.criteria if (reason := _needed(each)) is not None]
        self._is_needed = bool(self._checks or self._schemas or self._called or self._others)
        self._columns = {column for each in self._checks for column in stored_columns(each.check.name)}

    def has_work(self, outputs: Sequence[ReadOutput]) -> bool:
        """Whether code decides anything about the outputs."""
        return self._is_needed or any(each.own for each in outputs)

    def score(self, outputs: Sequence[ReadOutput]) -> Verdicts:
        """Verdicts on the outputs, of their own criteria too."""
        if not self.has_work(outputs):
            return {}
        places = pa.array([str(place) for place in range(len(outputs))])
        shard = _shard(outputs, places, {"output", *self._columns})
        sounds = (
            with_audio(shard, (Path.cwd(),)) if any("audio" in each.check.columns for each in self._checks) else shard
        )
        checked = [
            CheckedCriterion(each.criterion, places, run_check(each.check, sounds, each.settings, each.mode))
            for each in self._checks
        ]
        checked += [self._validated(each, places, shard.column("output").chunk(0)) for each in self._schemas]
        tables = [leave_unscored(PLACE, each, shard, reason) for each, reason in self._others]
        if self._called:
            rows = _shard(outputs, places, FUNCTION_COLUMNS)
            timing = Timing("score")
            tables += [score_function(PLACE, each, rows, self._functions, timing) for each in self._called]
        own = list(_score_own(outputs))
        checked += [each for each in own if isinstance(each, CheckedCriterion)]
        tables += [each for each in own if isinstance(each, pa.Table)]
        verdicts: Verdicts = {}
        for table in [grade_checked(PLACE, checked), *tables]:
            verdicts |= verdicts_by_place(table)
        return verdicts

    def _validated(self, criterion: Criterion, places: pa.Array, texts: pa.Array) -> CheckedCriterion:
        method = criterion.method
        if not isinstance(method, SchemaMethod):
            raise TypeError(criterion.id)
        return CheckedCriterion(criterion, places, validate_outputs(texts, method.json_schema, self._rubric.schemas))


def verdicts_by_place(table: pa.Table) -> Verdicts:
    """Verdicts of a table of `VERDICT_SCHEMA` whose output ids are places."""
    places = map(int, table.column("output_id").to_pylist())
    columns = (table.column(name).to_pylist() for name in Verdict._fields)
    keys = zip(places, table.column("criterion_id").to_pylist(), strict=True)
    return dict(zip(keys, map(Verdict._make, zip(*columns, strict=True)), strict=True))


def _needed(criterion: Criterion) -> str | None:
    """Reason of a criterion that nothing scores here."""
    return NEEDS.get("steps" if criterion.is_stepwise else criterion.method.type)


def _prepared(criterion: Criterion, method: CheckMethod) -> _Prepared:
    check = find_check(method.check)
    return _Prepared(criterion, check, read_settings(check, method.settings, method.folder), method.mode)


def _shard(outputs: Sequence[ReadOutput], places: pa.Array, columns: set[str] | tuple[str, ...]) -> pa.Table:
    values = {name: [getattr(each.output, name) for each in outputs] for name in OUTPUT_COLUMNS if name in columns}
    return pa.table({"output_id": places} | {name: shard_column(name, column) for name, column in values.items()})


def _score_own(outputs: Sequence[ReadOutput]) -> Iterator[CheckedCriterion | pa.Table]:
    """Outcomes of the outputs' own criteria; judged ones are asked elsewhere."""
    for place, each in enumerate(outputs):
        for criterion in each.own:
            method = criterion.method
            columns = stored_columns(method.check) if isinstance(method, CheckMethod) else ("output",)
            row = _shard([each], pa.array([str(place)]), {"output", *columns})
            if isinstance(method, CheckMethod):
                yield from check_outputs(criterion, row, (Path.cwd(),))
            elif isinstance(method, SchemaMethod):
                found = validate_outputs(row.column("output").chunk(0), method.json_schema)
                yield CheckedCriterion(criterion, row.column("output_id").chunk(0), found)
            elif method.type != "judge":
                yield leave_unscored(PLACE, criterion, row)
