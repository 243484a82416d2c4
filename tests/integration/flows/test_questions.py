"""The worked questions, and the query of docs/sql.md, on a lake with two runs of the shipped example."""

import json
import re
import shutil
from importlib.resources import files
from pathlib import Path

import pytest

from gradebook.tasks.lake.sql import list_questions

EXAMPLE = Path(str(files("gradebook.examples"))) / "support_replies"
PAGE = Path(__file__).parents[3] / "docs" / "sql.md"
SHOWN = re.findall(r"```sql\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
QUESTIONS = [*(question.statement for question in list_questions()), *SHOWN]
JUDGE = ("--judge", f"replay:{EXAMPLE / 'replies.jsonl'}")


def worsen(file: Path) -> None:
    """Cut every third output after its first word."""
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    for row in rows[::3]:
        row["output"] = row["output"].split()[0]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@pytest.mark.nightly
@pytest.mark.slow
def test_the_ten_questions_are_answered(evaluate, gradebook, tmp_path):
    outputs = Path(shutil.copy(EXAMPLE / "outputs.jsonl", tmp_path))
    ratings = tmp_path / "ratings.csv"
    of_tone = "c01,support-large,tone,rater_a,partial,,2026-11-03T09:00:00Z\n"
    ratings.write_text((EXAMPLE / "ratings.csv").read_text(encoding="utf-8") + of_tone, encoding="utf-8")
    for _ in range(2):
        finished = evaluate(outputs, "--rubric", EXAMPLE / "rubric.yaml", *JUDGE, "--ratings", ratings)
        assert finished.code in (0, 1), finished.err
        worsen(outputs)
    answers = {question: gradebook("sql", question, "--format", "json") for question in QUESTIONS}
    assert len(answers) >= 10
    assert [question for question, answer in answers.items() if answer.code or not answer.json] == []
