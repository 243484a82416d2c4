"""Rows of a published run for training, from its verdicts: nothing is scored again, and a missing reward is null.

rewards       a row an output: reward, bounds, scores by criterion, weights, failed gates; or in a trainer's shape
pairs         a row a pair of outputs of a case whose rewards differ by more than the judge's noise
sft           a row an output worth imitating
curriculum    a row a case: mean, spread over its outputs, weak criteria
weak          a row a weak spot, with what to generate new prompts from
judgments     a row a judge's level with its rationale, to train a judge
best          the best outputs of each case
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, groupby
from statistics import fmean, stdev
from typing import Any, NamedTuple

from gradebook.rubrics.files.case_criteria import read_case_criterion
from gradebook.rubrics.files.digest import rubric_from_body
from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.model.rewards import Gates, Reward, RewardRule, rewarded_rubric
from gradebook.rubrics.model.rubric import CaseCriterion, Rubric, effective_weights
from gradebook.tasks.datasets.row_parser import read_messages
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect_up_to_date
from gradebook.tasks.lake.rows import Row, read_published_run, read_rows
from gradebook.tasks.lake.sql import query

SHAPES = ("plain", "trl", "verl", "openrlhf")
NOISE_SDS = 1.96  # of a difference: what judge noise alone exceeds in one pair of twenty
_EQUAL = 1e-9  # difference of rewards that are equal
WEAK_SCORE = 0.5  # mean below which a criterion without a threshold is weak
_RUBRIC = "select body from rubrics where rubric_id = $rubric_id and rubric_version = $rubric_version"
_NOISE = "select criterion_id, max(judge_variance) as variance from judge_noise where run_id = $run_id group by all"


class Rewarded(NamedTuple):
    """An output with its reward. scores: 0..1 by criterion, None where unscored."""

    row: Row
    scores: dict[str, float | None]
    reward: Reward


@dataclass(frozen=True, slots=True)
class RewardedRun:
    """A run with the rewards of its outputs, in the order of cases.

    noise_sd: standard deviation of one reward by the judge's noise alone; None if a judged criterion's is not measured.
    """

    run: Row
    rubric: Rubric
    gates: Gates
    outputs: tuple[Rewarded, ...]
    noise_sd: float | None

    def cases(self) -> Iterator[tuple[str, list[Rewarded]]]:
        """Cases, each with its outputs."""
        for case_id, outputs in groupby(self.outputs, key=lambda each: each.row["case_id"]):
            yield case_id, list(outputs)


def read_rewards(lake: Lake, run_id: str, gates: Gates) -> RewardedRun:
    """Rewards of a published run. Raises `InputError` if it has none."""
    with connect_up_to_date(lake, is_pinned=True) as connection:
        run = read_published_run(connection, lake, run_id)
        named = {name: run[name] for name in ("rubric_id", "rubric_version")}
        bodies = read_rows(connection, _RUBRIC, **named)
        rubric = rubric_from_body(bodies[0]["body"]) if bodies else Rubric(id="none", version="1.0.0", criteria=())
        rule = RewardRule(rubric, gates)
        rows = read_rows(connection, query("rewards/rewarded_outputs"), run_id=run_id)
        noise = {row["criterion_id"]: row["variance"] for row in read_rows(connection, _NOISE, run_id=run_id)}
    return RewardedRun(run, rubric, gates, tuple(_rewarded(rule, row) for row in rows), _noise_sd(rubric, noise))


def _rewarded(rule: RewardRule, row: Row) -> Rewarded:
    scores = dict(zip(row.pop("criterion_ids") or (), row.pop("scores") or (), strict=True))
    own = tuple(read_case_criterion(body) for body in row.pop("own") or ())
    row["own_weights"] = {each.id: _weight(each) for each in own if each.reward}
    return Rewarded(row, scores, rule.reward(scores, own))


def _weight(criterion: CaseCriterion) -> float:
    return 0.0 if criterion.gate else 1.0 if criterion.weight is None else criterion.weight


def _noise_sd(rubric: Rubric, variances: Mapping[str, float | None]) -> float | None:
    """Standard deviation of one reward by the judge's noise, as if each verdict had one vote: at least the true one."""
    weights = effective_weights(rewarded_rubric(rubric))
    base = math.fsum(max(weight, 0.0) for weight in weights.values())
    judged = [each.id for each in rubric.judged_criteria if weights.get(each.id)]
    found = [variances.get(name) for name in judged]
    if None in found:
        return None
    return math.sqrt(math.fsum((weights[n] / base) ** 2 * (v or 0.0) for n, v in zip(judged, found, strict=True)))


