"""Rows of a published run for training, from its verdicts: nothing is scored again, and a missing reward is null.

rewards       one row per output: reward, bounds, scores by criterion, weights, failed gates; or in a trainer's shape
pairs         one row per pair of outputs of a case whose rewards differ by more than the judge's noise
sft           one row per output worth imitating
curriculum    one row per case: mean, spread over its outputs, weak criteria
weak          one row per weak spot, with what new prompts are generated from
judgments     one row per level by a judge, with its rationale, to train a judge
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
from gradebook.rubrics.files.versions import rubric_from_body
from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.model.rubric import CaseCriterion, Rubric, effective_weights
from gradebook.rubrics.model.scores import Gates, Reward, RewardRule, rewarded_rubric
from gradebook.tasks.datasets.row_parser import read_messages
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect_up_to_date
from gradebook.tasks.lake.rows import Row, read_published_run, read_rows
from gradebook.tasks.lake.sql import query

SHAPES = ("plain", "trl", "verl", "openrlhf")
NOISE_SDS = 1.96  # standard deviations: judge noise alone gives a larger difference in one pair of twenty
_EQUAL = 1e-9  # largest difference of rewards that count as equal
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

    noise_sd: standard deviation of one reward by the judge's noise alone; None if a judged criterion has no
    measurement.
    """

    run: Row
    rubric: Rubric
    gates: Gates
    outputs: tuple[Rewarded, ...]
    noise_sd: float | None

    def cases(self) -> Iterator[tuple[str, list[Rewarded]]]:
        """Cases, each with its outputs."""
        for case_id, outputs in groupby(self.outputs, key=lambda output: output.row["case_id"]):
            yield case_id, list(outputs)


def read_rewards(lake: Lake, run_id: str, gates: Gates) -> RewardedRun:
    """Rewards of a published run. Raises `InputError` if it has none."""
    with connect_up_to_date(lake, is_pinned=True) as connection:
        run = read_published_run(connection, lake, run_id)
        version = {name: run[name] for name in ("rubric_id", "rubric_version")}
        bodies = read_rows(connection, _RUBRIC, **version)
        rubric = rubric_from_body(bodies[0]["body"]) if bodies else Rubric(id="none", version="1.0.0", criteria=())
        rule = RewardRule(rubric, gates)
        rows = read_rows(connection, query("rewards/rewarded_outputs"), run_id=run_id)
        noise = {row["criterion_id"]: row["variance"] for row in read_rows(connection, _NOISE, run_id=run_id)}
    return RewardedRun(run, rubric, gates, tuple(_rewarded(rule, row) for row in rows), _noise_sd(rubric, noise))


def _rewarded(rule: RewardRule, row: Row) -> Rewarded:
    scores = dict(zip(row.pop("criterion_ids") or (), row.pop("scores") or (), strict=True))
    own_criteria = tuple(read_case_criterion(body) for body in row.pop("own") or ())
    row["own_weights"] = {criterion.id: _weight(criterion) for criterion in own_criteria if criterion.reward}
    return Rewarded(row, scores, rule.reward(scores, own_criteria, row.pop("unmet") or ()))


def _weight(criterion: CaseCriterion) -> float:
    return 0.0 if criterion.gate else 1.0 if criterion.weight is None else criterion.weight


def _noise_sd(rubric: Rubric, variances: Mapping[str, float | None]) -> float | None:
    """Upper limit of a reward's standard deviation by the judge's noise: that of verdicts with one vote each."""
    weights = effective_weights(rewarded_rubric(rubric))
    base = math.fsum(max(weight, 0.0) for weight in weights.values())
    judged = [criterion.id for criterion in rubric.judged_criteria if weights.get(criterion.id)]
    noise = [variances.get(name) for name in judged]
    if None in noise:
        return None
    return math.sqrt(math.fsum((weights[n] / base) ** 2 * (v or 0.0) for n, v in zip(judged, noise, strict=True)))


# -------- rewards
def reward_rows(rewarded_run: RewardedRun, shape: str) -> Iterator[Row]:
    """One row per output, in a shape of `SHAPES`."""
    if shape not in SHAPES:
        raise InputError("--shape", repr(shape), f"one of {', '.join(SHAPES)}")
    weights = {criterion.id: criterion.own_weight for criterion in rewarded_run.rubric.criteria if criterion.reward}
    for index, output in enumerate(rewarded_run.outputs):
        yield _SHAPED[shape](rewarded_run, index, output, weights)


