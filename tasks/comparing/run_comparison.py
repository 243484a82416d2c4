"""Comparison of a run with its baseline: before publication, again later, or read back from the lake, as rows of the
mart `run_comparisons`.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from gradebook.rubrics.files.versions import canonical_body, rubric_from_body
from gradebook.rubrics.model.errors import GradebookError
from gradebook.rubrics.model.rubric import Rubric, category_weights
from gradebook.rubrics.statistics.comparison import OPEN_FIGURES, PASS_FIGURES, OpenFigures, PairFigures, PassFigures
from gradebook.rubrics.statistics.distributions import SPREAD_FIGURES, SpreadFigures
from gradebook.rubrics.statistics.rules import CATEGORY, CRITERION, OVERALL
from gradebook.tasks.comparing.attribution import UNSCORED
from gradebook.tasks.comparing.baseline import (
    Baseline,
    FailedModels,
    baseline_search,
    choose_baseline,
    has_earlier_runs,
    store_baseline,
)
from gradebook.tasks.comparing.case_pairs import PairCounts
from gradebook.tasks.comparing.compare import (
    Comparison,
    ComparisonOptions,
    ModelComparison,
    compare_sides,
    ratings_and_wins,
)
from gradebook.tasks.comparing.figures import ComparedRow
from gradebook.tasks.comparing.gate import COUNTS, GateFinding, GateRule, PairRows, evaluate_gate, gate_rule
from gradebook.tasks.comparing.sides import (
    ACROSS_JUDGES,
    BASELINE_AND_RUN,
    RunPair,
    Side,
    alone_in_run,
    changed_cases,
    describe_difference,
    judge_difference,
    no_overall_words,
    pair_groups,
    planned_run_judge,
    read_epoch,
    read_side,
    same_criteria,
)
from gradebook.tasks.comparing.stopping import stored_plan, stored_stopping
from gradebook.tasks.datasets.case_criteria import case_criteria_files
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect, connect_up_to_date
from gradebook.tasks.lake.rows import Row, model_name, pair_name, read_rows
from gradebook.tasks.lake.sql import file_list, query, quoted
from gradebook.tasks.runs.request import ALL_MODELS, SeriesOfNights
from gradebook.tasks.runs.run import Run
from gradebook.tasks.workspace.folder import LATEST, RunFolder


def show_unpublished(
    connection: duckdb.DuckDBPyConnection, folder: RunFolder, shards: Sequence[str], baseline_run_id: str
) -> None:
    """Limit the tables that a comparison reads to the baseline's rows and the unpublished run's own files.

    Temporary views shadow the lake's tables of the same names. The baseline's id is in the views' text, so that only
    its partition is read, whatever the query. Needs the marts `output_scores` and `run_scores`. shards: files of the
    run's outputs.
    """
    collected = [folder.collected_file(index) for index in range(len(shards))]
    _shadow_table(connection, "verdicts", baseline_run_id, _parquet_source(collected))
    for mart in ("output_scores", "run_scores"):
        _shadow_table(connection, mart, baseline_run_id, _parquet_source([folder.mart_file(mart)]))
    criteria_files = case_criteria_files(folder)
    own_criteria = (
        f"select '{quoted(folder.run_id)}' as run_id, * from {_parquet_source(criteria_files)}"
        if criteria_files
        else None
    )
    _shadow_table(connection, "case_criteria", baseline_run_id, f"({own_criteria})" if own_criteria else None)
    names = ", ".join(name for name, *_ in connection.execute("describe lake.outputs").fetchall())
    own_outputs = f"select {names} from read_parquet({file_list(shards)})"
    connection.execute(
        f"create or replace temp view outputs as select {names} from lake.outputs union all {own_outputs}"
    )


def _shadow_table(connection: duckdb.DuckDBPyConnection, table: str, baseline_run_id: str, source: str | None) -> None:
    columns = [name for name, *_ in connection.execute(f"describe lake.{table}").fetchall()]
    select_from = f"select {', '.join(columns)} from"
    published = f"{select_from} lake.{table} where run_id = '{quoted(baseline_run_id)}'"
    own_rows = f" union all {select_from} {source}" if source else ""
    connection.execute(f"create or replace temp view {table} as {published}{own_rows}")


def _parquet_source(files: Iterable[Path]) -> str:
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
    cases: how many cases of the same id differ, and in what. alone: models that only one run has.
    """

    run_id: str
    baseline_run_id: str
    banner: str | None
    models: tuple[ComparedModels, ...]
    figures: tuple[Row, ...]
    gate: GateFinding | None
    judges: str | None = None
    cases: str | None = None
    alone: tuple[str, ...] = ()

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


