"""Baselines: the run, named or latest, that an unpublished run is compared with, and its stored outcome."""

import json
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass

import duckdb

from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.model.rubric import Rubric, scored_category_weights
from gradebook.rubrics.statistics.rules import CATEGORY, CRITERION, names_in
from gradebook.tasks.comparing.gate import GateRule, first_of, gate_rule
from gradebook.tasks.comparing.judges import asked_judge, describe_judges, is_judged, read_epoch, refuse_judges
from gradebook.tasks.comparing.model_pairs import Groups, Wanted, pair_groups, read_side
from gradebook.tasks.judging.settings.panels import Judge
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect_up_to_date
from gradebook.tasks.lake.errors import NoLakeThere
from gradebook.tasks.lake.rows import Row
from gradebook.tasks.lake.sql import file_list, query, quoted
from gradebook.tasks.runs.request import EvaluationRequest
from gradebook.tasks.runs.run import Run
from gradebook.tasks.system.files import write_text
from gradebook.tasks.workspace.folder import RunFolder

LATEST = "latest"
MOST_NAMED = 10


@dataclass(frozen=True, slots=True)
class BaselineSearch:
    """Search for the run that `latest` means.

    suite, night: of a nightly run, which is compared with the suite's run of an earlier date, even after repetitions.
    model, checkpoint, dataset_digest: of a checkpoint's run, which is compared with another checkpoint of its model.
    """

    run_id: str
    rubric_id: str
    suite: str | None = None
    night: str | None = None
    model: str | None = None
    checkpoint: str | None = None
    dataset_digest: str | None = None


@dataclass(frozen=True, slots=True)
class Baseline:
    """Outcome of a comparison with a baseline. run_id: None without one; not_compared: parts without a counterpart.

    fault: why there was no comparison although the rubric has earlier runs. series: number of the look with its level,
    and the factor by which its p are multiplied; None without a series.
    """

    run_id: str | None = None
    not_compared: tuple[str, ...] = ()
    fault: str | None = None
    series: Row | None = None


def refuse_baseline(lake: Lake, rubric: Rubric, judge: Judge | None, request: EvaluationRequest) -> None:
    """Raise `InputError` if the requested baseline or rule can't be used for a run."""
    run_id, baseline, gate = request.run_id, request.baseline, gate_rule(request.fail_if, request.require)
    if gate is not None:
        gate.parse()  # an invalid rule is found before any other fault
    if baseline is None:
        if gate is not None:
            raise InputError(gate.option, "no --baseline", "a run to check the rule against, or latest")
        return
    if baseline == run_id:
        raise InputError("--baseline", f"{baseline}, which --run-id names too", "another run")
    try:
        with connect_up_to_date(lake) as connection:
            if baseline != LATEST:
                side = read_side(connection, lake, baseline, "--baseline")
                is_by_judge = is_judged(rubric) and is_judged(side.rubric, side.own_methods)
                if gate is not None and is_by_judge and not request.across_judges:
                    refuse_judges(
                        describe_judges(side.judge, asked_judge(judge, read_epoch(connection, judge))), "--baseline"
                    )
            if gate is not None:
                _refuse_unknown_ids(connection, gate, rubric, baseline)
    except NoLakeThere:
        if baseline != LATEST:
            raise


def refuse_unpaired(lake: Lake, run_id: str, baseline: str | None, shards: Sequence[str]) -> None:
    """Raise `InputError` if no model of a run's outputs can be paired with one of the named run."""
    if baseline is not None and baseline != LATEST:
        paired_groups(lake, run_id, baseline, shards)


def paired_groups(lake: Lake, run_id: str, baseline: str, shards: Sequence[str]) -> list[Groups]:
    """Models of the named run, each with its counterpart of a run. Raises `InputError` if there is no such pair."""
    with connect_up_to_date(lake) as connection:
        return pair_own_groups(connection, Wanted(baseline, run_id), shards)


def pair_own_groups(connection: duckdb.DuckDBPyConnection, wanted: Wanted, shards: Sequence[str]) -> list[Groups]:
    """Pair the models of a baseline (A) with those of an unpublished run's outputs. Raises as `pair_groups`."""
    own = f"select distinct '{quoted(wanted.run_b)}' as run_id, model, checkpoint"
    connection.execute(
        "create or replace temp view run_scores as select run_id, model, checkpoint from lake.run_scores "
        f"union all {own} from read_parquet({file_list(shards)})"
    )
    try:
        return pair_groups(connection, wanted)[0]
    except InputError as error:
        raise error.at("--baseline") from None


