"""Examples for a judge, chosen from rated outputs of the search's cases."""

from collections.abc import Sequence

import numpy as np

from gradebook.rubrics.model.levels import Level
from gradebook.rubrics.model.methods import JudgedExample, JudgeMethod
from gradebook.rubrics.model.outputs import read_field
from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.prompts.media import has_media
from gradebook.tasks.learning.rated import RatedOutputs
from gradebook.tasks.rewards.outputs import ReadOutput

EXAMPLES = 4  # examples in every question
LONGEST = 1_500  # characters of an example's output, and of its prompt
TOLERANCE = 1e-9  # difference of scores that count as equal


def choose_examples(rated: RatedOutputs, indices: Sequence[int]) -> tuple[JudgedExample, ...]:
    """Examples of different cases and levels; preferred are disagreements, small ones first, and outputs with notes.

    indices: outputs to choose from. Empty if fewer than two levels have a short output that people agree on.
    """
    method = rated.criterion.method_as(JudgeMethod)
    if method.sees != "answer":
        return ()
    by_level: dict[str, list[tuple[str, JudgedExample]]] = {}
    for index in sorted(indices, key=lambda index: _rank(rated, index)):
        row = rated.rows[index]
        level = level_of(rated.criterion, rated.people[index])
        example = None if level is None else _example(rated.outputs[index], row["case_id"], level, row["notes"], method)
        if level is not None and example is not None:
            by_level.setdefault(level.id, []).append((str(row["shared"]), example))
    if len(by_level) < 2:
        return ()
    examples: list[JudgedExample] = []
    used_cases: set[str] = set()
    queues = [by_level[level.id] for level in rated.criterion.ranked_levels if level.id in by_level]
    while len(examples) < EXAMPLES and any(queues):
        for queue in queues:
            fresh = next((pair for pair in queue if pair[0] not in used_cases), None)
            queue[:] = [pair for pair in queue if pair is not fresh and pair[0] not in used_cases]
            if fresh is not None and len(examples) < EXAMPLES:
                used_cases.add(fresh[0])
                examples.append(fresh[1])
    return tuple(examples) if len({example.level for example in examples}) > 1 else ()


def level_of(criterion: Criterion, score: float) -> Level | None:
    """Level with exactly this score; None for a mean between levels: people disagree on the output."""
    return next((level for level in criterion.ranked_levels if abs(level.score - score) < TOLERANCE), None)


def nearest_level(criterion: Criterion, score: float) -> Level:
    """Level nearest to a score."""
    return min(criterion.ranked_levels, key=lambda level: abs(level.score - score))


def _rank(rated: RatedOutputs, index: int) -> tuple[bool, float, bool, int]:
    """Sort key of the preference: disagreements by one level mark the border between neighbouring levels."""
    gap = float(np.abs(rated.judged[index] - rated.people[index]))
    return gap <= TOLERANCE, gap, not rated.rows[index]["notes"], len(rated.outputs[index].output.output)


def _example(
    output: ReadOutput, case_id: str, level: Level, notes: Sequence[str], method: JudgeMethod
) -> JudgedExample | None:
    text: str | None = output.output.output
    prompt = output.output.prompt
    if has_media(prompt, output.output.output):
        return None
    if method.field is not None:
        text, _ = read_field(output.output.output, method.field)
    if not text or len(text) > LONGEST:
        return None
    shown_prompt = prompt if prompt is not None and len(prompt) <= LONGEST else None
    rationale = notes[0][:LONGEST] if notes else None
    return JudgedExample(output=text, level=level.id, prompt=shown_prompt, rationale=rationale, case_id=case_id)
