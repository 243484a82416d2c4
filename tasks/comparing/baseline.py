"""Baseline of a run: which run a word of `--baseline` means, runs pinned by `gradebook suite reference set`, checks of
the baseline of an unpublished run, and the stored outcome.
"""

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime

import duckdb

from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.model.rubric import Rubric, scored_category_weights
from gradebook.rubrics.statistics.rules import AUTO, CATEGORY, CRITERION, RELEASE_RULE, names_in
from gradebook.rubrics.text.wording import counted
from gradebook.tasks.comparing.gate import GateRule, first_of, gate_rule
from gradebook.tasks.comparing.sides import (
    BASELINE_AND_RUN,
    Groups,
    RunPair,
    alone_in_run,
    describe_judges,
    is_judged,
    pair_groups,
    planned_run_judge,
    read_epoch,
    read_side,
    refuse_judges,
)
from gradebook.tasks.judging.settings.judge import Judge
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import commit, connect_up_to_date
from gradebook.tasks.lake.errors import NoLakeThere
from gradebook.tasks.lake.rows import Row, read_published_run, read_rows
from gradebook.tasks.lake.sql import file_list, query, quoted
from gradebook.tasks.runs.request import BASELINE_WORDS, BEST, REFERENCE, EvaluationRequest
from gradebook.tasks.runs.run import Run
from gradebook.tasks.system.files import write_text
from gradebook.tasks.workspace.folder import LATEST, RunFolder

MOST_NAMED = 10


@dataclass(frozen=True, slots=True)
class Baseline:
    """Outcome of a comparison with a baseline. run_id: None without one; not_compared: parts without a counterpart.

    fault: why there was no comparison although the rubric has earlier runs. series: number of the look with its level,
    and the factor by which its p are multiplied; None without a series. chosen_from, choice, failed: see `Choice`.
    """

    run_id: str | None = None
    not_compared: tuple[str, ...] = ()
    fault: str | None = None
    series: Row | None = None
    chosen_from: int = 1
    choice: str | None = None
    failed: tuple[str, ...] = ()


def refuse_baseline(lake: Lake, rubric: Rubric, judge: Judge | None, request: EvaluationRequest) -> None:
    """Raise `InputError` if the requested baseline or rule can't be used for a run."""
    run_id, baseline = request.run_id, request.baseline
    gate = gate_rule(request.fail_if, RELEASE_RULE if request.require == AUTO else request.require)
    if gate is not None:
        gate.parse()  # an invalid rule is found before any other fault
    if baseline is None:
        if gate is not None:
            raise InputError(gate.option, "no --baseline", f"a run to check the rule against, or {LATEST}")
        return
    if baseline == run_id:
        raise InputError("--baseline", f"{baseline}, which --run-id names too", "another run")
    try:
        with connect_up_to_date(lake) as connection:
            baseline_id = known_baseline(connection, rubric.id, request.suite, baseline)
            if baseline_id is not None:
                side = read_side(connection, lake, baseline_id, "--baseline")
                is_by_judge = is_judged(rubric) and is_judged(side.rubric, side.own_methods)
                if gate is not None and is_by_judge and not request.across_judges:
                    planned = planned_run_judge(judge, read_epoch(connection, judge))
                    refuse_judges(describe_judges(side.judge, planned, BASELINE_AND_RUN), "--baseline")
            if gate is not None:
                _refuse_unknown_ids(connection, gate, rubric, baseline_id)
    except NoLakeThere:
        if baseline not in BASELINE_WORDS or baseline == REFERENCE:
            raise


def refuse_unpaired(run: Run, shards: Sequence[str]) -> None:
    """Raise `InputError` if no model of a run's outputs can be paired with one of the named or pinned run."""
    baseline = run.request.baseline
    if baseline is None or (baseline in BASELINE_WORDS and baseline != REFERENCE):
        return
    with connect_up_to_date(run.lake) as connection:
        baseline_id = known_baseline(connection, run.rubric.id, run.request.suite, baseline)
        if baseline_id is not None:
            pair_own_groups(connection, RunPair(baseline_id, run.run_id), shards)


def paired_groups(lake: Lake, run_id: str, baseline: str, shards: Sequence[str]) -> list[Groups]:
    """Models of the named run, each with its counterpart of a run. Raises `InputError` if there is no such pair."""
    with connect_up_to_date(lake) as connection:
        return pair_own_groups(connection, RunPair(baseline, run_id), shards)


