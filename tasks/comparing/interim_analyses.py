"""Interim analyses of a run that may stop: its cases cut into blocks, and a comparison with the baseline after each.

An analysis depends on the stored plan and the verdicts so far: an interrupted run makes the same analyses again.
"""

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import isnan
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.model.rubric import Rubric, effective_weights
from gradebook.rubrics.statistics.arrays import cluster_sums
from gradebook.rubrics.statistics.intervals import Interval
from gradebook.rubrics.statistics.stopping import analyse_interim, expected_share, read_stop_rule
from gradebook.tasks.comparing.baseline import FailedModels, baseline_search, choose_baseline, pair_own_groups
from gradebook.tasks.comparing.case_pairs import make_overall_pairs
from gradebook.tasks.comparing.gate import gate_rule
from gradebook.tasks.comparing.run_comparison import analysis_in_series
from gradebook.tasks.comparing.sides import (
    BASELINE_AND_RUN,
    RunPair,
    Side,
    describe_judges,
    is_judged,
    planned_run_judge,
    read_epoch,
    read_side,
)
from gradebook.tasks.comparing.stopping import (
    Decision,
    PairAnalysis,
    PlannedPair,
    Stopping,
    StopPlan,
    store_plan,
    store_stopping,
    stored_plan,
)
from gradebook.tasks.datasets.case_criteria import case_criteria_files
from gradebook.tasks.datasets.ingest import Ingested
from gradebook.tasks.datasets.sample import cut_blocks, read_units, shuffle
from gradebook.tasks.datasets.shards import count_stored
from gradebook.tasks.lake.connections import connect_up_to_date
from gradebook.tasks.lake.errors import NoLakeThere
from gradebook.tasks.lake.rows import read_rows
from gradebook.tasks.lake.sql import file_list, query, quoted
from gradebook.tasks.marts.models import build_marts, connect_marts
from gradebook.tasks.marts.sources import add_score_sources
from gradebook.tasks.planning.plan import StopForecast
from gradebook.tasks.runs.request import BASELINE_WORDS
from gradebook.tasks.runs.run import Run
from gradebook.tasks.system.files import replaced_file, write_parquet
from gradebook.tasks.workspace.folder import LATEST, RunFolder

MEMORY_LIMIT = "500MB"
FORECAST_DIFFERENCES = (0.0, -0.03, -0.05, -0.1)  # of a run from its baseline
_SCORES = (
    "output_id, case_id, model, checkpoint, sample_index, cluster, score, score_low, score_high, uniform_score, "
    "is_passed, stratum, inclusion_rate"
)
_UNSCORED = (
    "null::double as score, null::double as score_low, null::double as score_high, null::double as uniform_score, "
    "null::boolean as is_passed, null::varchar as stratum, null::double as inclusion_rate"
)


class Unstoppable(Exception):
    """Why nothing can stop a run."""


def plan_interim_analyses(run: Run, ingested: Ingested, failed_models: FailedModels) -> Ingested:
    """Cut a run's shards into the blocks of `--stop`; they stay as they are where nothing can stop the run.

    failed_models: of earlier runs, one of which may be the baseline.
    Raises `InputError` if the named baseline has no scored case in common, another rubric or another judge.
    """
    plan = stored_plan(run.folder)
    if plan is None:
        shutil.rmtree(run.folder.block_folder, ignore_errors=True)  # left by a killed command
        run.folder.block_folder.mkdir()
        plan = _make_plan(run, ingested, failed_models)
        store_plan(run.folder, plan)
    if plan.reason is not None:
        run.folder.add_notes([f"--stop {plan.rule} judges all cases: {plan.reason}"])
        return ingested
    shards = sorted(_shard_folder(run.folder).glob("*.parquet"))
    return replace(ingested, shards=tuple(map(str, shards)), blocks=plan.block_counts)