def compare_with_baseline(run: Run, shards: Sequence[str], failed_models: FailedModels) -> pa.Table:
    """Compare an unpublished run with its baseline; returns rows as `RUN_COMPARISON_SCHEMA`, none without one.

    shards: files of the run's outputs. failed_models: of earlier runs. Needs the marts `output_scores` and
    `run_scores`. The outcome is stored in the run's folder.
    """
    folder, word = run.folder, run.request.baseline
    if word is None:
        return RUN_COMPARISON_SCHEMA.empty_table()
    file_bytes = sum(folder.collected_file(index).stat().st_size for index in range(len(shards)))
    with connect(run.lake, read_only=True, other_bytes=file_bytes) as connection:
        search = baseline_search(run)
        plan = stored_plan(folder)  # a word may mean another run by now
        word = (plan.baseline_run_id if plan else None) or word
        groups = [str(folder.mart_file("run_scores"))]
        choice = choose_baseline(connection, run.lake, groups, search, word, failed_models)
        baseline = choice.run_id
        if baseline is None:
            is_fault = choice.note is None and has_earlier_runs(connection, search)
            fault = f"no earlier run of {run.rubric.id} has a model in common" if is_fault else None
            store_baseline(folder, Baseline(fault=fault, choice=choice.note))
            return RUN_COMPARISON_SCHEMA.empty_table()
        try:
            side = read_side(connection, run.lake, baseline)
            show_unpublished(connection, folder, shards, baseline)
            series = analysis_in_series(connection, run)
            options = ComparisonOptions(chosen_from=(series["factor"] if series else 1) * choice.chosen_from)
            comparison = compare_sides(
                connection, RunPair(baseline, run.run_id), side, _side_of(run, connection), options
            )
        except GradebookError as error:  # judging is paid for, so the run is published and its rule is undecided
            store_baseline(folder, Baseline(fault=f"run {baseline} can't be compared: {error}"))
            return RUN_COMPARISON_SCHEMA.empty_table()
    stored = Baseline(baseline, comparison.not_compared, series=series)
    store_baseline(folder, replace(stored, chosen_from=choice.chosen_from, choice=choice.note, failed=choice.failed))
    return comparison_table(comparison.models, baseline, run.run_id)


def analysis_in_series(connection: duckdb.DuckDBPyConnection, run: Run) -> Row | None:
    """Analysis of this night or checkpoint in its series: number, level, factor and a sentence; None without one."""
    settings = run.request.series
    earlier = None if settings is None else _earlier_analyses(connection, run, settings)
    if settings is None or earlier is None:
        return None
    rejected = [number for number, row in enumerate(earlier, 1) if _is_rejected(connection, run.lake, row)]
    look, series = len(earlier) + 1, settings.series
    level = series.level(look, rejected)
    spent = sum(series.level(number, rejected) for number in range(1, look + 1))
    sentence = (
        f"look {look} of the series (alpha {series.alpha:g} a {settings.per}, {series.method}): level {level:.2g}"
    )
    if level == 0:
        sentence += f", as its {series.looks} looks are over, so no difference is beyond chance"
    elif series.method == "lord":
        sentence += f"; {len(rejected)} of the looks before fired"
    else:
        sentence += f", {max(series.alpha - spent, 0):.2g} left for {series.looks - look} more"
    factor = series.factor(look, rejected)
    values = {"look": look, "level": level, "spent": spent, "factor": factor, "rejected": rejected}
    return values | {"sentence": f"{sentence}; p and intervals of this comparison allow for it"}