def pair_own_groups(connection: duckdb.DuckDBPyConnection, wanted: RunPair, shards: Sequence[str]) -> list[Groups]:
    """Pair the models of a baseline (A) with those of an unpublished run's outputs. Raises as `pair_groups`."""
    own_select = f"select distinct '{quoted(wanted.run_b)}' as run_id, model, checkpoint"
    connection.execute(
        "create or replace temp view run_scores as select run_id, model, checkpoint from lake.run_scores "
        f"union all {own_select} from read_parquet({file_list(shards)})"
    )
    try:
        return pair_groups(connection, wanted)[0]
    except InputError as error:
        raise error.at("--baseline") from None


def store_baseline(folder: RunFolder, baseline: Baseline) -> None:
    """Store the outcome of the comparison for the run's publication."""
    write_text(folder.baseline_file, json.dumps(asdict(baseline)))


def stored_baseline(folder: RunFolder) -> Baseline:
    """Stored outcome of the comparison; without a run id if there was none yet."""
    if not folder.baseline_file.exists():
        return Baseline()
    stored = json.loads(folder.baseline_file.read_text(encoding="utf-8"))
    lists = {name: tuple(stored.get(name, ())) for name in ("not_compared", "failed")}
    return Baseline(**stored | lists)


def baseline_notes(rubric_id: str, folder: RunFolder, baseline: str | None, gate: GateRule | None) -> list[str]:
    """Notes to the user about a comparison, one sentence each. baseline, gate: of the request."""
    if baseline is None:
        return []
    stored = stored_baseline(folder)
    if stored.fault is not None:
        return [f"not compared with a baseline: {stored.fault}"]
    if stored.run_id is None:
        unchecked = "" if gate is None else f", and {gate.option} is not checked"
        reason = stored.choice or f"no earlier run of {rubric_id} has a model in common"
        return [f"{reason}: no comparison{unchecked}"]
    notes = [stored.series["sentence"]] if stored.series else []
    notes += [stored.choice] if stored.choice else []
    if stored.not_compared:
        parts = [alone_in_run(part, stored.run_id) for part in stored.not_compared]
        notes.append(f"not compared with {stored.run_id}: {first_of(parts, MOST_NAMED)}")
    return notes


def _refuse_unknown_ids(
    connection: duckdb.DuckDBPyConnection, gate: GateRule, rubric: Rubric, baseline: str | None
) -> None:
    """Check a gate's ids against those of the rubric and the baseline's per-case criteria.

    baseline: None if it is chosen after judging. If there is no earlier run, per-case criteria are unknown, so their
    ids are accepted.
    """
    criterion_ids = [criterion.id for criterion in rubric.criteria]
    named_ids = {
        name.scope_id for name in names_in(gate.parse()) if name.scope == CRITERION and name.scope_id is not None
    }
    if not named_ids <= {*criterion_ids}:
        values = {"run": baseline, "any": baseline is None, "rubric": rubric.id}
        published = (
            "select run_id from runs where status = 'published' and (run_id = $run or ($any and rubric_id = $rubric))"
        )
        runs = [run for (run,) in connection.execute(published, values).fetchall()]
        own_select = (
            "select distinct criterion_id from case_criteria where list_contains($runs, run_id) order by criterion_id"
        )
        own_ids = [criterion_id for (criterion_id,) in connection.execute(own_select, {"runs": runs}).fetchall()]
        criterion_ids += own_ids if runs else sorted(named_ids)
    ids: dict[str, Collection[str]] = {CRITERION: criterion_ids, CATEGORY: [*scored_category_weights(rubric)]}
    gate.refuse_unknown_ids(ids)


FailedModels = Callable[[duckdb.DuckDBPyConnection, Lake, str], frozenset[str]]
"""Models of a published run that are known to fail a requirement that counts, without their checkpoints."""

_PINNED = """
select run_id from reference_runs where rubric_id = ? and (suite is null or suite = ?) order by suite nulls last limit 1
"""
_ALL = "select rubric_id, suite, run_id, set_at from reference_runs order by rubric_id, suite nulls first"
_CLEAR = "delete from reference_runs where rubric_id = ? and suite is not distinct from ?"


@dataclass(frozen=True, slots=True)
class BaselineSearch:
    """Search for the run that a word means.

    suite, night: of a nightly run, which is compared with the suite's runs of earlier dates, even after repetitions.
    model, checkpoint, dataset_digest: of a checkpoint's run, which is compared with other checkpoints of its model.
    dataset: name of the outputs of other runs; runs over outputs of the same name go first. rubric_digest, judge: of
    the run; the best is chosen among runs of the same ones. is_any_judge: or of any judge.
    """

    run_id: str
    rubric_id: str
    suite: str | None = None
    night: str | None = None
    model: str | None = None
    checkpoint: str | None = None
    dataset_digest: str | None = None
    dataset: str | None = None
    rubric_digest: str | None = None
    judge: str | None = None
    is_any_judge: bool = False

    def earlier(self) -> Row:
        """Parameters of the query `earlier_runs`."""
        names = ("run_id", "rubric_id", "suite", "night", "model", "checkpoint", "dataset_digest")
        return {name: value for name, value in asdict(self).items() if name in names}