def _plain(rewarded_run: RewardedRun, _index: int, output: Rewarded, weights: Mapping[str, float]) -> Row:
    row, run = output.row, rewarded_run.run
    return {
        **{name: row[name] for name in ("case_id", "output_id")},
        "group_id": _group(row),
        **{name: row[name] for name in ("model", "checkpoint", "sample_index")},
        "prompt": _prompt(row),
        "output": row["output"],
        "reward": output.reward.value,
        "reward_low": output.reward.low,
        "reward_high": output.reward.high,
        "rewards": output.scores,
        "weights": dict(weights) | row["own_weights"],
        "failed_gates": list(output.reward.failed_gates),
        "gates": str(rewarded_run.gates),
        **{name: run[name] for name in ("rubric_id", "rubric_version", "rubric_digest", "judge", "run_id")},
    }


def _trl(_run: RewardedRun, _index: int, rewarded: Rewarded, _weights: Mapping[str, float]) -> Row:
    """Columns of TRL's datasets: prompt and completion, in chat form where the prompt is."""
    prompt = _prompt(rewarded.row)
    is_chat = isinstance(prompt, list)
    output = rewarded.row["output"]
    completion = [{"role": "assistant", "content": output}] if is_chat else output
    return {"prompt": prompt, "completion": completion, "reward": rewarded.reward.value} | _identity(rewarded)


def _verl(rewarded_run: RewardedRun, index: int, rewarded: Rewarded, _weights: Mapping[str, float]) -> Row:
    """Columns of verl's data files; other values are in extra_info."""
    prompt = _prompt(rewarded.row)
    messages = prompt if isinstance(prompt, list) else [{"role": "user", "content": prompt or ""}]
    extra = {"index": index, "output": rewarded.row["output"], "reward": rewarded.reward.value} | _identity(rewarded)
    return {
        "data_source": rewarded_run.run["rubric_id"],
        "prompt": messages,
        "ability": rewarded_run.rubric.target_type or rewarded_run.run["rubric_id"],
        "reward_model": {"style": "rule", "ground_truth": rewarded.row["reference"]},
        "extra_info": extra,
    }


def _openrlhf(_run: RewardedRun, _index: int, output: Rewarded, _weights: Mapping[str, float]) -> Row:
    """Columns of OpenRLHF's datasets: input, output, label."""
    row = output.row
    values = {"input": _prompt(row), "output": row["output"], "label": row["reference"], "reward": output.reward.value}
    return values | _identity(output)


_SHAPED = {"plain": _plain, "trl": _trl, "verl": _verl, "openrlhf": _openrlhf}


def _identity(output: Rewarded) -> Row:
    return {name: output.row[name] for name in ("case_id", "output_id", "model", "checkpoint")}


def _group(row: Row) -> str:
    """Outputs that a trainer compares with each other: those of one case by one checkpoint of a model."""
    group = [row["case_id"], row["model"], *([] if row["checkpoint"] is None else [row["checkpoint"]])]
    return json.dumps(group, ensure_ascii=False)


def _prompt(row: Row) -> Any:
    return read_messages(row["prompt"])


# -------- pairs, examples, curriculum
def pair_rows(rewarded_run: RewardedRun, margin: float | None) -> Iterator[Row]:
    """One row per pair of outputs of one case: chosen has the higher reward.

    margin: least difference; None: the one that the judge's noise alone exceeds in one pair of twenty. Raises
    `InputError` if the noise is not measured.
    """
    if margin is None and rewarded_run.noise_sd is None:
        raise InputError(
            "--pairs",
            f"no measured noise of {rewarded_run.run['judge']} in {rewarded_run.run['run_id']}",
            "a run whose judge file has `replicates: 2` or more",
            "--margin 0.1 takes pairs that differ by so much",
        )
    least = NOISE_SDS * math.sqrt(2) * (rewarded_run.noise_sd or 0.0) if margin is None else margin
    for case_id, outputs in rewarded_run.cases():
        for pair in combinations((output for output in outputs if output.reward.value is not None), 2):
            better, worse = sorted(pair, key=_value, reverse=True)
            difference = _value(better) - _value(worse)
            if difference > _EQUAL and (
                difference > least + _EQUAL if margin is None else difference >= least - _EQUAL
            ):
                yield {
                    "case_id": case_id,
                    "prompt": _prompt(better.row),
                    "chosen": better.row["output"],
                    "rejected": worse.row["output"],
                    "margin": round(difference, 12),
                    "chosen_reward": better.reward.value,
                    "rejected_reward": worse.reward.value,
                    "chosen_output_id": better.row["output_id"],
                    "rejected_output_id": worse.row["output_id"],
                    "least_margin": round(least, 12),
                }


