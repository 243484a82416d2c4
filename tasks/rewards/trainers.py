"""A scorer in the forms that trainers call. TRL calls the scorer itself.

verl      compute_score(data_source, solution_str, ground_truth, extra_info) of verl 0.9: a sample, a dict with `score`
openrlhf  reward_func(queries, prompts, labels) of OpenRLHF 0.11: a batch, a dict with rewards, scores and extra_logs
slime     custom_rm(args, sample) of slime: one sample or a list, awaited
verifiers methods of a `Task` of verifiers 0.4, awaited: the reward, and the scores by criterion
These trainers take no missing reward. An output without a reward raises `Unscored`, as a 0 would teach the model that
it failed; `unscored=X` gives X instead.
"""

import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from gradebook.rubrics.model.errors import Unscored
from gradebook.rubrics.model.outputs import OUTPUT_COLUMNS
from gradebook.tasks.rewards.outputs import Score, prompt_of
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
        score = scorer.score(_row(solution_str, ground_truth, extra_info) | {"data_source": data_source})
        scores = {name: criterion.score for name, criterion in score.criteria.items()}
        return {"score": reward_value(score, unscored)} | {
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
        outputs_scores = scorer.score_all(openrlhf_rows(queries, prompts, labels))
        rewards = [reward_value(output_score, unscored) for output_score in outputs_scores]
        nan = float("nan")
        logs = {
            name: _tensor(
                [
                    nan if output_score.criteria[name].score is None else output_score.criteria[name].score
                    for output_score in outputs_scores
                ]
            )
            for name in (criterion.id for criterion in scorer.rubric.criteria)
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
        rows = [slime_row(sample.prompt, sample.response, sample.label) for sample in listed]
        rewards = [reward_value(score, unscored) for score in await scorer.ascore_all(rows)]
        return rewards if isinstance(samples, list) else rewards[0]

    return custom_rm


def slime_row(prompt: Any, response: Any, label: Any) -> dict[str, Any]:
    """Row of a sample of slime."""
    return _row(response, label, None) | {"prompt": prompt_of(prompt)}


def verifiers(
    scorer: RubricScorer, *, unscored: float | None = None
) -> tuple[Callable[..., Awaitable[float]], Callable[..., Awaitable[dict[str, float]]]]:
    """Make two methods of a `Task`: the reward for `vf.reward`, and the scores by criterion for `vf.metric`.

    They read the last reply of the trace, and the prompt and the field `answer` of the task's data. Unscored criteria
    are left out of the second. Both ask about an output once.
    """

    async def score_trace(task: Any, trace: Any) -> Score:
        data = getattr(task, "data", task)  # a function named in a config gets the data itself
        return await scorer.ascore(
            _row(trace.last_reply, getattr(data, "answer", None), None) | {"prompt": data.prompt_text}
        )

    async def reward(task: Any, trace: Any) -> float:
        return reward_value(await score_trace(task, trace), unscored)

    async def criteria(task: Any, trace: Any) -> dict[str, float]:
        scores = {name: criterion.score for name, criterion in (await score_trace(task, trace)).criteria.items()}
        return {name: score for name, score in scores.items() if score is not None}

    reward.__name__, criteria.__name__ = scorer.rubric.id, f"{scorer.rubric.id}_criteria"
    return reward, criteria


def _row(output: Any, reference: Any, extra: Mapping[str, Any] | None) -> dict[str, Any]:
    """Row of outputs from a trainer's sample. Other columns go into its metadata, as for a file."""
    columns = {name: value for name, value in (extra or {}).items() if name in OUTPUT_COLUMNS and value is not None}
    if isinstance(reference, bool | int | float):
        reference = str(reference)
    if isinstance(reference, str):
        columns["reference"] = reference
    elif reference is not None:
        columns[GROUND_TRUTH] = reference
    return columns | {"output": output}


def reward_value(score: Score, unscored: float | None) -> float:
    """Reward of an output, or `unscored` if it has none. Raises `Unscored` if both are None."""
    value = None if score.reward is None else score.reward.value
    if value is not None:
        return value
    if unscored is not None:
        return unscored
    reasons = "; ".join(f"{name}: {reason}" for name, reason in score.unscored.items())
    reasons = reasons or score.unscored_reason or "no criterion is rewarded"
    raise Unscored(f"{score.output_id}: found no reward ({reasons}), expected one for the trainer")


def _tensor(values: Sequence[float | None]) -> Any:
    torch = sys.modules.get("torch")
    return list(values) if torch is None else torch.tensor(values)