@dataclass(frozen=True, slots=True)
class Choice:
    """Run that a word means; None if there is none.

    chosen_from: number of runs that the best was chosen from. note: how it was chosen, or why there is none although
    runs with a model in common exist. failed: models of the run that failed their gates in the chosen one.
    """

    run_id: str | None
    chosen_from: int = 1
    note: str | None = None
    failed: tuple[str, ...] = ()


def baseline_search(run: Run) -> BaselineSearch:
    """Search of a run for its baseline."""
    request, checkpoint = run.request, run.request.checkpoint
    search = BaselineSearch(
        run.run_id,
        run.rubric.id,
        rubric_digest=run.rubric_digest,
        judge=run.judge.judge if run.judge else None,
        is_any_judge=request.across_judges,
    )
    if checkpoint is not None:
        name, digest = checkpoint.checkpoint, run.dataset_digest
        return replace(search, model=checkpoint.model, checkpoint=name, dataset_digest=digest)
    if request.suite is not None:
        return replace(search, suite=request.suite, night=None if request.night is None else request.night.isoformat())
    return replace(search, dataset=request.dataset or request.outputs)


def choose_baseline(
    connection: duckdb.DuckDBPyConnection,
    lake: Lake,
    files: Sequence[str],
    search: BaselineSearch,
    word: str,
    failed_models: FailedModels,
) -> Choice:
    """Choose the run to compare with. word: of `BASELINE_WORDS`, or a run's id.

    A first checkpoint of a model is compared with the pinned reference of its rubric, if there is one. files: with
    columns model and checkpoint.
    """
    if word not in BASELINE_WORDS:
        return Choice(word)
    if word == REFERENCE:
        return Choice(pinned_run(connection, search.rubric_id, search.suite))
    parameters = search.earlier() | {"groups": list(files), "dataset": search.dataset}
    candidates = read_rows(connection, query("comparing/baseline_candidates"), **parameters)
    if word == LATEST:
        if candidates or search.model is None:
            return Choice(candidates[0]["run_id"] if candidates else None)
        return Choice(pinned_run(connection, search.rubric_id, None))
    return _choose_by_gates(connection, lake, search, candidates, word == BEST, failed_models)


def _choose_by_gates(
    connection: duckdb.DuckDBPyConnection,
    lake: Lake,
    search: BaselineSearch,
    candidates: Sequence[Row],
    is_best: bool,
    failed_models: FailedModels,
) -> Choice:
    """Choose the last of the candidates that met its gates, or the one with the highest mean of those that did.

    A model that has met its gates in no candidate does not count: it would leave the other models without a baseline.
    Where each candidate fails a model that counts, the oldest of those with the fewest such models.
    """
    if is_best:
        comparable = [
            row
            for row in candidates
            if row["mean"] is not None
            and row["rubric_digest"] == search.rubric_digest
            and (search.is_any_judge or row["judge"] == search.judge)
        ]
        if candidates and not comparable:
            return Choice(None, note="no earlier run is of the same rubric version and judge")
        candidates = comparable
    if not candidates:
        return Choice(None)
    failing = _FailingModels(connection, lake, failed_models)
    is_last_met = not is_best and not failing.of(candidates[0])  # then no other one need be read
    never_met = frozenset[str]() if is_last_met else failing.in_all(candidates)
    fewest = 0 if is_last_met else min(len(failing.of(row) - never_met) for row in candidates)
    # Of runs that all fail, the oldest: a newer one may be a fall that is not mended, and would pass as the new normal.
    ordered = candidates if fewest == 0 else candidates[::-1]
    met = (row for row in ordered if len(failing.of(row) - never_met) == fewest)
    chosen, met_count = next(met), 1
    if is_best:
        others = [chosen, *met]
        chosen, met_count = max(others, key=lambda row: row["mean"]), len(others)  # the newest of equals
    run_id, failed = chosen["run_id"], failing.of(chosen)
    notes = [_failed_words(run_id, failed, never_met)] if failed else []
    if met_count > 1:
        which = "" if failed else " that met their gates"
        notes.append(f"{run_id} is the best of {met_count:,} runs{which}: p and intervals allow for it")
    elif not is_best and (later_count := candidates.index(chosen)):
        later = f"{counted(later_count, 'later run')} did not meet {'its' if later_count == 1 else 'their'} gates"
        notes.append(f"compared with {run_id}, as {later}")
    return Choice(run_id, met_count, "; ".join(notes) or None, tuple(sorted(failed)))