def _earlier_analyses(
    connection: duckdb.DuckDBPyConnection, run: Run, settings: SeriesOfNights
) -> Sequence[Row] | None:
    """Earlier analyses of the series: nights of the suite, or checkpoints of the model; None for other runs."""
    night, checkpoint = run.request.night, run.request.checkpoint
    if checkpoint is not None:
        parameters = {"model": checkpoint.model, "checkpoint": checkpoint.checkpoint, "rubric_id": run.rubric.id}
        return read_rows(connection, query("comparing/series_checkpoints"), **parameters)
    if night is None:
        return None
    since = night.replace(day=1).isoformat() if settings.per == "month" else ""
    parameters = {"suite": str(run.request.suite), "night": night.isoformat(), "since": since}
    return read_rows(connection, query("comparing/series_looks"), **parameters)


def planned_factor(run: Run, shards: Sequence[str], failed_models: FailedModels) -> float:
    """Factor for p of a run that is not judged yet, by its place in a series and the choice of its baseline.

    shards: files of its outputs. Raises `NoLakeThere`.
    """
    with connect_up_to_date(run.lake) as connection:
        word = run.request.baseline or LATEST
        choice = choose_baseline(connection, run.lake, shards, baseline_search(run), word, failed_models)
        series = analysis_in_series(connection, run)
    return (float(series["factor"]) if series else 1.0) * choice.chosen_from


def series_factor(connection: duckdb.DuckDBPyConnection, run_id: str) -> float:
    """Factor for p of a published run, by its place in a series and the choice of its baseline; 1 without them."""
    return float(connection.execute(query("comparing/series_factor"), {"run_id": run_id}).fetchall()[0][0])


def _is_rejected(connection: duckdb.DuckDBPyConnection, lake: Lake, look: Row) -> bool:
    """Whether the gate of an earlier analysis of the series fired; False if that is unknown."""
    rule = gate_rule(look["fail_if"], look["require"])
    try:
        comparison = read_run_comparison(
            connection,
            lake,
            look["run_id"],
            look["baseline_run_id"],
            rule,
            across_judges=look["across_judges"],
            needs_all_models=look["models"] == ALL_MODELS,
        )
    except GradebookError:  # its baseline is gone
        return False
    is_known = comparison.judges is None or look["across_judges"]
    return is_known and comparison.gate is not None and comparison.gate.is_failed


def compare_again(lake: Lake, run_id: str, baseline_run_id: str | None) -> pa.Table:
    """Repeat a published run's comparison with its baseline; returns rows as `RUN_COMPARISON_SCHEMA`, or none."""
    if baseline_run_id is None:
        return RUN_COMPARISON_SCHEMA.empty_table()
    with connect(lake, read_only=True) as connection:
        a, b = (read_side(connection, lake, name) for name in (baseline_run_id, run_id))
        options = ComparisonOptions(chosen_from=series_factor(connection, run_id))
        comparison = compare_sides(connection, RunPair(baseline_run_id, run_id), a, b, options)
    return comparison_table(comparison.models, baseline_run_id, run_id)