# -------- rewards
def reward_rows(found: RewardedRun, shape: str) -> Iterator[Row]:
    """A row an output in a shape of `SHAPES`."""
    if shape not in SHAPES:
        raise InputError("--shape", repr(shape), f"one of {', '.join(SHAPES)}")
    weights = {each.id: each.own_weight for each in found.rubric.criteria if each.reward}
    for place, each in enumerate(found.outputs):
        yield _SHAPED[shape](found, place, each, weights)


def _plain(found: RewardedRun, _place: int, each: Rewarded, weights: Mapping[str, float]) -> Row:
    row, run = each.row, found.run
    return {
        **{name: row[name] for name in ("case_id", "output_id")},
        "group_id": _group(row),
        **{name: row[name] for name in ("model", "checkpoint", "sample_index")},
        "prompt": _prompt(row),
        "output": row["output"],
        "reward": each.reward.value,
        "reward_low": each.reward.low,
        "reward_high": each.reward.high,
        "rewards": each.scores,
        "weights": dict(weights) | row["own_weights"],
        "failed_gates": list(each.reward.failed_gates),
        "gates": str(found.gates),
        **{name: run[name] for name in ("rubric_id", "rubric_version", "rubric_digest", "judge", "run_id")},
    }


def _trl(_found: RewardedRun, _place: int, each: Rewarded, _weights: Mapping[str, float]) -> Row:
    """Columns of TRL's datasets: prompt and completion, in chat form where the prompt is."""
    prompt = _prompt(each.row)
    is_chat = isinstance(prompt, list)
    output = each.row["output"]
    completion = [{"role": "assistant", "content": output}] if is_chat else output
    return {"prompt": prompt, "completion": completion, "reward": each.reward.value} | _identity(each)


def _verl(found: RewardedRun, place: int, each: Rewarded, _weights: Mapping[str, float]) -> Row:
    """Columns of verl's data files; what it has no place for is in extra_info."""
    prompt = _prompt(each.row)
    messages = prompt if isinstance(prompt, list) else [{"role": "user", "content": prompt or ""}]
    extra = {"index": place, "output": each.row["output"], "reward": each.reward.value} | _identity(each)
    return {
        "data_source": found.run["rubric_id"],
        "prompt": messages,
        "ability": found.rubric.target_type or found.run["rubric_id"],
        "reward_model": {"style": "rule", "ground_truth": each.row["reference"]},
        "extra_info": extra,
    }


def _openrlhf(_found: RewardedRun, _place: int, each: Rewarded, _weights: Mapping[str, float]) -> Row:
    """Columns of OpenRLHF's datasets: input, output, label."""
    row = each.row
    values = {"input": _prompt(row), "output": row["output"], "label": row["reference"], "reward": each.reward.value}
    return values | _identity(each)


_SHAPED = {"plain": _plain, "trl": _trl, "verl": _verl, "openrlhf": _openrlhf}


def _identity(each: Rewarded) -> Row:
    return {name: each.row[name] for name in ("case_id", "output_id", "model", "checkpoint")}


def _group(row: Row) -> str:
    """Outputs that a trainer compares with each other: those of one case by one checkpoint of a model."""
    parts = [row["case_id"], row["model"], *([] if row["checkpoint"] is None else [row["checkpoint"]])]
    return json.dumps(parts, ensure_ascii=False)


def _prompt(row: Row) -> Any:
    return read_messages(row["prompt"])


# -------- pairs, examples, curriculum
def pair_rows(found: RewardedRun, margin: float | None) -> Iterator[Row]:
    """A row a pair of outputs of one case: chosen has the higher reward.

    margin: least difference; None: what the judge's noise alone exceeds in one pair of twenty. Raises `InputError` if
    the noise is not measured.
    """
    if margin is None and found.noise_sd is None:
        raise InputError(
            "--pairs",
            f"no measured noise of {found.run['judge']} in {found.run['run_id']}",
            "a run whose judge file has `replicates: 2` or more",
            "--margin 0.1 takes pairs that differ by so much",
        )
    least = NOISE_SDS * math.sqrt(2) * (found.noise_sd or 0.0) if margin is None else margin
    for case_id, outputs in found.cases():
        for pair in combinations((each for each in outputs if each.reward.value is not None), 2):
            chosen, rejected = sorted(pair, key=_value, reverse=True)
            difference = _value(chosen) - _value(rejected)
            if difference > _EQUAL and (
                difference > least + _EQUAL if margin is None else difference >= least - _EQUAL
            ):
                yield {
                    "case_id": case_id,
                    "prompt": _prompt(chosen.row),
                    "chosen": chosen.row["output"],
                    "rejected": rejected.row["output"],
                    "margin": round(difference, 12),
                    "chosen_reward": chosen.reward.value,
                    "rejected_reward": rejected.reward.value,
                    "chosen_output_id": chosen.row["output_id"],
                    "rejected_output_id": rejected.row["output_id"],
                    "least_margin": round(least, 12),
                }


