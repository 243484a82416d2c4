"""A scorer in the forms that trainers call. TRL calls the scorer itself.

verl      compute_score(data_source, solution_str, ground_truth, extra_info) of verl 0.9: a sample, a dict with `score`
openrlhf  reward_func(queries, prompts, labels) of OpenRLHF 0.11: a batch, a dict with rewards, scores and extra_logs
slime     custom_rm(args, sample) of slime: one sample or a list, awaited
verifiers functions and weights for a `Rubric` of verifiers 0.4, awaited
These trainers take no missing reward. An output without one raises `Unscored`, as a 0 would teach the model that it
failed; `unscored=X` gives X instead.
"""

import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from gradebook.rubrics.model.errors import Unscored
from gradebook.rubrics.model.outputs import OUTPUT_COLUMNS
from gradebook.tasks.rewards.rows import completion_text, prompt_of
from gradebook.tasks.rewards.scored import Score
from gradebook.tasks.rewards.scorer import RubricScorer

GROUND_TRUTH = "ground_truth"


def verl(scorer: RubricScorer, *, unscored: float | None = None) -> Callable[..., dict[str, float | None]]:
    """Make a `compute_score`: its `score` is the reward, the other keys are the criteria, which verl logs.

    ground_truth is the row's reference where it is a text or a number. Columns of outputs in extra_info are read too.
    """

    def compute_score(
        data_source: str,
        solution_str: str,
        ground_truth: Any = None,
        extra_info: Mapping[str, Any] | None = None,
        **_: Any,
    ) -> dict[str, float | None]:
        row = _row(solution_str, ground_truth, extra_info)
        found = scorer.score(row | {"metadata": row.get("metadata", {}) | {"data_source": data_source}})
        scores = {name: each.score for name, each in found.criteria.items()}
        return {"score": reward_value(found, unscored)} | {
            name: score for name, score in scores.items() if name != "score"
        }

    return compute_score


def openrlhf(scorer: RubricScorer, *, unscored: float | None = None) -> Callable[..., dict[str, Any]]:
    """Make a `reward_func`: tensors where torch is loaded, as in the trainer, else lists.

    queries: prompts with their responses; labels are the rows' references.
    """

    def reward_func(
        queries: Sequence[str], prompts: Sequence[str], labels: Sequence[Any] | None = None, **_: Any
    ) -> dict[str, Any]:
        found = scorer.score_all(openrlhf_rows(queries, prompts, labels))
        rewards = [reward_value(each, unscored) for each in found]
        nan = float("nan")
        logs = {
            name: _tensor([nan if each.criteria[name].score is None else each.criteria[name].score for each in found])
            for name in (each.id for each in scorer.rubric.criteria)
        }
        return {"rewards": _tensor(rewards), "scores": _tensor(rewards), "extra_logs": logs}

    return reward_func


def openrlhf_rows(queries: Sequence[str], prompts: Sequence[str], labels: Sequence[Any] | None) -> list[dict[str, Any]]:
    """Rows of a batch of OpenRLHF. Raises `ValueError` if the lists have other lengths."""
    references = labels if labels is not None else [None] * len(queries)
    return [
        _row(query.removeprefix(prompt), label, None) | {"prompt": prompt}
        for query, prompt, label in zip(queries, prompts, references, strict=True)
    ]


def slime(scorer: RubricScorer, *, unscored: float | None = None) -> Callable[..., Awaitable[Any]]:
    """Make a `custom_rm`: a float for a sample with prompt, response and label, a list for a list of them."""

    async def custom_rm(_args: Any, samples: Any, **_: Any) -> Any:
        listed = samples if isinstance(samples, list) else [samples]
        rows = [slime_row(each.prompt, each.response, each.label) for each in listed]
        rewards = [reward_value(each, unscored) for each in await scorer.ascore_all(rows)]
        return rewards if isinstance(samples, list) else rewards[0]

    return custom_rm


def slime_row(prompt: Any, response: Any, label: Any) -> dict[str, Any]:
    """Row of a sample of slime."""
    return _row(response, label, None) | {"prompt": prompt_of(prompt)}


def verifiers(
    scorer: RubricScorer, *, unscored: float | None = None
) -> tuple[list[Callable[..., Awaitable[float]]], list[float]]:
    """Make the functions and weights of a `Rubric`: the reward with weight 1, its criteria with 0, to be watched."""

    def function(name: str, criterion_id: str | None) -> Callable[..., Awaitable[float]]:
        async def reward(completion: Any, prompt: Any = None, answer: Any = None, **_: Any) -> float:
            row = _row(completion_text(completion), answer, None) | {"prompt": prompt_of(prompt)}
            return reward_value(await scorer.ascore(row), unscored, criterion_id)

        reward.__name__ = name
        return reward

    watched = [each.id for each in scorer.rubric.criteria if each.reward]
    functions = [function(scorer.rubric.id, None), *(function(name, name) for name in watched)]
    return functions, [1.0, *([0.0] * len(watched))]


def _row(output: Any, reference: Any, others: Mapping[str, Any] | None) -> dict[str, Any]:
    """Row of outputs from a trainer's sample."""
    known = {name: value for name, value in (others or {}).items() if name in OUTPUT_COLUMNS and value is not None}
    if isinstance(reference, bool | int | float):
        reference = str(reference)
    if isinstance(reference, str):
        known["reference"] = reference
    elif reference is not None:
        known["metadata"] = dict(known.get("metadata") or {}) | {GROUND_TRUTH: reference}
    return known | {"output": output}


def reward_value(found: Score, unscored: float | None, criterion_id: str | None = None) -> float:
    """Reward of an output, or the score of one criterion. Raises `Unscored`."""
    value = None if found.reward is None else found.reward.value
    if criterion_id is not None:
        value = found.criteria[criterion_id].score
    if value is not None:
        return value
    if unscored is not None:
        return unscored
    reasons = "; ".join(f"{name}: {reason}" for name, reason in found.unscored.items()) or "no criterion is rewarded"
    raise Unscored(f"{found.output_id}: found no reward ({reasons}), expected one for the trainer")


def _tensor(values: Sequence[float | None]) -> Any:
    torch = sys.modules.get("torch")
    return list(values) if torch is None else torch.tensor(values)
