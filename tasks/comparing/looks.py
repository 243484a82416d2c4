"""Looks of a run that may stop: its cases cut into blocks, and a comparison with the baseline after each block.

A look is a function of the stored plan and of the verdicts so far: an interrupted run takes the same looks again.
"""

import re
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
from gradebook.rubrics.statistics.clusters import cluster_sums
from gradebook.rubrics.statistics.intervals import Interval
from gradebook.rubrics.statistics.rule_parser import NOT_WORSE
from gradebook.rubrics.statistics.stopping import expected_share, read_stop_rule, take_looks
from gradebook.tasks.comparing.baseline import LATEST, baseline_search, find_baseline, pair_own_groups
from gradebook.tasks.comparing.case_pairs import make_overall_pairs
from gradebook.tasks.comparing.gate import gate_rule
from gradebook.tasks.comparing.judges import asked_judge, describe_judges, is_judged, read_epoch
from gradebook.tasks.comparing.model_pairs import Side, Wanted, read_side
from gradebook.tasks.comparing.run_comparison import look_of_series
from gradebook.tasks.comparing.stopping import (
    Decision,
    PairLook,
    PlannedPair,
    Stopping,
    StopPlan,
    store_plan,
    store_stopping,
    stored_plan,
)
from gradebook.tasks.datasets.blocks import cut_blocks, read_units, shuffle
from gradebook.tasks.datasets.case_criteria import case_criteria_files
from gradebook.tasks.datasets.ingest import Ingested
from gradebook.tasks.datasets.shards import count_stored
from gradebook.tasks.lake.connections import connect_up_to_date
from gradebook.tasks.lake.errors import NoLakeThere
from gradebook.tasks.lake.rows import read_rows
from gradebook.tasks.lake.sql import file_list, query, quoted
from gradebook.tasks.marts.models import build_marts, connect_marts
from gradebook.tasks.marts.sources import add_score_sources
from gradebook.tasks.planning.plan import StopForecast
from gradebook.tasks.runs.request import EvaluationRequest
from gradebook.tasks.runs.run import Run
from gradebook.tasks.system.files import replaced_file, write_parquet
from gradebook.tasks.workspace.folder import RunFolder

MEMORY_LIMIT = "500MB"
FORECAST_DIFFERENCES = (0.0, -0.03, -0.05, -0.1)  # of a run from its baseline
_MARGIN = re.compile(rf"{NOT_WORSE}\s*\(([^()]*)\)")
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


def plan_looks(run: Run, ingested: Ingested) -> Ingested:
    """Cut a run's shards into the blocks of `--stop`; they stay as they are where nothing can stop the run.

    Raises `InputError` if the named baseline has no scored case in common, another rubric or another judge.
    """
    plan = stored_plan(run.folder)
    if plan is None:
        shutil.rmtree(run.folder.block_folder, ignore_errors=True)  # left by a killed command
        run.folder.block_folder.mkdir()
        plan = _plan(run, ingested)
        store_plan(run.folder, plan)
    if plan.reason is not None:
        run.folder.add_notes([f"--stop {plan.rule} judges all cases: {plan.reason}"])
        return ingested
    shards = sorted(_shard_folder(run.folder).glob("*.parquet"))
    return replace(ingested, shards=tuple(map(str, shards)), blocks=plan.block_counts)


def look(run: Run, ingested: Ingested, block: int) -> bool:
    """Compare the cases of the blocks so far with the baseline; returns whether every pair of models is decided.

    block: number of the last one, from 0. The outcome is stored in the run's folder.
    """
    plan = stored_plan(run.folder)
    if plan is None or plan.baseline_run_id is None or block >= len(plan.ends):
        return False
    _write_scores(run, ingested.shards[: sum(plan.block_counts[: block + 1])])
    bounds = _bounds(run.rubric, run.folder)
    with connect_up_to_date(run.lake) as connection:
        own = f"select {_SCORES} from read_parquet('{quoted(str(_scores_file(run.folder)))}')"
        _show_scores(connection, run, plan.baseline_run_id, own, case_criteria_files(run.folder))
        found = tuple(_look_at(connection, run, plan, pair, plan.ends[: block + 1], bounds) for pair in plan.pairs)
    cases = plan.case_count, plan.case_counts[block]
    stopping = Stopping(
        plan.rule, plan.seed, plan.margin, plan.baseline_run_id, *cases, block + 1, len(plan.ends), found
    )
    store_stopping(run.folder, stopping)
    return stopping.is_decided


