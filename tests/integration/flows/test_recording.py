"""`gradebook evaluate --record`: a run repeated elsewhere from its recording."""

import json

import pytest

from tests.support.samples import write_outputs, write_rubric

TOLD = "output_id, criterion_id, status, level_id, score, reason, evidence, rationale"


@pytest.mark.nightly
@pytest.mark.slow
def test_a_recorded_run_is_the_same_in_a_fresh_lake(evaluate, gradebook, judge, tmp_path):
    outputs, rubric = write_outputs(tmp_path / "outputs.jsonl"), write_rubric(tmp_path / "rubric.yaml")
    judge.faults = ["refusal", "", "empty", "empty", "liar", ""]

    def told(lake: str, *words: str):
        lake = f"sqlite:{tmp_path}/{lake}/catalog.sqlite"
        finished = evaluate(outputs, "--rubric", rubric, "--lake", lake, *words)
        assert finished.code in (0, 1), finished.err
        rows = gradebook("sql", f"select {TOLD} from verdicts order by all", "--lake", lake, "--format", "json").out
        return json.loads(rows)

    first = told("first", "--judge", "gpt-4o-mini", "--record", "kept.jsonl")
    asked_count = judge.request_count
    assert told("second", "--judge", "replay:kept.jsonl") == first
    assert (judge.request_count, len({row["reason"] for row in first}) > 1) == (asked_count, True)
