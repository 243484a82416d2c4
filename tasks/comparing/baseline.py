"""The run that another is compared with before it is published: named, or the last one; and what was kept of it."""

import json
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass

import duckdb

from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.model.rubric import Rubric, category_weights
from gradebook.rubrics.statistics.rule_parser import parse_rule, refuse_unknown_ids
from gradebook.rubrics.statistics.rules import CATEGORY, CRITERION, Rule, names_in
from gradebook.tasks.comparing.gate import FIGURES
from gradebook.tasks.comparing.model_pairs import Wanted, pair_groups, read_side
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect_up_to_date
from gradebook.tasks.lake.errors import NoLakeThere
from gradebook.tasks.lake.sql import file_list, query, quoted
from gradebook.tasks.system.files import write_text
from gradebook.tasks.workspace.folder import RunFolder

LATEST = "latest"
MOST_NAMED = 10


@dataclass(frozen=True, slots=True)
class Looking:
    """For which run `latest` looks.

    suite, night: of a night's run, which stands beside an earlier night of its suite, however often both were run.
    model, checkpoint, dataset_digest: of a checkpoint's run, which stands beside another checkpoint of its model.
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
    """What a run was compared with. run_id: None where there was none; not_compared: what stands beside nothing.

    fault: why it was compared with none, although the rubric has earlier runs.
    """

    run_id: str | None = None
    not_compared: tuple[str, ...] = ()
    fault: str | None = None


def refuse_baseline(lake: Lake, rubric: Rubric, run_id: str | None, baseline: str | None, fail_if: str | None) -> None:
    """Raise `InputError` where a run can't be held against the baseline, or the rule, that is asked for."""
    rule = None if fail_if is None else parse_rule(fail_if, FIGURES)
    if baseline is None:
        if rule is not None:
            raise InputError("--fail-if", "no --baseline", "a run to hold the rule against, or latest")
        return
    if baseline == run_id:
        raise InputError("--baseline", f"{baseline}, which --run-id names too", "another run")
    try:
        with connect_up_to_date(lake) as connection:
            if baseline != LATEST:
                read_side(connection, lake, baseline, "--baseline")
            if rule is not None:
                _refuse_unknown_ids(connection, rule, rubric, baseline)
    except NoLakeThere:
        if baseline != LATEST:
            raise


def refuse_unpaired(lake: Lake, run_id: str, baseline: str | None, shards: Sequence[str]) -> None:
    """Raise `InputError` where no model of a run's outputs can stand beside one of the run that is named."""
    if baseline is None or baseline == LATEST:
        return
    with connect_up_to_date(lake) as connection:
        own = f"select distinct '{quoted(run_id)}' as run_id, model, checkpoint from read_parquet({file_list(shards)})"
        connection.execute(
            f"create temp view run_scores as select run_id, model, checkpoint from lake.run_scores union all {own}"
        )
        try:
            pair_groups(connection, Wanted(baseline, run_id))
        except InputError as error:
            raise error.at("--baseline") from None


def find_baseline(connection: duckdb.DuckDBPyConnection, folder: RunFolder, looking: Looking, asked: str) -> str | None:
    """The id of the run to compare with: the one that is named, or the last one published of the same rubric that has a
    model in common; None where there is none. Wants the run's mart `run_scores`.
    """
    if asked != LATEST:
        return asked
    latest = query("comparing/latest_baseline", earlier_runs=f"({query('comparing/earlier_runs')})")
    own_scores = [str(folder.mart_file("run_scores"))]
    found = connection.execute(latest, asdict(looking) | {"run_scores": own_scores}).fetchall()
    return str(found[0][0]) if found else None


def has_earlier_runs(connection: duckdb.DuckDBPyConnection, looking: Looking) -> bool:
    """Whether there are published runs that `latest` looks among."""
    counted = f"select count(*) > 0 from ({query('comparing/earlier_runs')})"
    ((has_earlier,),) = connection.execute(counted, asdict(looking)).fetchall()
    return bool(has_earlier)


def keep_baseline(folder: RunFolder, baseline: Baseline) -> None:
    """Keep what a run was compared with, for its publication."""
    write_text(folder.baseline_file, json.dumps(asdict(baseline)))


def kept_baseline(folder: RunFolder) -> Baseline:
    """What the run was compared with; one without an id where it was not, or not yet."""
    if not folder.baseline_file.exists():
        return Baseline()
    kept = json.loads(folder.baseline_file.read_text(encoding="utf-8"))
    return Baseline(kept["run_id"], tuple(kept["not_compared"]), kept.get("fault"))


def baseline_notes(rubric_id: str, folder: RunFolder, asked: str | None, fail_if: str | None) -> list[str]:
    """What a person should know of a comparison, a sentence each. asked, fail_if: of the request."""
    if asked is None:
        return []
    kept = kept_baseline(folder)
    if kept.fault is not None:
        return [f"compared with none: {kept.fault}"]
    if kept.run_id is None:
        unheld = "" if fail_if is None else ", and --fail-if is held against nothing"
        return [f"no earlier run of {rubric_id} has a model in common: compared with none{unheld}"]
    if not kept.not_compared:
        return []
    named, more = kept.not_compared[:MOST_NAMED], len(kept.not_compared) - MOST_NAMED
    rest = f"; and {more:,} more" if more > 0 else ""
    return [f"not compared with {kept.run_id}: {'; '.join(named)}{rest}"]


def _refuse_unknown_ids(connection: duckdb.DuckDBPyConnection, rule: Rule, rubric: Rubric, baseline: str) -> None:
    """Hold a rule's ids against those of the rubric and those that rows of the baseline brought along.

    Where a first run has nothing to be compared with, nobody knows yet what its rows bring along.
    """
    asked = [criterion.id for criterion in rubric.criteria]
    named = {name.scope_id for name in names_in(rule) if name.scope == CRITERION and name.scope_id is not None}
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
    ids: dict[str, Collection[str]] = {CRITERION: asked, CATEGORY: [*category_weights(rubric)]}
    refuse_unknown_ids(rule, ids)
