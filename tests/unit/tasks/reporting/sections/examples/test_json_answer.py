"""Answers in JSON on the page."""

import json

import pytest

from gradebook.rubrics.prompts.prompt import Case
from gradebook.tasks.reporting.sections.answers import PictureBudget, ReadOutput, answer_of


@pytest.mark.parametrize(
    ("output", "shown"),
    [
        ('{"reply": "He said \\"yes\\".", "n": 1}', '{\n  "reply": "[He said \\"yes\\"].",\n  "n": 1\n}'),
        ("[1, 2]", "[\n  1,\n  2\n]"),
        ('He said "yes".', '[He said "yes"].'),
        ('{"reply": "He said', '{"reply": "He said'),
    ],
)
def test_an_answer_in_json_is_laid_out_with_its_evidence_marked(output: str, shown: str):
    row = {"model": "m", "checkpoint": None, "score": 1.0, "output": output, "output_length": len(output)}
    verdict = {"name": "Tone", "evidence": json.dumps(['He said "yes"']), "method": "judge"}
    answer = answer_of(ReadOutput(row, (verdict,), Case(None, output)), PictureBudget())
    texts = (f"[{segment.text}]" if segment.criteria else segment.text for segment in answer.segments)
    assert "".join(texts) == shown