def analyse_block(run: Run, ingested: Ingested, block: int) -> bool:
    """Compare the cases of the blocks so far with the baseline; returns whether every pair of models is decided.

    block: number of the last one, from 0. The outcome is stored in the run's folder.
    """
    plan = stored_plan(run.folder)
    if plan is None or plan.baseline_run_id is None or block >= len(plan.ends):
        return False
    _write_scores(run, ingested.shards[: sum(plan.block_counts[: block + 1])])
    bounds = _bounds(run.rubric, run.folder)
    with connect_up_to_date(run.lake) as connection:
        own_select = f"select {_SCORES} from read_parquet('{quoted(str(_scores_file(run.folder)))}')"
        _limit_score_views(connection, run, plan.baseline_run_id, own_select, case_criteria_files(run.folder))
        pair_looks = tuple(
            _analyse_pair(connection, run, plan, pair, plan.ends[: block + 1], bounds) for pair in plan.pairs
        )
    cases = plan.case_count, plan.case_counts[block]
    stopping = Stopping(
        plan.rule, plan.seed, plan.margin, plan.baseline_run_id, *cases, block + 1, len(plan.ends), pair_looks
    )
    store_stopping(run.folder, stopping)
    return stopping.is_decided


def without_unjudged_shards(run: Run, ingested: Ingested, shard_count: int) -> Ingested:
    """Outputs of a stopped run: those of its first shards. The per-case criteria of the others are removed."""
    for index in range(shard_count, len(ingested.shards)):
        run.folder.case_criteria_file(index).unlink(missing_ok=True)
    shards = ingested.shards[:shard_count]
    output_count, models = count_stored(map(Path, shards))
    return replace(ingested, shards=shards, output_count=output_count, models=models)


def forecast_stop(run: Run) -> StopForecast | None:
    """Expected share of cases that a planned run judges, by the spread of past differences; None without `--stop`."""
    plan = stored_plan(run.folder)
    if plan is None or plan.baseline_run_id is None:
        return None if plan is None else StopForecast(plan.rule, plan.case_count, plan.reason)
    with connect_up_to_date(run.lake) as connection:
        parameters = {"rubric_id": run.rubric.id, "baseline": plan.baseline_run_id}
        (spread,) = read_rows(connection, query("comparing/past_spread"), **parameters)
    forecast = StopForecast(plan.rule, plan.case_count, baseline_run_id=plan.baseline_run_id)
    sd = spread["sd_diff"] or spread["score_sd"]
    if not sd:
        return forecast
    rule, rng = replace(read_stop_rule(plan.rule), alpha=plan.alpha), np.random.default_rng(plan.seed)
    expected = tuple(
        (difference, expected_share(rule, plan.ends[-1], sd, difference, rng, -plan.margin))
        for difference in FORECAST_DIFFERENCES
    )
    source = "of the last comparison" if spread["sd_diff"] else f"of the scores of {plan.baseline_run_id}"
    return replace(forecast, sd=sd, sd_source=source, expected=expected)


def _make_plan(run: Run, ingested: Ingested, failed_models: FailedModels) -> StopPlan:
    """Plan of the interim analyses. The seed is part of the outputs' digest: the same outputs have the same order."""
    units = read_units(ingested.shards)
    rule, seed = run.request.stop or "", int(run.dataset_digest[:16], 16)
    plan = StopPlan(rule, seed, len(units), margin=_margin(run))
    try:
        _refuse_nothing_to_save(run, ingested)
        with connect_up_to_date(run.lake) as connection:
            baseline = _choose_baseline_id(connection, run, ingested, failed_models)
            series = analysis_in_series(connection, run)
            pairs, paired = _planned_pairs(connection, run, baseline, ingested.shards)
    except NoLakeThere:
        return replace(plan, reason="the lake has no earlier run")
    except Unstoppable as reason:
        return replace(plan, reason=str(reason))
    if series is not None and not series["level"]:
        return replace(plan, reason="the looks of its series are over")
    alpha = plan.alpha if series is None else series["level"]
    return _cut_blocks(run, ingested, replace(plan, alpha=alpha, baseline_run_id=baseline, pairs=pairs), units, paired)


def _cut_blocks(
    run: Run, ingested: Ingested, plan: StopPlan, units: Mapping[str, str], paired: Iterable[str]
) -> StopPlan:
    """Cut the blocks: first the cases of the baseline, then the others, which decide nothing; each in random order."""
    first = {units[case_id] for case_id in paired}
    order = [*shuffle(first, plan.seed), *shuffle({*units.values()} - first, plan.seed)]
    unit_positions = {unit: position for position, unit in enumerate(order)}
    positions = {case_id: unit_positions[unit] for case_id, unit in units.items()}
    ends = read_stop_rule(plan.rule).ends(len(first))
    block_ends = [*ends, *([len(order)] if len(order) > len(first) else [])]
    counts = cut_blocks(ingested.shards, positions, block_ends, _shard_folder(run.folder))
    columns = {"case_id": [*positions], "position": pa.array(positions.values(), pa.int64())}
    write_parquet(_order_file(run.folder), pa.table(columns))
    case_counts = np.searchsorted(np.sort([*positions.values()]), ends).tolist()
    return replace(plan, ends=ends, case_counts=tuple(case_counts), block_counts=counts)


