"""Comparison of a run with its baseline: before publication, again later, or read back from the lake."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from gradebook.rubrics.files.digest import canonical_body, rubric_from_body
from gradebook.rubrics.model.errors import GradebookError
from gradebook.rubrics.model.rubric import Rubric, category_weights
from gradebook.rubrics.statistics.rules import CATEGORY, CRITERION, OVERALL
from gradebook.tasks.comparing.baseline import (
    Baseline,
    baseline_search,
    find_baseline,
    has_earlier_runs,
    store_baseline,
)
from gradebook.tasks.comparing.compare import Asked, Comparison, compare_sides, ratings_and_wins
from gradebook.tasks.comparing.figures import ComparedRow
from gradebook.tasks.comparing.gate import GateFinding, GateRule, evaluate_gate, gate_rule
from gradebook.tasks.comparing.judges import ACROSS_JUDGES, asked_judge, read_epoch
from gradebook.tasks.comparing.mart_rows import RUN_COMPARISON_SCHEMA, compared_row, comparison_table
from gradebook.tasks.comparing.model_pairs import (
    Side,
    Wanted,
    describe_difference,
    judges_apart,
    pair_groups,
    read_side,
    same_criteria,
)
from gradebook.tasks.comparing.stopping import stored_plan, stored_stopping
from gradebook.tasks.datasets.case_criteria import case_criteria_files
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect
from gradebook.tasks.lake.rows import Row, model_name, pair_name, read_rows
from gradebook.tasks.lake.sql import file_list, query, quoted
from gradebook.tasks.runs.request import SeriesOfNights
from gradebook.tasks.runs.run import Run
from gradebook.tasks.workspace.folder import RunFolder

_FACTOR = "select coalesce((settings::json -> 'series' ->> 'factor')::double, 1) from runs where run_id = ?"


def show_unpublished(
    connection: duckdb.DuckDBPyConnection, folder: RunFolder, shards: Sequence[str], baseline_run_id: str
) -> None:
    """Limit the tables that a comparison reads to the baseline's rows and the unpublished run's own files.

    Temporary views shadow the lake's tables of the same names. The baseline's id is in the views' text, so that only
    its partition is read, whatever the query. Needs the marts `output_scores` and `run_scores`. shards: files of the
    run's outputs.
    """
    collected = [folder.collected_file(index) for index in range(len(shards))]
    _shadow(connection, "verdicts", baseline_run_id, _files(collected))
    for mart in ("output_scores", "run_scores"):
        _shadow(connection, mart, baseline_run_id, _files([folder.mart_file(mart)]))
    own = case_criteria_files(folder)
    brought = f"select '{quoted(folder.run_id)}' as run_id, * from {_files(own)}" if own else None
    _shadow(connection, "case_criteria", baseline_run_id, f"({brought})" if brought else None)
    names = ", ".join(name for name, *_ in connection.execute("describe lake.outputs").fetchall())
    own_outputs = f"select {names} from read_parquet({file_list(shards)})"
    connection.execute(
        f"create or replace temp view outputs as select {names} from lake.outputs union all {own_outputs}"
    )


def _shadow(connection: duckdb.DuckDBPyConnection, table: str, baseline_run_id: str, source: str | None) -> None:
    columns = [name for name, *_ in connection.execute(f"describe lake.{table}").fetchall()]
    read = f"select {', '.join(columns)} from"
    published = f"{read} lake.{table} where run_id = '{quoted(baseline_run_id)}'"
    own = f" union all {read} {source}" if source else ""
    connection.execute(f"create or replace temp view {table} as {published}{own}")


def _files(files: Iterable[Path]) -> str:
    return f"read_parquet({file_list(str(file) for file in files)})"


MANY = 1_000_000  # sorts per-case criteria, by name, after all criteria of a rubric
_ROWS = "select * exclude (run_id, baseline_run_id) from run_comparisons where run_id = ?"


@dataclass(frozen=True, slots=True)
class ComparedModels:
    """One pair of models. name: of both if they differ; rows: overall, categories and criteria, in order."""

    name: str
    rows: tuple[ComparedRow, ...]


@dataclass(frozen=True, slots=True)
class RunComparison:
    """Comparison of a published run (B) with its baseline (A). figures: its rows of the table, as `models`.

    banner: difference of the rubrics and judges, if any. gate: None without a rule. judges: how the judges differ.
    """

    run_id: str
    baseline_run_id: str
    banner: str | None
    models: tuple[ComparedModels, ...]
    figures: tuple[Row, ...]
    gate: GateFinding | None
    judges: str | None = None

    @property
    def unmet(self) -> tuple[str, ...]:
        """Why the gate failed, in one sentence; nothing if it passed."""
        if self.gate is None or not self.gate.is_failed:
            return ()
        return (self.gate.sentence,)

    def as_json(self) -> dict[str, Any]:
        regressions = [row for pair in self.models for row in pair.rows if row.is_regression]
        return {
            "baseline_run_id": self.baseline_run_id,
            "banner": self.banner,
            "judges": self.judges,
            "regressions": [
                {"model_a": row.model_a, "model_b": row.model_b, "scope": row.scope, "id": row.scope_id}
                for row in regressions
            ],
            "rows": list(self.figures),
            "gate": None if self.gate is None else self.gate.as_json(),
        }


def compare_with_baseline(run: Run, shards: Sequence[str]) -> pa.Table:
    """Compare an unpublished run with its baseline; returns rows as `RUN_COMPARISON_SCHEMA`, none without one.

    shards: files of the run's outputs. Needs the marts `output_scores` and `run_scores`. The outcome is stored in the
    run's folder.
    """
    folder, asked = run.folder, run.request.baseline
    if asked is None:
        return RUN_COMPARISON_SCHEMA.empty_table()
    file_bytes = sum(folder.collected_file(index).stat().st_size for index in range(len(shards)))
    with connect(run.lake, read_only=True, other_bytes=file_bytes) as connection:
        search = baseline_search(run)
        plan = stored_plan(folder)  # `latest` may name another run by now
        asked = (plan.baseline_run_id if plan else None) or asked
        baseline = find_baseline(connection, [str(folder.mart_file("run_scores"))], search, asked)
        if baseline is None:
            has_earlier = has_earlier_runs(connection, search)
            fault = f"no earlier run of {run.rubric.id} has a model in common" if has_earlier else None
            store_baseline(folder, Baseline(fault=fault))
            return RUN_COMPARISON_SCHEMA.empty_table()
        try:
            side = read_side(connection, run.lake, baseline)
        except GradebookError as error:  # judging is paid for, so the run is published and its rule fails
            store_baseline(folder, Baseline(fault=f"run {baseline} can't be read: {error}"))
            return RUN_COMPARISON_SCHEMA.empty_table()
        show_unpublished(connection, folder, shards, baseline)
        series = look_of_series(connection, run)
        allowing = Asked(chosen_from=series["factor"] if series else 1)
        found = compare_sides(connection, Wanted(baseline, run.run_id), side, _side_of(run, connection), allowing)
    store_baseline(folder, Baseline(baseline, found.not_compared, series=series))
    return comparison_table(found.models, baseline, run.run_id)


def look_of_series(connection: duckdb.DuckDBPyConnection, run: Run) -> Row | None:
    """Look of this night, or checkpoint, in its series: number, level, factor and a sentence; None without a series."""
    of = run.request.series
    earlier = None if of is None else _earlier_looks(connection, run, of)
    if of is None or earlier is None:
        return None
    rejected = [place for place, row in enumerate(earlier, 1) if _is_rejected(connection, run.lake, row)]
    look, series = len(earlier) + 1, of.series
    level = series.level(look, rejected)
    spent = sum(series.level(each, rejected) for each in range(1, look + 1))
    words = f"look {look} of the series (alpha {series.alpha:g} a {of.per}, {series.method}): level {level:.2g}"
    if level == 0:
        words += f", as its {series.looks} looks are over, so no difference is beyond chance"
    elif series.method == "lord":
        words += f"; {len(rejected)} of the looks before fired"
    else:
        words += f", {max(series.alpha - spent, 0):.2g} left for {series.looks - look} more"
    factor = series.factor(look, rejected)
    values = {"look": look, "level": level, "spent": spent, "factor": factor, "rejected": rejected}
    return values | {"sentence": f"{words}; p and intervals of this comparison allow for it"}


def _earlier_looks(connection: duckdb.DuckDBPyConnection, run: Run, of: SeriesOfNights) -> Sequence[Row] | None:
    """Looks before this one: nights of the suite, or checkpoints of the model; None for other runs."""
    night, one = run.request.night, run.request.checkpoint
    if one is not None:
        named = {"model": one.model, "checkpoint": one.checkpoint, "rubric_id": run.rubric.id}
        return read_rows(connection, query("comparing/series_checkpoints"), **named)
    if night is None:
        return None
    since = night.replace(day=1).isoformat() if of.per == "month" else ""
    named = {"suite": str(run.request.suite), "night": night.isoformat(), "since": since}
    return read_rows(connection, query("comparing/series_looks"), **named)


def series_factor(connection: duckdb.DuckDBPyConnection, run_id: str) -> float:
    """Factor of a published run's look in its series; 1 without one."""
    return float(connection.execute(_FACTOR, [run_id]).fetchall()[0][0])


