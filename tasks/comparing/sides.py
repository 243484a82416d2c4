"""Sides of a comparison: runs, pairs of their models, criteria with the same text in both, and their judges.

Scores are comparable only if one judge, asked in one way, scored both sides.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import duckdb

from gradebook.rubrics.files.versions import rubric_from_body
from gradebook.rubrics.model.errors import InputError, RubricError
from gradebook.rubrics.model.methods import compares_with_baseline
from gradebook.rubrics.model.rubric import Criterion, Rubric
from gradebook.rubrics.text.wording import counted
from gradebook.tasks.judging.settings.judge import REPLAY_PREFIX, Judge
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect_up_to_date
from gradebook.tasks.lake.rows import Row, model_name, read_published_run, read_rows
from gradebook.tasks.lake.sql import query

ACROSS_JUDGES = "--across-judges"
A_AND_B = ("A", "B")
BASELINE_AND_RUN = ("the baseline", "this run")
_PROMPT = ("prompt_version", "prompt_digest")


@dataclass(frozen=True, slots=True)
class RunJudge:
    """Judge of a run. name: None if none was asked. identity: settings that affect a reply, None if not recorded.

    models: by judge, the models that answered, as the endpoint named them; empty if unknown. epoch: time between two
    changes that its anchors showed, from 1; None for a judge without anchors.
    """

    name: str | None = None
    identity: Mapping[str, Any] | None = None
    models: Mapping[str, frozenset[str]] | None = None
    epoch: int | None = None


def read_run_judge(
    connection: duckdb.DuckDBPyConnection, run_id: str, name: str | None, settings: str | None, epoch: int | None = None
) -> RunJudge:
    """Judge of a published run. name, settings, epoch: of its row of `runs`."""
    if name is None:
        return RunJudge()
    rows = connection.execute(query("comparing/answering_models"), {"run_id": run_id}).fetchall()
    models = {judge: frozenset(model_names) for judge, model_names in rows}
    return RunJudge(name, json.loads(settings or "{}").get("judge"), models, epoch)


def planned_run_judge(judge: Judge | None, epoch: int | None = None) -> RunJudge:
    """Judge of a run that is not published; the models that will answer are unknown. epoch: from `read_epoch`."""
    if judge is None:
        return RunJudge()
    return RunJudge(judge.judge, json.loads(json.dumps(judge.identity)), epoch=epoch)  # as read from `runs`


def read_epoch(connection: duckdb.DuckDBPyConnection, judge: Judge | None) -> int | None:
    """Current epoch of a judge, the highest over its anchor sets; None for a judge without anchors."""
    if judge is None:
        return None
    with suppress(duckdb.CatalogException):  # a lake of an earlier gradebook
        rows = connection.execute(query("comparing/judge_epoch"), {"judge_digest": judge.judge_digest}).fetchall()
        return None if rows[0][0] is None else int(rows[0][0])
    return None


def is_judged(rubric: Rubric, own_methods: frozenset[str] = frozenset()) -> bool:
    """Whether a judge scores any criterion. own_methods: of the per-case criteria."""
    return "judge" in own_methods or bool(rubric.asked_criteria)


def describe_judges(a: RunJudge, b: RunJudge, sides: tuple[str, str] = A_AND_B) -> str | None:
    """Difference of two judges in words; None if it is one judge, or if a side has none. sides: names of the runs.

    Two files of recorded replies count as one judge: a recording does not name whose replies it holds.
    """
    if a.name is None or b.name is None:
        return None
    of_a, of_b = a.identity, b.identity
    if are_recorded(a.name, b.name):
        return None
    if of_a is not None and of_a == of_b:
        return _other_models(a, b, sides) or _other_epochs(a, b, sides)
    if a.name != b.name:
        return f"different judges, {a.name} in {sides[0]} and {b.name} in {sides[1]}"
    if of_a is None or of_b is None:
        return _other_models(a, b, sides)
    names = [name for name in {**of_a, **of_b} if of_a.get(name) != of_b.get(name)]
    differences = [
        f"{name} {_setting_text(of_a.get(name))} and {_setting_text(of_b.get(name))}"
        for name in names
        if name not in _PROMPT
    ]
    differences += ["another prompt"] if any(name in _PROMPT for name in names) else []
    return f"{a.name} was asked with different settings in {sides[0]} and {sides[1]}: {', '.join(differences)}"


def are_recorded(a: str | None, b: str | None) -> bool:
    """Whether the judges of these names are both recorded replies."""
    return all((name or "").startswith(REPLAY_PREFIX) for name in (a, b))


def judges_banner(difference: str | None) -> str | None:
    """Banner over a comparison of different judges."""
    if difference is None:
        return None
    return f"{difference}. A judge may be stricter than another, so scores may differ though the outputs do not."


def refuse_judges(difference: str | None, option: str) -> None:
    """Raise `InputError` if a rule would be checked across different judges."""
    if difference is not None:
        raise InputError(option, difference, "one judge for both runs", f"{ACROSS_JUDGES} compares them all the same")


def _other_models(a: RunJudge, b: RunJudge, sides: tuple[str, str]) -> str | None:
    of_a, of_b = a.models or {}, b.models or {}
    for judge in sorted(of_a.keys() & of_b.keys()):
        if of_a[judge] != of_b[judge]:
            answering = [", ".join(sorted(models[judge])) for models in (of_a, of_b)]
            where = [f"{names} in {side}" for names, side in zip(answering, sides, strict=True)]
            return f"{judge} was answered by different models: {' and '.join(where)}"
    return None


def _other_epochs(a: RunJudge, b: RunJudge, sides: tuple[str, str]) -> str | None:
    if a.epoch is None or b.epoch is None or a.epoch == b.epoch:
        return None
    epochs = f"judge epoch {a.epoch} in {sides[0]} and {b.epoch} in {sides[1]}"
    return f"{a.name} changed, as its anchors showed: {epochs}"


def _setting_text(value: Any) -> str:
    return "none" if value is None else value if isinstance(value, str) else json.dumps(value)


_OWN_METHODS = "select distinct method from case_criteria where run_id = ?"
_GROUPS = "select model, checkpoint from run_scores where run_id = ? order by model, checkpoint"


@dataclass(frozen=True, slots=True)
class RunPair:
    """Runs and models to compare; the runs may be the same. model_a, model_b: None to pair all that match.

    A model's name includes its checkpoint, if any: `support @ 1200`.
    """

    run_a: str
    run_b: str
    model_a: str | None = None
    model_b: str | None = None

    @property
    def is_one_run(self) -> bool:
        """Whether both sides are of one run."""
        return self.run_a == self.run_b


@dataclass(frozen=True, slots=True)
class Side:
    """One published run. run: its row of `runs`, without the rubric's text and the settings.

    own_methods: of the per-case criteria. embedder: identity of what gave the vectors, None: they are lexical.
    baseline: id of the run that its outputs were compared with. stopping: last look of a run that might stop, see
    `Stopping`.
    """

    run: Row
    rubric: Rubric
    judge: RunJudge = field(default_factory=RunJudge)
    own_methods: frozenset[str] = frozenset()
    embedder: Row | None = None
    baseline: str | None = None
    stopping: Row | None = None

    @property
    def name(self) -> str:
        """Rubric with its version."""
        return f"{self.run['rubric_id']} {self.run['rubric_version']}"


Groups = tuple[Row, Row]  # a model and checkpoint of A, and its counterpart of B


def read_side(connection: duckdb.DuckDBPyConnection, lake: Lake, run_id: str, option: str = "run") -> Side:
    """Read a published run. option: CLI option named in errors. Raises `InputError` if there is none of that id."""
    run = read_published_run(connection, lake, run_id, query("comparing/run_with_rubric"), option)
    body, settings = run.pop("body"), run.pop("settings")
    if body is None:
        name = f"{run['rubric_id']} {run['rubric_version']}"
        raise InputError(option, f"no rubric {name}", f"the rubric that run {run_id} used")
    run_settings = json.loads(settings or "{}")
    try:
        return Side(
            run,
            rubric_from_body(body),
            read_run_judge(connection, run_id, run["judge"], settings, run["judge_epoch"]),
            frozenset(method for (method,) in connection.execute(_OWN_METHODS, [run_id]).fetchall()),
            run_settings.get("embedder"),
            run_settings.get("verdicts_baseline_run_id")
            or run_settings.get("baseline_run_id"),  # first: of a rescored run
            run_settings.get("stopping"),
        )
    except RubricError as error:
        raise InputError(option, f"the rubric of {run_id} can't be read: {error}") from error


def resolve_run_pair(
    connection: duckdb.DuckDBPyConnection, run_a: str, run_b: str | None, models: tuple[str | None, str | None]
) -> RunPair:
    """Resolve the user's choice of one or two runs and of models.

    One run without models is compared by its two models. Raises `InputError` if it does not have two, or if a run or a
    model would be compared with itself.
    """
    groups = [read_rows(connection, _GROUPS, run) for run in (run_a, run_b or run_a)]
    sides = zip(groups, models, (run_a, run_b or run_a), ("--model-a", "--model-b"), strict=True)
    models = tuple(name and _full_name(rows, name, run, option) for rows, name, run, option in sides)  # type: ignore[assignment]
    wanted = RunPair(run_a, run_b or run_a, *models)
    if wanted.is_one_run and all(models):
        if models[0] == models[1]:
            raise InputError("compare", f"model {models[0]} of run {run_a} on both sides", "two models")
        return wanted
    if run_b == run_a:
        raise InputError(
            "compare", f"run {run_a} on both sides", "two runs, or two models of it with --model-a and --model-b"
        )
    if run_b is not None:
        return wanted
    names = [model_name(row) for row in groups[0]]
    named_models = [name for name in models if name is not None]
    other_models = [name for name in names if name not in named_models]
    if len(named_models) + len(other_models) == 2:
        first, second = (*named_models, *other_models)
        return replace(wanted, model_a=second, model_b=first) if models[1] else RunPair(run_a, run_a, first, second)
    raise InputError(
        "compare",
        f"one run of the models {', '.join(names) or 'none'}",
        "a second run, or two of these with --model-a and --model-b",
    )


def pair_groups(connection: duckdb.DuckDBPyConnection, wanted: RunPair) -> tuple[list[Groups], list[str]]:
    """Pair the models of run A with those of run B.

    Order of precedence: models named by the caller; the only model on each side; same name and checkpoint; same name
    with one remaining checkpoint on each side. Returns the pairs, and descriptions of unpaired models unless models
    were named. Raises `InputError` if nothing can be paired.
    """
    of_a = read_rows(connection, _GROUPS, wanted.run_a)
    of_b = of_a if wanted.is_one_run else read_rows(connection, _GROUPS, wanted.run_b)
    of_a = tuple(row for row in of_a if wanted.model_a in (None, model_name(row)))
    of_b = tuple(row for row in of_b if wanted.model_b in (None, model_name(row)))
    if len(of_a) == len(of_b) == 1:
        return [(of_a[0], of_b[0])], []
    pairs = [*_same_pairs(of_a, of_b)]
    if not pairs:
        names = [", ".join(model_name(row) for row in rows) for rows in (of_a, of_b)]
        raise InputError(
            "compare",
            f"the models {names[0]} and {names[1]}",
            "one each or a common one",
            "--model-a and --model-b name them",
        )
    if wanted.model_a or wanted.model_b:
        return pairs, []
    paired = [[pair[side] for pair in pairs] for side in (0, 1)]
    alone = [f"{model_name(group)}: only in run A" for group in of_a if group not in paired[0]]
    alone += [f"{model_name(group)}: only in run B" for group in of_b if group not in paired[1]]
    return pairs, alone


def alone_in_run(description: str, baseline: str) -> str:
    """Description of a model that only one side has, in words of the run that is compared with a baseline."""
    of_baseline, of_run = (description.removesuffix(f"only in run {side}") for side in "AB")
    if of_baseline != description:
        return f"{of_baseline}only in {baseline}"
    return description if of_run == description else f"{of_run}only in this run"


def _same_pairs(of_a: Sequence[Row], of_b: Sequence[Row]) -> Iterator[Groups]:
    """Pairs of the same model: same checkpoint if both runs have it, otherwise old checkpoint → new checkpoint."""
    lefts = [[group for group in side if group not in other] for side, other in ((of_a, of_b), (of_b, of_a))]
    by_model = [Counter(group["model"] for group in left) for left in lefts]
    for group in of_a:
        if group in of_b:
            yield group, group
        elif by_model[0][group["model"]] == by_model[1][group["model"]] == 1:
            yield group, next(other for other in lefts[1] if other["model"] == group["model"])


def question_changes(old: Criterion, new: Criterion, old_rubric: Rubric, new_rubric: Rubric) -> list[str]:
    """Aspects in which a criterion asks or scores differently, in words; ignores weight, gate and threshold.

    A schema may refer to other schemas of its rubric, so these must be the same too.
    """
    aspects = {
        "name": new.method.type != "judge" or old.name == new.name,
        "description": old.description == new.description,
        "method": old.method == new.method,
        "scale of levels": old.ranked_levels == new.ranked_levels,
        "set of schemas": new.method.type != "schema" or old_rubric.schemas == new_rubric.schemas,
    }
    return [name for name, is_same in aspects.items() if not is_same]


def same_criteria(old: Rubric, new: Rubric) -> tuple[list[str], list[str]]:
    """Ids of criteria with the same text, in the newer rubric's order; and descriptions of the others."""
    olds, news = ({criterion.id: criterion for criterion in rubric.criteria} for rubric in (old, new))
    changes = {name: question_changes(olds[name], news[name], old, new) for name in news if name in olds}
    same = [name for name in changes if not changes[name]]
    other_criteria = [f"{name}: another {' and '.join(aspects)}" for name, aspects in changes.items() if aspects]
    other_criteria += [f"{name}: only in {new.id} {new.version}" for name in news if name not in olds]
    other_criteria += [f"{name}: only in {old.id} {old.version}" for name in olds if name not in news]
    return same, other_criteria