def keep_judged(run: Run, ingested: Ingested, shard_count: int) -> Ingested:
    """Outputs of a stopped run: those of its first shards. The per-case criteria of the others are removed."""
    for index in range(shard_count, len(ingested.shards)):
        run.folder.case_criteria_file(index).unlink(missing_ok=True)
    kept = ingested.shards[:shard_count]
    output_count, models = count_stored(map(Path, kept))
    return replace(ingested, shards=kept, output_count=output_count, models=models)


def forecast_stop(run: Run) -> StopForecast | None:
    """Expected share of cases that a planned run judges, by the spread of past differences; None without `--stop`."""
    plan = stored_plan(run.folder)
    if plan is None or plan.baseline_run_id is None:
        return None if plan is None else StopForecast(plan.rule, plan.case_count, plan.reason)
    with connect_up_to_date(run.lake) as connection:
        named = {"rubric_id": run.rubric.id, "baseline": plan.baseline_run_id}
        (spread,) = read_rows(connection, query("comparing/past_spread"), **named)
    known = StopForecast(plan.rule, plan.case_count, baseline_run_id=plan.baseline_run_id)
    sd = spread["sd_diff"] or spread["score_sd"]
    if not sd:
        return known
    rule, rng = replace(read_stop_rule(plan.rule), alpha=plan.alpha), np.random.default_rng(plan.seed)
    expected = tuple(
        (difference, expected_share(rule, plan.ends[-1], sd, difference, rng, -plan.margin))
        for difference in FORECAST_DIFFERENCES
    )
    source = "of the last comparison" if spread["sd_diff"] else f"of the scores of {plan.baseline_run_id}"
    return replace(known, sd=sd, sd_source=source, expected=expected)


def _plan(run: Run, ingested: Ingested) -> StopPlan:
    """Plan of the looks. The seed is part of the outputs' digest, so that the same outputs have the same order."""
    units = read_units(ingested.shards)
    rule, seed = run.request.stop or "", int(run.dataset_digest[:16], 16)
    plan = StopPlan(rule, seed, len(units), margin=_margin(run.request))
    try:
        _refuse_nothing_to_save(run, ingested)
        with connect_up_to_date(run.lake) as connection:
            baseline = _baseline(connection, run, ingested)
            series = look_of_series(connection, run)
            pairs, paired = _planned_pairs(connection, run, baseline, ingested.shards)
    except NoLakeThere:
        return replace(plan, reason="the lake has no earlier run")
    except Unstoppable as reason:
        return replace(plan, reason=str(reason))
    if series is not None and not series["level"]:
        return replace(plan, reason="the looks of its series are over")
    alpha = plan.alpha if series is None else series["level"]
    return _cut(run, ingested, replace(plan, alpha=alpha, baseline_run_id=baseline, pairs=pairs), units, paired)


def _cut(run: Run, ingested: Ingested, plan: StopPlan, units: Mapping[str, str], paired: Iterable[str]) -> StopPlan:
    """Cut the blocks: cases of the baseline first, as the others decide nothing; each in random order."""
    first = {units[case_id] for case_id in paired}
    order = [*shuffle(first, plan.seed), *shuffle({*units.values()} - first, plan.seed)]
    places = {unit: place for place, unit in enumerate(order)}
    positions = {case_id: places[unit] for case_id, unit in units.items()}
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


def _baseline(connection: duckdb.DuckDBPyConnection, run: Run, ingested: Ingested) -> str:
    """Id of the run to compare with."""
    asked = run.request.baseline or LATEST
    baseline = find_baseline(connection, ingested.shards, baseline_search(run), asked)
    if baseline is None:
        raise Unstoppable(f"no earlier run of {run.rubric.id} has a model in common")
    reason = _unlike(connection, run, read_side(connection, run.lake, baseline, "--baseline"))
    if reason is not None:
        raise _refused(asked, reason, "a baseline with the same rubric and judge")
    drawn = connection.execute("select count(stratum) from lake.output_scores where run_id = ?", [baseline]).fetchone()
    if drawn and drawn[0]:
        raise _refused(asked, f"{baseline}, whose cases were drawn by stratum", "one whose cases count alike")
    return baseline


def _refused(asked: str, reason: str, expected: str) -> Exception:
    """Error of a baseline that can't decide anything; `latest` is nobody's choice, so the run goes on without looks."""
    return Unstoppable(reason) if asked == LATEST else InputError("--stop", reason, expected)


def _unlike(connection: duckdb.DuckDBPyConnection, run: Run, side: Side) -> str | None:
    """Why the overall scores of a baseline and of the run are not comparable; None if they are."""
    if (side.run["rubric_digest"], side.rubric.id) != (run.rubric_digest, run.rubric.id):
        return f"{side.run['run_id']} of another rubric, {side.name}"
    if run.request.across_judges or not (is_judged(run.rubric) and is_judged(side.rubric, side.own_methods)):
        return None
    return describe_judges(side.judge, asked_judge(run.judge, read_epoch(connection, run.judge)))