def _is_rejected(connection: duckdb.DuckDBPyConnection, lake: Lake, look: Row) -> bool:
    """Whether the gate of an earlier look fired; an unknown outcome earns nothing."""
    rule = gate_rule(look["fail_if"], look["require"])
    try:
        found = read_run_comparison(
            connection, lake, look["run_id"], look["baseline_run_id"], rule, across_judges=look["across_judges"]
        )
    except GradebookError:  # its baseline is gone
        return False
    is_known = found.judges is None or look["across_judges"]
    return is_known and found.gate is not None and found.gate.is_failed


def compare_again(lake: Lake, run_id: str, baseline_run_id: str | None) -> pa.Table:
    """Repeat a published run's comparison with its baseline; returns rows as `RUN_COMPARISON_SCHEMA`, or none."""
    if baseline_run_id is None:
        return RUN_COMPARISON_SCHEMA.empty_table()
    with connect(lake, read_only=True) as connection:
        a, b = (read_side(connection, lake, name) for name in (baseline_run_id, run_id))
        asked = Asked(chosen_from=series_factor(connection, run_id))
        found = compare_sides(connection, Wanted(baseline_run_id, run_id), a, b, asked)
    return comparison_table(found.models, baseline_run_id, run_id)


def read_run_comparison(
    connection: duckdb.DuckDBPyConnection,
    lake: Lake,
    run_id: str,
    baseline_run_id: str,
    rule: GateRule | None,
    *,
    across_judges: bool = False,
) -> RunComparison:
    """Read a published run's comparison and evaluate its gate. rule: of the gate that it was published with.

    across_judges: evaluate it even if the judges differ; otherwise the gate fails then, as its outcome is unknown.
    """
    a, b = (read_side(connection, lake, name) for name in (baseline_run_id, run_id))
    groups, alone = pair_groups(connection, Wanted(baseline_run_id, run_id))
    penalties = {criterion.id for criterion in b.rubric.criteria if criterion.own_weight < 0}
    by_pair: dict[tuple[str, str], list[tuple[ComparedRow, Row]]] = {}
    for row in sorted(read_rows(connection, _ROWS, run_id), key=_place_in(b.rubric)):
        compared = compared_row(row, penalties)
        by_pair.setdefault((compared.model_a, compared.model_b), []).append((compared, row))
    names = [(model_name(of_a), model_name(of_b)) for of_a, of_b in groups]
    found = [by_pair.get(pair, []) for pair in names]
    models = tuple(
        ComparedModels(pair_name(*pair), tuple(row for row, _ in rows)) for pair, rows in zip(names, found, strict=True)
    )
    judges = judges_apart(a, b)
    if rule is None:
        gate = None
    elif judges is not None and not across_judges:
        gate = GateFinding(rule, is_failed=True, reasons=(f"{judges}; see {ACROSS_JUDGES}",), is_undecided=True)
    else:
        gate = evaluate_gate(rule, [(pair.name, pair.rows) for pair in models], alone)
    return RunComparison(
        run_id,
        baseline_run_id,
        describe_difference(a, b, _compared_count(a, b, models)),
        models,
        tuple(row for rows in found for _, row in rows),
        gate,
        judges,
    )