def find_baseline(
    connection: duckdb.DuckDBPyConnection, files: Sequence[str], search: BaselineSearch, asked: str
) -> str | None:
    """Id of the run to compare with; None if there is none. files: with the columns model and checkpoint of the run.

    The baseline is the named run, or the latest published run of the rubric with a common model.
    """
    if asked != LATEST:
        return asked
    latest = query("comparing/latest_baseline")
    found = connection.execute(latest, asdict(search) | {"groups": list(files)}).fetchall()
    return str(found[0][0]) if found else None


def baseline_search(run: Run) -> BaselineSearch:
    """Search of a run for its latest baseline."""
    request, one = run.request, run.request.checkpoint
    if one is not None:
        return BaselineSearch(
            run.run_id, run.rubric.id, model=one.model, checkpoint=one.checkpoint, dataset_digest=run.dataset_digest
        )
    night = None if request.night is None else request.night.isoformat()
    return BaselineSearch(run.run_id, run.rubric.id, request.suite, night)


def has_earlier_runs(connection: duckdb.DuckDBPyConnection, search: BaselineSearch) -> bool:
    """Whether there are published runs that `latest` may choose from."""
    counted = f"select count(*) > 0 from ({query('comparing/earlier_runs')})"
    ((has_earlier,),) = connection.execute(counted, asdict(search)).fetchall()
    return bool(has_earlier)


def store_baseline(folder: RunFolder, baseline: Baseline) -> None:
    """Store the outcome of the comparison for the run's publication."""
    write_text(folder.baseline_file, json.dumps(asdict(baseline)))


def stored_baseline(folder: RunFolder) -> Baseline:
    """Stored outcome of the comparison; without a run id if there was none yet."""
    if not folder.baseline_file.exists():
        return Baseline()
    stored = json.loads(folder.baseline_file.read_text(encoding="utf-8"))
    return Baseline(stored["run_id"], tuple(stored["not_compared"]), stored.get("fault"), stored.get("series"))


def baseline_notes(rubric_id: str, folder: RunFolder, asked: str | None, gate: GateRule | None) -> list[str]:
    """Notes to the user about a comparison, one sentence each. asked, gate: of the request."""
    if asked is None:
        return []
    stored = stored_baseline(folder)
    if stored.fault is not None:
        return [f"not compared with a baseline: {stored.fault}"]
    if stored.run_id is None:
        unchecked = "" if gate is None else f", and {gate.option} is not checked"
        return [f"no earlier run of {rubric_id} has a model in common: no comparison{unchecked}"]
    notes = [stored.series["sentence"]] if stored.series else []
    if stored.not_compared:
        notes.append(f"not compared with {stored.run_id}: {first_of(stored.not_compared, MOST_NAMED)}")
    return notes


def _refuse_unknown_ids(connection: duckdb.DuckDBPyConnection, gate: GateRule, rubric: Rubric, baseline: str) -> None:
    """Check a gate's ids against those of the rubric and the baseline's per-case criteria.

    If there is no earlier run, per-case criteria are unknown, so their ids are accepted.
    """
    asked = [criterion.id for criterion in rubric.criteria]
    named = {name.scope_id for name in names_in(gate.parse()) if name.scope == CRITERION and name.scope_id is not None}
    if not named <= {*asked}:
        values = {"run": baseline, "latest": baseline == LATEST, "rubric": rubric.id}
        published = (
            "select run_id from runs "
            "where status = 'published' and (run_id = $run or ($latest and rubric_id = $rubric))"
        )
        runs = [run for (run,) in connection.execute(published, values).fetchall()]
        own_ids = (
            "select distinct criterion_id from case_criteria where list_contains($runs, run_id) order by criterion_id"
        )
        own = [each for (each,) in connection.execute(own_ids, {"runs": runs}).fetchall()]
        asked += own if runs else sorted(named)
    ids: dict[str, Collection[str]] = {CRITERION: asked, CATEGORY: [*scored_category_weights(rubric)]}
    gate.refuse_unknown_ids(ids)
