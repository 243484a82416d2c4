"""Sides of a comparison: runs, pairs of their models, and criteria with the same text in both."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import duckdb

from gradebook.rubrics.files.digest import rubric_from_body
from gradebook.rubrics.model.errors import InputError, RubricError
from gradebook.rubrics.model.methods import compares_with_baseline
from gradebook.rubrics.model.rubric import Criterion, Rubric
from gradebook.tasks.comparing.judges import AskedJudge, describe_judges, is_judged, judges_banner, read_asked_judge
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect_up_to_date
from gradebook.tasks.lake.rows import Row, model_name, read_published_run, read_rows
from gradebook.tasks.lake.sql import query

_OWN_METHODS = "select distinct method from case_criteria where run_id = ?"
_GROUPS = "select model, checkpoint from run_scores where run_id = ? order by model, checkpoint"


@dataclass(frozen=True, slots=True)
class Wanted:
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
    judge: AskedJudge = field(default_factory=AskedJudge)
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
    asked = json.loads(settings or "{}")
    try:
        return Side(
            run,
            rubric_from_body(body),
            read_asked_judge(connection, run_id, run["judge"], settings, run["judge_epoch"]),
            frozenset(method for (method,) in connection.execute(_OWN_METHODS, [run_id]).fetchall()),
            asked.get("embedder"),
            asked.get("verdicts_baseline_run_id") or asked.get("baseline_run_id"),  # first: of a rescored run
            asked.get("stopping"),
        )
    except RubricError as error:
        raise InputError(option, f"the rubric of {run_id} can't be read: {error}") from error


def find_wanted(
    connection: duckdb.DuckDBPyConnection, run_a: str, run_b: str | None, models: tuple[str | None, str | None]
) -> Wanted:
    """Resolve the user's choice of one or two runs and of models.

    One run without models is compared by its two models. Raises `InputError` if it does not have two, or if a run or a
    model would be compared with itself.
    """
    groups = [read_rows(connection, _GROUPS, run) for run in (run_a, run_b or run_a)]
    sides = zip(groups, models, (run_a, run_b or run_a), ("--model-a", "--model-b"), strict=True)
    models = tuple(name and _full_name(rows, name, run, option) for rows, name, run, option in sides)  # type: ignore[assignment]
    wanted = Wanted(run_a, run_b or run_a, *models)
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
    named = [name for name in models if name is not None]
    others = [name for name in names if name not in named]
    if len(named) + len(others) == 2:
        first, second = (*named, *others)
        return replace(wanted, model_a=second, model_b=first) if models[1] else Wanted(run_a, run_a, first, second)
    raise InputError(
        "compare",
        f"one run of the models {', '.join(names) or 'none'}",
        "a second run, or two of these with --model-a and --model-b",
    )


def pair_groups(connection: duckdb.DuckDBPyConnection, wanted: Wanted) -> tuple[list[Groups], list[str]]:
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
    parts = {
        "name": new.method.type != "judge" or old.name == new.name,
        "description": old.description == new.description,
        "method": old.method == new.method,
        "scale of levels": old.ranked_levels == new.ranked_levels,
        "set of schemas": new.method.type != "schema" or old_rubric.schemas == new_rubric.schemas,
    }
    return [name for name, is_same in parts.items() if not is_same]


def same_criteria(old: Rubric, new: Rubric) -> tuple[list[str], list[str]]:
    """Ids of criteria with the same text, in the newer rubric's order; and descriptions of the others."""
    olds, news = ({criterion.id: criterion for criterion in rubric.criteria} for rubric in (old, new))
    changes = {name: question_changes(olds[name], news[name], old, new) for name in news if name in olds}
    same = [name for name in changes if not changes[name]]
    others = [f"{name}: another {' and '.join(found)}" for name, found in changes.items() if found]
    others += [f"{name}: only in {new.id} {new.version}" for name in news if name not in olds]
    others += [f"{name}: only in {old.id} {old.version}" for name in olds if name not in news]
    return same, others