def _refuse_nothing_to_save(run: Run, ingested: Ingested) -> None:
    if run.judge is None:
        raise Unstoppable("there is no --judge, and checks cost nothing")
    has_own = any(
        pq.read_table(shard, columns=["criteria"])[0].is_valid().to_numpy().any() for shard in ingested.shards
    )
    if not (run.rubric.asked_criteria or has_own):
        raise Unstoppable(f"no criterion of {run.rubric.id} is judged, and checks cost nothing")


def _choose_baseline_id(
    connection: duckdb.DuckDBPyConnection, run: Run, ingested: Ingested, failed_models: FailedModels
) -> str:
    """Id of the run to compare with."""
    word = run.request.baseline or LATEST
    choice = choose_baseline(connection, run.lake, ingested.shards, baseline_search(run), word, failed_models)
    baseline = choice.run_id
    if baseline is None:
        raise Unstoppable(choice.note or f"no earlier run of {run.rubric.id} has a model in common")
    if choice.chosen_from > 1:
        raise Unstoppable(f"{baseline} was chosen from {choice.chosen_from:,} runs")
    reason = _incomparable_reason(connection, run, read_side(connection, run.lake, baseline, "--baseline"))
    if reason is not None:
        raise _baseline_error(word, reason, "a baseline with the same rubric and judge")
    drawn = connection.execute("select count(stratum) from lake.output_scores where run_id = ?", [baseline]).fetchone()
    if drawn and drawn[0]:
        raise _baseline_error(word, f"{baseline}, whose cases were drawn by stratum", "one whose cases count alike")
    return baseline


def _baseline_error(word: str, reason: str, expected: str) -> Exception:
    """Error for a baseline that can't decide anything. A word such as `latest` names no run, so the run continues
    without interim analyses.
    """
    return Unstoppable(reason) if word in BASELINE_WORDS else InputError("--stop", reason, expected)


def _incomparable_reason(connection: duckdb.DuckDBPyConnection, run: Run, side: Side) -> str | None:
    """Why the overall scores of a baseline and of the run are not comparable; None if they are."""
    if (side.run["rubric_digest"], side.rubric.id) != (run.rubric_digest, run.rubric.id):
        return f"{side.run['run_id']} of another rubric, {side.name}"
    if run.request.across_judges or not (is_judged(run.rubric) and is_judged(side.rubric, side.own_methods)):
        return None
    planned = planned_run_judge(run.judge, read_epoch(connection, run.judge))
    return describe_judges(side.judge, planned, BASELINE_AND_RUN)


def _planned_pairs(
    connection: duckdb.DuckDBPyConnection, run: Run, baseline: str, shards: Sequence[str]
) -> tuple[tuple[PlannedPair, ...], set[str]]:
    """Pairs of models, and the cases that any of them can compare."""
    wanted = RunPair(baseline, run.run_id)
    groups = pair_own_groups(connection, wanted, shards)
    _limit_score_views(connection, run, baseline, f"select *, {_UNSCORED} from read_parquet({file_list(shards)})")
    pairs, paired = [], set[str]()
    for of_a, of_b in groups:
        make_overall_pairs(connection, wanted, (of_a, of_b))
        rows = read_rows(connection, query("comparing/stop_cases"))
        paired.update(row["case_id"] for row in rows)
        if rows:
            names = of_a["model"], of_a["checkpoint"], of_b["model"], of_b["checkpoint"]
            pairs.append(PlannedPair(*names, len({row["case_number"] for row in rows})))
    if not pairs:
        reason = f"no case in common with {baseline} that it has a score of"
        raise _baseline_error(run.request.baseline or LATEST, reason, "a baseline with the same cases")
    return tuple(pairs), paired


def _margin(run: Run) -> float:
    """Margin of the run's gate, 0 without one: the analyses decide whether B is worse by more than that."""
    gate = gate_rule(run.request.fail_if, run.require)
    return (gate.margin if gate is not None else None) or 0.0