def is_one_version(a: Side, b: Side) -> bool:
    """Whether both runs used one rubric, so that their overall scores can be compared."""
    return bool(a.run["rubric_digest"] == b.run["rubric_digest"] and a.rubric.id == b.rubric.id)


def has_stopped(side: Side) -> bool:
    """Whether a run stopped before all its cases were judged."""
    return side.stopping is not None and side.stopping["stopped_at"] is not None


def interim_factor(a: Side, b: Side) -> float:
    """Factor for p and intervals of a comparison whose cases depend on interim analyses of it, or of another one."""
    factors = [1.0]
    for side, other in ((a, b), (b, a)):
        stopping = side.stopping
        if stopping is not None and (has_stopped(side) or stopping["baseline_run_id"] == other.run["run_id"]):
            factors.append(stopping["factor"])
    return max(factors)


def judge_difference(a: Side, b: Side, names: tuple[str, str] = A_AND_B) -> str | None:
    """How the judges of two runs differ, in words; None if they do not, or if no judge scored a criterion of both.

    names: of the runs, in the words.
    """
    is_by_judge = all(is_judged(side.rubric, side.own_methods) for side in (a, b))
    return describe_judges(a.judge, b.judge, names) if is_by_judge and a.run["run_id"] != b.run["run_id"] else None