def with_ratings_and_wins(
    connection: duckdb.DuckDBPyConnection, lake: Lake, comparison: RunComparison
) -> RunComparison:
    """A comparison read back, with wins and the difference corrected by the ratings now in the lake."""
    a, b = (read_side(connection, lake, name) for name in (comparison.baseline_run_id, comparison.run_id))
    wanted = Wanted(comparison.baseline_run_id, comparison.run_id)
    found = ratings_and_wins(connection, wanted, a, b)
    models = []
    for pair in comparison.models:
        rows = []
        for row in pair.rows:
            corrected, wins = found.get((row.model_a, row.model_b), (None, None))
            rows.append(replace(row, corrected=corrected, wins=wins) if row.scope == OVERALL else row)
        models.append(replace(pair, rows=tuple(rows)))
    return replace(comparison, models=tuple(models))


def comparison_of(found: Comparison) -> RunComparison:
    """Convert a new comparison to the form of a published run's."""
    baseline, run_id = (str(run["run_id"]) for run in (found.run_a, found.run_b))
    return RunComparison(
        run_id,
        baseline,
        found.banner,
        tuple(ComparedModels(pair.name, pair.rows) for pair in found.models),
        tuple(comparison_table(found.models, baseline, run_id).to_pylist()),
        found.gate,
        found.judges,
    )