def _limit_score_views(
    connection: duckdb.DuckDBPyConnection, run: Run, baseline: str, own_select: str, criteria: Sequence[Path] = ()
) -> None:
    """Limit the tables that pairs are read from to the baseline's rows and the run's own.

    own_select: of the run's scores. criteria: files of per-case criteria, which pairs have in common.
    """
    connection.execute(
        f"create or replace temp view output_scores as select run_id, {_SCORES} from lake.output_scores "
        f"where run_id = '{quoted(baseline)}' "
        f"union all select '{quoted(run.run_id)}' as run_id, {_SCORES} from ({own_select})"
    )
    bodies = "select '' as run_id, '' as output_id, '' as body where false"
    if criteria:
        bodies = (
            f"select run_id, output_id, body from lake.case_criteria where run_id = '{quoted(baseline)}' union all "
            f"select '{quoted(run.run_id)}', output_id, body from read_parquet({file_list(map(str, criteria))})"
        )
    connection.execute(f"create or replace temp view case_criteria as {bodies}")


def _analyse_pair(
    connection: duckdb.DuckDBPyConnection,
    run: Run,
    plan: StopPlan,
    pair: PlannedPair,
    ends: Sequence[int],
    bounds: Interval,
) -> PairAnalysis:
    """Comparison of a pair of models at the last of some interim analyses."""
    make_overall_pairs(connection, RunPair(plan.baseline_run_id or "", run.run_id), pair.groups)
    parameters = {"order": [str(_order_file(run.folder))], "weights": run.rubric.weights}
    pairs = connection.execute(query("comparing/stop_pairs"), parameters).to_arrow_table()
    positions, differences, *bounds_of_missing = (column.to_numpy() for column in pairs.columns)
    rule = replace(read_stop_rule(plan.rule), alpha=plan.alpha)
    least, most = (
        analyse_interim(rule, ends, positions, values, pair.unit_count, bounds, -plan.margin)
        for values in bounds_of_missing
    )
    # A missing score has its worst value for the side that a decision favours.
    decided = least if least.sign > 0 else most if most.sign < 0 else None
    is_known = ~np.isnan(differences)
    mean = float(differences[is_known].mean()) if is_known.any() else None
    low, high = (None if isnan(end) else end for end in (least.low, most.high))
    decision: Decision = "undecided"
    if decided is not None:
        decision = "worse" if decided.sign < 0 else "better" if least.low > 0 or not plan.margin else "not worse"
    decided_at = None if decided is None else decided.decided_at
    return PairAnalysis(pair.name, decision, decided_at, int(is_known.sum()), mean, low, high, least.level)


def _bounds(rubric: Rubric, folder: RunFolder) -> Interval:
    """Range of a difference of two overall scores: -1..1, wider with penalties."""
    rubric_weights = np.array([*effective_weights(rubric).values()])
    gains, losses = (np.atleast_1d(np.maximum(signed, 0.0).sum()) for signed in (rubric_weights, -rubric_weights))
    if files := case_criteria_files(folder):
        rows = pa.concat_tables(pq.read_table(file, columns=["output_id", "weight"]) for file in files)
        weights, ids = rows.column("weight").to_numpy(), rows.column("output_id").to_numpy()
        gains, losses = (
            sums + np.array([0.0, *cluster_sums(np.maximum(signed, 0.0), ids)[0]])
            for sums, signed in ((gains, weights), (losses, -weights))
        )
    widest = 1.0 + float((losses[gains > 0] / gains[gains > 0]).max(initial=0.0))
    return Interval(-widest, widest)


def _write_scores(run: Run, shards: tuple[str, ...]) -> None:
    """Write the overall scores of the shards that are judged."""
    database = run.folder.path / "look.duckdb"
    database.unlink(missing_ok=True)
    try:
        with connect_marts(database, MEMORY_LIMIT) as connection:
            add_score_sources(connection, run.folder, run.rubric, shards)
            build_marts(connection, only="output_scores")
            with replaced_file(_scores_file(run.folder)) as temporary:
                connection.execute(f"copy output_scores to '{quoted(str(temporary))}' (format parquet)")
    finally:
        database.unlink(missing_ok=True)


def _order_file(folder: RunFolder) -> Path:
    return folder.block_folder / "order.parquet"


def _scores_file(folder: RunFolder) -> Path:
    return folder.block_folder / "output_scores.parquet"


def _shard_folder(folder: RunFolder) -> Path:
    return folder.block_folder / "shards"