def runs_of_other_judges(lake: Lake, run_id: str, others: Sequence[str]) -> frozenset[str]:
    """Ids of the other runs whose judge differs from the run's; a run that can't be read is not among them."""
    other_ids = set()
    with connect_up_to_date(lake) as connection:
        side = read_side(connection, lake, run_id)
        for other in others:
            with suppress(InputError):
                if judge_difference(read_side(connection, lake, other), side) is not None:
                    other_ids.add(other)
    return frozenset(other_ids)


def describe_difference(a: Side, b: Side, compared_count: int, cases: str | None) -> str | None:
    """Banner over a comparison of different rubrics, judges, embedders, baselines or prompts; None if all are the same.

    cases: by `changed_cases`.
    """
    rubrics = None if is_one_version(a, b) else _rubrics_banner(a, b, compared_count)
    stopped = [_stopped_banner(side) for side in (a, b)]
    judges = judges_banner(judge_difference(a, b))
    prompts = None if cases is None else f"The cases of B differ from those of A: {cases}."
    banners = (rubrics, *stopped, judges, _embedders_banner(a, b), _baselines_banner(a, b), prompts)
    return " ".join(banner for banner in banners if banner) or None


def changed_cases(connection: duckdb.DuckDBPyConnection, run_a: str, run_b: str) -> str | None:
    """How many cases of the same id differ, and in what; None if none does.

    connection: with the outputs and scores of both runs.
    """
    if run_a == run_b:
        return None
    (counts,) = read_rows(connection, query("comparing/changed_cases"), run_a=run_a, run_b=run_b)
    labels = {"prompt": "another prompt", "system": "another system message"}
    labels |= {"context": "other context", "reference": "another reference"}
    changes = [(counts[f"{name}_count"], label) for name, label in labels.items() if counts[f"{name}_count"]]
    if not changes:
        return None
    (first, label), *others = changes
    common = counted(counts["common_count"], "common case")
    of_common = f"all {common}" if 1 < first == counts["common_count"] else f"{first:,} of {common}"
    more = "".join(f", {count:,} {other}" for count, other in others)
    return f"{of_common} {'has' if first == 1 else 'have'} {label}{more}"


