"""Notes of a run about its judge."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.loopback_judge import LoopbackJudge
from tests.support.published_runs import publish
from tests.support.samples import judged_criteria, write_lines, write_outputs, write_rubric


def notes_with(judge: LoopbackJudge, folder: Path, faults: list[str]) -> tuple[str, ...]:
    judge.faults = faults
    outputs = write_outputs(folder / "outputs.jsonl", 10)
    return tuple(publish(outputs, write_rubric(folder / "rubric.yaml"), judge="m").run["notes"])


def test_a_run_with_many_unreadable_replies_says_so_first(judge: LoopbackJudge, tmp_path: Path):
    notes = notes_with(judge, tmp_path, ["", *["prose"] * 6])
    assert "6 of" in notes[0], notes
    assert "replies of m can't be read; the first is 'I would say" in notes[0]


@pytest.mark.nightly
def test_a_single_unreadable_reply_is_no_note(judge: LoopbackJudge, tmp_path: Path):
    assert not any("can't be read" in note for note in notes_with(judge, tmp_path, ["", "prose"]))


@pytest.mark.nightly
def test_a_summary_counts_unscored_verdicts_by_reason(judge: LoopbackJudge, tmp_path: Path):
    def row(number: int) -> dict[str, Any]:
        image = {"type": "image_url", "image_url": {"url": f"file:{number}.png"}}
        prompt = [{"role": "user", "content": [{"type": "text", "text": "What is it?"}, image]}]
        return {"case_id": f"c{number}", "model": "m", "prompt": prompt, "output": f"A cat, or {number}."}

    write_lines(tmp_path / "outputs.jsonl", [row(number) for number in range(3)])
    (tmp_path / "rubric.yaml").write_text(f"id: r\nversion: 1.0.0\ncriteria:{judged_criteria('warm')}")
    (unscored,) = publish(tmp_path / "outputs.jsonl", tmp_path / "rubric.yaml", judge="m").unscored
    assert (unscored["reason"], unscored["verdict_count"]) == ("unreadable_media", 3)
    assert unscored["example"].startswith("unreadable_media: 0.png")
    assert judge.request_count == 0


def test_a_run_without_a_judge_names_what_nobody_rated(tmp_path: Path):
    outputs = write_outputs(tmp_path / "outputs.jsonl", 2)
    rubric = tmp_path / "rubric.yaml"
    names = "abcdefghi"
    criteria = judged_criteria(*names).replace("{type: judge}", "{type: judge, prefer: human}")
    rubric.write_text(f"id: r\nversion: 1.0.0\ncriteria:{criteria}", encoding="utf-8")
    cases = [json.loads(line) for line in outputs.read_text(encoding="utf-8").splitlines()]
    ratings = [
        {"case_id": case["case_id"], "model": case["model"], "criterion_id": name, "rater": "anna", "score": 1.0}
        for name, rated_count in (("a", len(cases)), ("b", 1))
        for case in cases[:rated_count]
    ]
    notes = publish(outputs, rubric, ratings=str(write_lines(tmp_path / "ratings.jsonl", ratings))).run["notes"]
    assert [note for note in notes if "no --judge" in note] == [
        "no --judge: c, d, e, f, g and 2 more unscored",
        "no --judge: b unscored where nobody rated",
    ]