def read_run_comparison(
    connection: duckdb.DuckDBPyConnection,
    lake: Lake,
    run_id: str,
    baseline_run_id: str,
    rule: GateRule | None,
    *,
    across_judges: bool = False,
    needs_all_models: bool = False,
) -> RunComparison:
    """Read a published run's comparison and evaluate its gate. rule: of the gate that it was published with.

    across_judges: evaluate it even if the judges differ; otherwise the gate is undecided then. needs_all_models: models
    that only one side has leave it undecided too.
    """
    a, b = (read_side(connection, lake, name) for name in (baseline_run_id, run_id))
    groups, alone = pair_groups(connection, RunPair(baseline_run_id, run_id))
    penalties = {criterion.id for criterion in b.rubric.criteria if criterion.own_weight < 0}
    by_pair: dict[tuple[str, str], list[tuple[ComparedRow, Row]]] = {}
    for row in sorted(read_rows(connection, _ROWS, run_id), key=_sort_key_of(b.rubric)):
        compared = compared_row(row, penalties)
        by_pair.setdefault((compared.model_a, compared.model_b), []).append((compared, row))
    names = [(model_name(of_a), model_name(of_b)) for of_a, of_b in groups]
    rows_of_pairs = [by_pair.get(pair, []) for pair in names]
    models = tuple(
        ComparedModels(pair_name(*pair), tuple(row for row, _ in rows))
        for pair, rows in zip(names, rows_of_pairs, strict=True)
    )
    judges = judge_difference(a, b, BASELINE_AND_RUN)
    if rule is None:
        gate = None
    elif judges is not None and not across_judges:
        gate = GateFinding(
            rule, is_failed=True, reasons=(f"{judges} ({ACROSS_JUDGES} compares them all the same)",), is_undecided=True
        )
    else:
        pair_rows = [PairRows(pair.name, of_b, pair.rows) for pair, (_, of_b) in zip(models, names, strict=True)]
        named = [alone_in_run(description, baseline_run_id) for description in alone]
        gate = evaluate_gate(rule, pair_rows, named, needs_all=needs_all_models, no_overall=no_overall_words(a, b))
    cases = changed_cases(connection, baseline_run_id, run_id)
    return RunComparison(
        run_id,
        baseline_run_id,
        describe_difference(a, b, _compared_count(a, b, models), cases),
        models,
        tuple(row for rows in rows_of_pairs for _, row in rows),
        gate,
        judges,
        cases,
        tuple(alone),
    )


def with_ratings_and_wins(
    connection: duckdb.DuckDBPyConnection, lake: Lake, comparison: RunComparison
) -> RunComparison:
    """A comparison read back, with wins and the difference corrected by the ratings now in the lake."""
    a, b = (read_side(connection, lake, name) for name in (comparison.baseline_run_id, comparison.run_id))
    wanted = RunPair(comparison.baseline_run_id, comparison.run_id)
    figures = ratings_and_wins(connection, wanted, a, b)
    models = []
    for pair in comparison.models:
        rows = []
        for row in pair.rows:
            corrected, wins = figures.get((row.model_a, row.model_b), (None, None))
            rows.append(replace(row, corrected=corrected, wins=wins) if row.scope == OVERALL else row)
        models.append(replace(pair, rows=tuple(rows)))
    return replace(comparison, models=tuple(models))


def as_run_comparison(comparison: Comparison) -> RunComparison:
    """Convert a new comparison to the form of a published run's."""
    baseline, run_id = (str(run["run_id"]) for run in (comparison.run_a, comparison.run_b))
    return RunComparison(
        run_id,
        baseline,
        comparison.banner,
        tuple(ComparedModels(pair.name, pair.rows) for pair in comparison.models),
        tuple(comparison_table(comparison.models, baseline, run_id).to_pylist()),
        comparison.gate,
        comparison.judges,
        comparison.cases,
    )


def _sort_key_of(rubric: Rubric) -> Callable[[Row], tuple[int, int, str]]:
    """Sort key of rows within a pair of models: the order of a comparison."""
    positions = {CRITERION: {criterion.id: position for position, criterion in enumerate(rubric.criteria)}}
    positions[CATEGORY] = {category: position for position, category in enumerate(category_weights(rubric))}

    def sort_key(row: Row) -> tuple[int, int, str]:
        scope, scope_id = row["scope"], row["scope_id"] or ""
        return (OVERALL, CATEGORY, CRITERION).index(scope), positions.get(scope, {}).get(scope_id, MANY), scope_id

    return sort_key


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
        planned_run_judge(run.judge, read_epoch(connection, run.judge)),
        baseline=run.request.baseline,
        stopping=None if stopping is None else stopping.as_json(),
    )


_WORDS = {"dominance"}
_PAIR_FIGURES = tuple(field.name for field in fields(PairFigures))


def _type_of(figure: str) -> pa.DataType:
    """Type of a column: a count, a word, or a nullable number."""
    if figure in _WORDS:
        return pa.string()
    return pa.int64() if figure in ("n", "pass_n") or figure.endswith("_count") else pa.float64()