def no_overall_words(a: Side, b: Side) -> str | None:
    """Why the overall scores of two runs are not compared; None if they are."""
    if is_one_version(a, b):
        return None
    is_one_id = a.rubric.id == b.rubric.id
    change = f"the rubric changed from {a.name} to {b.name}" if is_one_id else f"the rubrics are {a.name} and {b.name}"
    return f"{change}, so overall scores are not compared"


def _stopped_banner(side: Side) -> str | None:
    if side.stopping is None or not has_stopped(side):
        return None
    subject = " are of new cases and" if side.stopping["rule"] == "suite" else ""
    return f"{side.run['run_id']} {side.stopping['brief']}; p and intervals{subject} allow for its looks."


def _embedders_banner(a: Side, b: Side) -> str | None:
    has_similarity = all(
        any(criterion.method.type == "similarity" for criterion in side.rubric.criteria) for side in (a, b)
    )
    if a.embedder == b.embedder or not has_similarity:
        return None
    names = [_embedder_name(side.embedder) for side in (a, b)]
    if names[0] == names[1]:
        return "different versions or sizes of an embedder in A and B, so scores by similarity are not comparable."
    return f"different embedders: {names[0]} in A and {names[1]} in B, so scores by similarity are not comparable."


def _baselines_banner(a: Side, b: Side) -> str | None:
    baseline_criteria = [
        {criterion.id for criterion in side.rubric.criteria if compares_with_baseline(criterion.method)}
        for side in (a, b)
    ]
    shared = sorted(baseline_criteria[0] & baseline_criteria[1])
    if a.baseline == b.baseline or not shared:
        return None
    names = [side.baseline or "none" for side in (a, b)]
    clause = f"{', '.join(shared)} by different baselines: {names[0]} in A and {names[1]} in B"
    return f"{clause}, so these scores are not comparable."