def sft_rows(found: RewardedRun, least: float | None) -> Iterator[Row]:
    """A row an output to imitate: its reward reaches `least`; None: it passes the rubric. Failed gates never do.

    Raises `InputError` if the rubric requires nothing and least is None.
    """
    rubric = found.rubric
    if least is None and rubric.pass_threshold is None and not rubric.require_thresholds:
        raise InputError("--sft", f"no pass_threshold in {rubric.id}", "one, or --least with a reward to reach")
    for each in found.outputs:
        is_good = each.row["is_passed"] is True if least is None else _value(each) >= least
        if is_good and not each.reward.failed_gates and each.reward.value is not None:
            texts = {"prompt": _prompt(each.row), "completion": each.row["output"]}
            yield texts | {"reward": each.reward.value} | _identity(each)


def curriculum_rows(found: RewardedRun) -> Iterator[Row]:
    """A row a case: rewards of its outputs, whether they differ at all, and its weak criteria, the weakest first.

    sd: null for fewer than two rewards. is_flat: whether all rewards are equal, so that a trainer that compares them
    learns nothing; null for fewer than two.
    """
    marks = {each.id: each.gate_threshold if each.gate else each.threshold for each in found.rubric.criteria}
    for case_id, outputs in found.cases():
        rewards = [_value(each) for each in outputs if each.reward.value is not None]
        means = _means(each.scores for each in outputs)
        weak = [name for name, mean in sorted(means.items(), key=lambda item: item[1]) if mean < _mark(marks.get(name))]
        has_several = len(rewards) > 1
        yield {
            "case_id": case_id,
            "prompt": _prompt(outputs[0].row),
            "output_count": len(outputs),
            "n": len(rewards),
            "mean": fmean(rewards) if rewards else None,
            "sd": stdev(rewards) if has_several else None,
            "spread": max(rewards) - min(rewards) if has_several else None,
            "is_flat": max(rewards) - min(rewards) <= _EQUAL if has_several else None,
            "weak_criteria": weak,
        }


def judgment_rows(lake: Lake, run_id: str) -> tuple[Row, ...]:
    """A row a judge's level: prompt, output, criterion, level, score, rationale. Raises `InputError`."""
    with connect_up_to_date(lake, is_pinned=True) as connection:
        read_published_run(connection, lake, run_id)
        return read_rows(connection, query("rewards/judged_verdicts"), run_id=run_id)


def weak_rows(lake: Lake, found: RewardedRun, count: int) -> Iterator[Row]:
    """A row a weak spot, the one with the largest gain first: what is asked, what a good output has, and examples.

    Slices of outputs are spots beyond chance, after correction for their number; a row without a slice is a criterion
    over all outputs of a model.
    """
    criteria = {each.id: each for each in found.rubric.criteria if each.reward}
    named = {"run_id": found.run["run_id"], "criterion_ids": [*criteria], "row_count": count}
    with connect_up_to_date(lake, is_pinned=True) as connection:
        rows = read_rows(connection, query("rewards/weak_spots"), **named)
    for row in rows:
        criterion = criteria[row["criterion_id"]]
        aim = criterion.ranked_levels[0 if criterion.own_weight < 0 else -1]
        examples = json.loads(row.pop("examples"))
        for each in examples:
            each["prompt"] = read_messages(each["prompt"])
        yield row | {"description": criterion.description, "aim": aim.description, "examples": examples}


def best_rows(found: RewardedRun, count: int) -> Iterator[Row]:
    """The best outputs of each case by reward, with their rank; outputs without a reward are left out."""
    for _, outputs in found.cases():
        known = [each for each in outputs if each.reward.value is not None]
        for place, each in enumerate(sorted(known, key=_value, reverse=True)[:count], 1):
            texts = {"prompt": _prompt(each.row), "output": each.row["output"]}
            counts = {"rank": place, "of": len(outputs), "n": len(known), "reward": each.reward.value}
            yield _identity(each) | {"sample_index": each.row["sample_index"]} | texts | counts


def _means(scores: Iterable[Mapping[str, float | None]]) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for each in scores:
        for name, score in each.items():
            if score is not None:
                found.setdefault(name, []).append(score)
    return {name: fmean(values) for name, values in found.items()}


def _mark(threshold: float | None) -> float:
    return WEAK_SCORE if threshold is None else threshold


def _value(each: Rewarded) -> float:
    return -math.inf if each.reward.value is None else each.reward.value