RUN_COMPARISON_SCHEMA = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in ("run_id", "baseline_run_id", "model", "checkpoint")),
        *(pa.field(name, pa.string()) for name in ("baseline_model", "baseline_checkpoint", "scope", "scope_id")),
        pa.field("category", pa.string()),
        pa.field("is_own", pa.bool_()),
        *(pa.field(name, _type_of(name)) for name in (*_PAIR_FIGURES, *COUNTS, *PASS_FIGURES, *SPREAD_FIGURES)),
        *(pa.field(name, pa.string()) for name in ("conflict", "caution")),
        *(pa.field(name, pa.float64()) for name in ("part", "uniform_part", *OPEN_FIGURES)),
    ]
)


def comparison_table(models: Sequence[ModelComparison], baseline_run_id: str, run_id: str) -> pa.Table:
    """Rows for the overall score, each category and each criterion of each pair of models, as the schema."""
    rows = [
        {"run_id": run_id, "baseline_run_id": baseline_run_id} | row for pair in models for row in _rows_of_pair(pair)
    ]
    return pa.Table.from_pylist(rows, schema=RUN_COMPARISON_SCHEMA)


def compared_row(row: Row, penalties: Collection[str]) -> ComparedRow:
    """Rebuild a row of a comparison from the table. penalties: ids of criteria with negative weights."""
    passes = PassFigures(*(row[name] for name in PASS_FIGURES)) if row["pass_n"] is not None else None
    spread = SpreadFigures(*(row[name] for name in SPREAD_FIGURES)) if row["sd_a"] is not None else None
    left_open = OpenFigures(*(row[name] for name in OPEN_FIGURES)) if row["least_diff"] is not None else None
    return ComparedRow(
        model_name({"model": row["baseline_model"], "checkpoint": row["baseline_checkpoint"]}),
        model_name(row),
        row["scope"],
        row["scope_id"] or "",
        row["category"],
        PairCounts(*(row[name] for name in COUNTS)),
        PairFigures(*(row[name] for name in _PAIR_FIGURES)),
        passes,
        row["is_own"],
        row["scope"] == CRITERION and row["scope_id"] in penalties,
        spread,
        open_figures=left_open,
    )


def _rows_of_pair(pair: ModelComparison) -> Iterator[dict[str, Any]]:
    parts = _contributions(pair)
    of_a, of_b = pair.groups
    for row in pair.rows:
        yield {
            **{name: of_b[name] for name in ("model", "checkpoint")},
            **{f"baseline_{name}": of_a[name] for name in ("model", "checkpoint")},
            "scope": row.scope,
            "scope_id": row.scope_id or None,
            "category": row.category,
            "is_own": row.is_own,
            **asdict(row.figures),
            **asdict(row.counts),
            **({} if row.passes is None else asdict(row.passes)),
            **({} if row.spread is None else asdict(row.spread)),
            **({} if row.open_figures is None else asdict(row.open_figures)),
            "conflict": row.conflict,
            "caution": row.caution,
            **parts.get((row.scope, row.scope_id), {}),
        }


def _contributions(pair: ModelComparison) -> Mapping[tuple[str, str], dict[str, float | None]]:
    """Contribution of each criterion to the overall difference, and the remainder at the overall row, often 0.

    Contributions and remainder add up to the overall difference.
    """
    if pair.explanation is None or not pair.explanation.parts:
        return {}
    parts = {part.criterion_id: part for part in pair.explanation.parts}
    remainder = parts.pop(UNSCORED, None)
    has_uniform = all(part.uniform_part is not None for part in parts.values())
    left_over = {"part": 0.0, "uniform_part": 0.0 if has_uniform else None}
    if remainder is not None:
        left_over = {"part": remainder.part, "uniform_part": remainder.uniform_part}
    return {(OVERALL, ""): left_over} | {
        (CRITERION, name): {"part": part.part, "uniform_part": part.uniform_part} for name, part in parts.items()
    }