def _failed_words(run_id: str, failed: frozenset[str], never_met: frozenset[str]) -> str:
    """Note on a baseline in which models failed their gates: why it was chosen."""
    if failed <= never_met:
        names = first_of(sorted(failed), MOST_NAMED)
        return f"no earlier run met the gates of {names}, so a failure of {names} in {run_id} does not count"
    return f"compared with {run_id}, in which the fewest models failed their gates: no earlier run met those of all"


class _FailingModels:
    """Models of candidates that failed their gates there, of those that the run has too."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, lake: Lake, failed_models: FailedModels) -> None:
        self._connection, self._lake, self._failed_models = connection, lake, failed_models
        self._of: dict[str, frozenset[str]] = {}

    def of(self, candidate: Row) -> frozenset[str]:
        """Models that failed in one candidate."""
        run_id = candidate["run_id"]
        if run_id not in self._of:
            failed = self._failed_models(self._connection, self._lake, run_id)
            self._of[run_id] = failed.intersection(candidate["models"])
        return self._of[run_id]

    def in_all(self, candidates: Sequence[Row]) -> frozenset[str]:
        """Models that failed in each candidate that has them."""
        failed = frozenset[str]().union(*(self.of(row) for row in candidates))
        return failed.difference(*({*row["models"]} - self.of(row) for row in candidates))


def has_earlier_runs(connection: duckdb.DuckDBPyConnection, search: BaselineSearch) -> bool:
    """Whether there are published runs that a word may choose from."""
    select = f"select count(*) > 0 from ({query('comparing/earlier_runs')})"
    ((has_earlier,),) = connection.execute(select, search.earlier()).fetchall()
    return bool(has_earlier)


def known_baseline(
    connection: duckdb.DuckDBPyConnection, rubric_id: str, suite: str | None, word: str | None
) -> str | None:
    """Run to compare with, where it is known before judging: the named or pinned one; None for other words.

    Raises `InputError` for `reference` if no run is pinned.
    """
    if word != REFERENCE:
        return None if word in BASELINE_WORDS else word
    pinned = pinned_run(connection, rubric_id, suite)
    if pinned is None:
        raise InputError(
            "--baseline", f"reference, and none of {rubric_id} is pinned", "`gradebook suite reference set RUN` before"
        )
    return pinned


def pinned_run(connection: duckdb.DuckDBPyConnection, rubric_id: str, suite: str | None) -> str | None:
    """Pinned run of a suite, else of its rubric; None without one."""
    rows = read_rows(connection, _PINNED, rubric_id, suite)
    return str(rows[0]["run_id"]) if rows else None


def pin_reference(lake: Lake, run_id: str, suite: str | None, now: datetime) -> Row:
    """Pin a published run as the reference of its rubric, or of a suite, in place of an earlier one.

    Raises `InputError` for an unknown run, and for one that stopped early.
    """
    pinned: Row = {}

    def body(connection: duckdb.DuckDBPyConnection, _version: int) -> None:
        run = read_published_run(connection, lake, run_id)
        if run["stopped_at"] is not None:
            raise InputError("reference", f"{run_id}, which stopped early and lacks cases", "a run of all its cases")
        connection.execute(_CLEAR, [run["rubric_id"], suite])
        connection.execute("insert into reference_runs values (?, ?, ?, ?)", [run["rubric_id"], suite, run_id, now])
        pinned.update({"rubric_id": run["rubric_id"], "suite": suite, "run_id": run_id, "set_at": now})

    commit(lake, f"reference {run_id}", body)
    return pinned


def clear_reference(lake: Lake, rubric_id: str, suite: str | None) -> Row:
    """Unpin the reference of a rubric, or of a suite. Raises `InputError` if there is none."""
    cleared: list[Row] = []

    def body(connection: duckdb.DuckDBPyConnection, _version: int) -> None:
        rows = [row for row in read_rows(connection, _ALL) if (row["rubric_id"], row["suite"]) == (rubric_id, suite)]
        if not rows:
            of_suite = "" if suite is None else f" of the suite {suite}"
            fault = f"no reference of {rubric_id}{of_suite}"
            raise InputError("reference", fault, "one of those that `gradebook suite reference list` lists")
        connection.execute(_CLEAR, [rubric_id, suite])
        cleared[:] = rows

    commit(lake, f"reference of {rubric_id} cleared", body)
    return cleared[0]


def list_references(lake: Lake) -> tuple[Row, ...]:
    """List the pinned runs, by rubric and suite."""
    with connect_up_to_date(lake) as connection:
        return read_rows(connection, _ALL)