def is_one_version(a: Side, b: Side) -> bool:
    """Whether both runs used one rubric, so that their overall scores can be compared."""
    return bool(a.run["rubric_digest"] == b.run["rubric_digest"] and a.rubric.id == b.rubric.id)


def has_stopped(side: Side) -> bool:
    """Whether a run stopped before all its cases were judged."""
    return side.stopping is not None and side.stopping["stopped_at"] is not None


def looks_factor(a: Side, b: Side) -> float:
    """Factor for p and intervals of a comparison whose cases depend on looks at it, or on looks at another one."""
    found = [1.0]
    for side, other in ((a, b), (b, a)):
        known = side.stopping
        if known is not None and (has_stopped(side) or known["baseline_run_id"] == other.run["run_id"]):
            found.append(known["factor"])
    return max(found)


def judges_apart(a: Side, b: Side) -> str | None:
    """How the judges of two runs differ, in words; None if they do not, or if no judge scored a criterion of both."""
    is_by_judge = all(is_judged(side.rubric, side.own_methods) for side in (a, b))
    return describe_judges(a.judge, b.judge) if is_by_judge and a.run["run_id"] != b.run["run_id"] else None


def runs_of_other_judges(lake: Lake, run_id: str, others: Sequence[str]) -> frozenset[str]:
    """Ids of the other runs whose judge differs from the run's; a run that can't be read is not among them."""
    found = set()
    with connect_up_to_date(lake) as connection:
        own = read_side(connection, lake, run_id)
        for other in others:
            with suppress(InputError):
                if judges_apart(read_side(connection, lake, other), own) is not None:
                    found.add(other)
    return frozenset(found)


def describe_difference(a: Side, b: Side, compared_count: int) -> str | None:
    """Banner over a comparison of different rubrics, judges, embedders or baselines; None if all are the same."""
    rubrics = None if is_one_version(a, b) else _rubrics_banner(a, b, compared_count)
    stopped = [_stopped_banner(side) for side in (a, b)]
    judges = judges_banner(judges_apart(a, b))
    banners = (rubrics, *stopped, judges, _embedders_banner(a, b), _baselines_banner(a, b))
    return " ".join(words for words in banners if words) or None


def _stopped_banner(side: Side) -> str | None:
    if side.stopping is None or not has_stopped(side):
        return None
    whose = " are of new cases and" if side.stopping["rule"] == "suite" else ""
    return f"{side.run['run_id']} {side.stopping['brief']}; p and intervals{whose} allow for its looks."


def _embedders_banner(a: Side, b: Side) -> str | None:
    has_similarity = all(any(each.method.type == "similarity" for each in side.rubric.criteria) for side in (a, b))
    if a.embedder == b.embedder or not has_similarity:
        return None
    names = [_embedder_name(side.embedder) for side in (a, b)]
    if names[0] == names[1]:
        return "different versions or sizes of an embedder in A and B, so scores by similarity are not comparable."
    return f"different embedders: {names[0]} in A and {names[1]} in B, so scores by similarity are not comparable."


def _baselines_banner(a: Side, b: Side) -> str | None:
    held = [{each.id for each in side.rubric.criteria if compares_with_baseline(each.method)} for side in (a, b)]
    if a.baseline == b.baseline or not held[0] & held[1]:
        return None
    names = [side.baseline or "none" for side in (a, b)]
    held_by = f"{', '.join(sorted(held[0] & held[1]))} by different baselines: {names[0]} in A and {names[1]} in B"
    return f"{held_by}, so these scores are not comparable."


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
    names = [*_names(groups)]
    found = [each for each in names if each == name] or [each for each in names if name.casefold() in each.casefold()]
    if len(found) != 1:
        several = f" in {len(found)} names" if found else ""
        raise InputError(option, f"{name!r}{several}", f"a model of {run_id}: {', '.join(found or names)}")
    return found[0]


def _names(groups: Iterable[Row]) -> Iterator[str]:
    yield from (model_name(group) for group in groups)