def _embedder_name(identity: Row | None) -> str:
    if identity is None:
        return "lexical"
    return str(identity.get("model") or f"a folder ({str(identity.get('digest'))[:8]})")


def _rubrics_banner(a: Side, b: Side, compared_count: int) -> str:
    match compared_count:
        case 0:
            compared = "no criterion has the same text in both, so nothing is compared"
        case 1:
            compared = "1 criterion has the same text in both and is compared"
        case _:
            compared = f"{compared_count} criteria have the same text in both and are compared"
    return f"different rubrics: {a.name} and {b.name}. Their overall scores are not comparable; {compared}."


def _full_name(groups: Iterable[Row], name: str, run_id: str, option: str) -> str:
    """Name of the model that is called so, or that alone has this part in its name. Raises `InputError`."""
    names = [*_model_names(groups)]
    matches = [full_name for full_name in names if full_name == name] or [
        full_name for full_name in names if name.casefold() in full_name.casefold()
    ]
    if len(matches) != 1:
        several = f" in {len(matches)} names" if matches else ""
        raise InputError(option, f"{name!r}{several}", f"a model of {run_id}: {', '.join(matches or names)}")
    return matches[0]


def _model_names(groups: Iterable[Row]) -> Iterator[str]:
    yield from (model_name(group) for group in groups)