def _planned_pairs(
    connection: duckdb.DuckDBPyConnection, run: Run, baseline: str, shards: Sequence[str]
) -> tuple[tuple[PlannedPair, ...], set[str]]:
    """Pairs of models, and the cases that any of them can compare."""
    wanted = Wanted(baseline, run.run_id)
    groups = pair_own_groups(connection, wanted, shards)
    _show_scores(connection, run, baseline, f"select *, {_UNSCORED} from read_parquet({file_list(shards)})")
    pairs, paired = [], set[str]()
    for of_a, of_b in groups:
        make_overall_pairs(connection, wanted, (of_a, of_b))
        rows = read_rows(connection, query("comparing/stop_cases"))
        paired.update(row["case_id"] for row in rows)
        if rows:
            named = of_a["model"], of_a["checkpoint"], of_b["model"], of_b["checkpoint"]
            pairs.append(PlannedPair(*named, len({row["case_number"] for row in rows})))
    if not pairs:
        reason = f"no case in common with {baseline} that it has a score of"
        raise _refused(run.request.baseline or LATEST, reason, "a baseline with the same cases")
    return tuple(pairs), paired


def _margin(request: EvaluationRequest) -> float:
    """Margin that the run's gate asks about: with it, looks decide whether B is not worse by more."""
    gate = gate_rule(request.fail_if, request.require)
    found = None if gate is None else _MARGIN.fullmatch(gate.required)
    return 0.0 if found is None else float(found[1])


def _show_scores(
    connection: duckdb.DuckDBPyConnection, run: Run, baseline: str, own: str, criteria: Sequence[Path] = ()
) -> None:
    """Limit the tables that pairs are read from to the baseline's rows and the run's own.

    own: select of the run's scores. criteria: files of per-case criteria, which pairs have in common.
    """
    connection.execute(
        f"create or replace temp view output_scores as select run_id, {_SCORES} from lake.output_scores "
        f"where run_id = '{quoted(baseline)}' union all select '{quoted(run.run_id)}' as run_id, {_SCORES} from ({own})"
    )
    bodies = "select '' as run_id, '' as output_id, '' as body where false"
    if criteria:
        bodies = (
            f"select run_id, output_id, body from lake.case_criteria where run_id = '{quoted(baseline)}' union all "
            f"select '{quoted(run.run_id)}', output_id, body from read_parquet({file_list(map(str, criteria))})"
        )
    connection.execute(f"create or replace temp view case_criteria as {bodies}")


def _look_at(
    connection: duckdb.DuckDBPyConnection,
    run: Run,
    plan: StopPlan,
    pair: PlannedPair,
    ends: Sequence[int],
    bounds: Interval,
) -> PairLook:
    """Comparison of a pair of models at the last of some looks."""
    make_overall_pairs(connection, Wanted(plan.baseline_run_id or "", run.run_id), pair.groups)
    order = {"order": [str(_order_file(run.folder))]}
    pairs = connection.execute(query("comparing/stop_pairs"), order).to_arrow_table()
    positions, differences = (column.to_numpy() for column in pairs.columns)
    rule = replace(read_stop_rule(plan.rule), alpha=plan.alpha)
    found = take_looks(rule, ends, positions, differences, pair.unit_count, bounds, -plan.margin)
    mean, low, high = (None if isnan(each) else each for each in (found.mean, found.low, found.high))
    decision: Decision = "undecided"
    if found.sign:
        decision = "worse" if found.sign < 0 else "better" if found.low > 0 or not plan.margin else "not worse"
    return PairLook(pair.name, decision, found.decided_at, found.n, mean, low, high, found.level)


def _bounds(rubric: Rubric, folder: RunFolder) -> Interval:
    """Range of a difference of two overall scores: -1..1, wider with penalties."""
    given = np.array([*effective_weights(rubric).values()])
    gains, losses = (np.atleast_1d(np.maximum(each, 0.0).sum()) for each in (given, -given))
    if own := case_criteria_files(folder):
        rows = pa.concat_tables(pq.read_table(file, columns=["output_id", "weight"]) for file in own)
        weights, ids = rows.column("weight").to_numpy(), rows.column("output_id").to_numpy()
        gains, losses = (
            sums + np.array([0.0, *cluster_sums(np.maximum(each, 0.0), ids)[0]])
            for sums, each in ((gains, weights), (losses, -weights))
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