def _place_in(rubric: Rubric) -> Callable[[Row], tuple[int, int, str]]:
    """Sort key of rows within a pair of models: the order of a comparison."""
    places = {CRITERION: {criterion.id: place for place, criterion in enumerate(rubric.criteria)}}
    places[CATEGORY] = {category: place for place, category in enumerate(category_weights(rubric))}

    def place_of(row: Row) -> tuple[int, int, str]:
        scope, scope_id = row["scope"], row["scope_id"] or ""
        return (OVERALL, CATEGORY, CRITERION).index(scope), places.get(scope, {}).get(scope_id, MANY), scope_id

    return place_of


def _compared_count(a: Side, b: Side, models: Sequence[ComparedModels]) -> int:
    """Number of criteria with the same text in both, including per-case criteria."""
    rows = (row for pair in models for row in pair.rows if row.scope == CRITERION)
    return len({*same_criteria(a.rubric, b.rubric)[0]} | {row.scope_id for row in rows if row.is_compared})


def _side_of(run: Run, connection: duckdb.DuckDBPyConnection) -> Side:
    """Side of the run, with the row that it will have in the lake."""
    row = {"run_id": run.run_id, "status": "published", "version": None, "rubric_id": run.rubric.id}
    row |= {"rubric_version": run.rubric.version, "rubric_digest": run.rubric_digest}
    row |= {"judge": run.judge.judge if run.judge else None}
    stopping = stored_stopping(run.folder) if run.request.stop else None
    return Side(
        row,
        rubric_from_body(canonical_body(run.rubric)),
        asked_judge(run.judge, read_epoch(connection, run.judge)),
        baseline=run.request.baseline,
        stopping=None if stopping is None else stopping.as_json(),
    )