def sft_rows(rewarded_run: RewardedRun, least: float | None) -> Iterator[Row]:
    """One row per output to imitate: no gate failed, and its reward reaches `least`.

    least: None: outputs that pass the rubric. Raises `InputError` if the rubric requires nothing and least is None.
    """
    rubric = rewarded_run.rubric
    if least is None and rubric.pass_threshold is None and not rubric.require_thresholds:
        raise InputError("--sft", f"no pass_threshold in {rubric.id}", "one, or --least with a reward to reach")
    for output in rewarded_run.outputs:
        is_good = output.row["is_passed"] is True if least is None else _value(output) >= least
        if is_good and not output.reward.failed_gates and output.reward.value is not None:
            texts = {"prompt": _prompt(output.row), "completion": output.row["output"]}
            yield texts | {"reward": output.reward.value} | _identity(output)


def curriculum_rows(rewarded_run: RewardedRun) -> Iterator[Row]:
    """One row per case: rewards of its outputs, whether they differ at all, and its weak criteria, the weakest first.

    sd: null for fewer than two rewards. is_flat: whether all rewards are equal, so that a trainer that compares them
    learns nothing; null for fewer than two.
    """
    marks = {
        criterion.id: criterion.gate_threshold if criterion.gate else criterion.threshold
        for criterion in rewarded_run.rubric.criteria
    }
    for case_id, outputs in rewarded_run.cases():
        rewards = [_value(output) for output in outputs if output.reward.value is not None]
        means = _means(output.scores for output in outputs)
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
    """One row per level by a judge: prompt, output, criterion, level, score, rationale. Raises `InputError`."""
    with connect_up_to_date(lake, is_pinned=True) as connection:
        read_published_run(connection, lake, run_id)
        return read_rows(connection, query("rewards/judged_verdicts"), run_id=run_id)


def weak_rows(lake: Lake, rewarded_run: RewardedRun, count: int) -> Iterator[Row]:
    """One row per weak spot, largest gain first: the question, the description of good outputs, and examples.

    Slices of outputs are spots beyond chance, after correction for their number; a row without a slice is a criterion
    over all outputs of a model.
    """
    criteria = {criterion.id: criterion for criterion in rewarded_run.rubric.criteria if criterion.reward}
    parameters = {"run_id": rewarded_run.run["run_id"], "criterion_ids": [*criteria], "row_count": count}
    with connect_up_to_date(lake, is_pinned=True) as connection:
        rows = read_rows(connection, query("rewards/weak_spots"), **parameters)
    for row in rows:
        criterion = criteria[row["criterion_id"]]
        aim = criterion.ranked_levels[0 if criterion.own_weight < 0 else -1]
        examples = json.loads(row.pop("examples"))
        for example in examples:
            example["prompt"] = read_messages(example["prompt"])
        yield row | {"description": criterion.description, "aim": aim.description, "examples": examples}


def best_rows(rewarded_run: RewardedRun, count: int) -> Iterator[Row]:
    """The best outputs of each case by reward, with their rank; outputs without a reward are left out."""
    for _, outputs in rewarded_run.cases():
        rewarded = [output for output in outputs if output.reward.value is not None]
        for rank, output in enumerate(sorted(rewarded, key=_value, reverse=True)[:count], 1):
            texts = {"prompt": _prompt(output.row), "output": output.row["output"]}
            counts = {"rank": rank, "of": len(outputs), "n": len(rewarded), "reward": output.reward.value}
            yield _identity(output) | {"sample_index": output.row["sample_index"]} | texts | counts


def _means(scores: Iterable[Mapping[str, float | None]]) -> dict[str, float]:
    scores_by_name: dict[str, list[float]] = {}
    for output_scores in scores:
        for name, score in output_scores.items():
            if score is not None:
                scores_by_name.setdefault(name, []).append(score)
    return {name: fmean(values) for name, values in scores_by_name.items()}


def _mark(threshold: float | None) -> float:
    return WEAK_SCORE if threshold is None else threshold


def _value(output: Rewarded) -> float:
    return -math.inf if output.reward.value is None else output.reward.value
