"""Row of a run that did not finish."""

import json

from tests.support.samples import write_outputs, write_rubric

JUDGE = "{{model: gpt-4o-mini, base_url: {base_url}, max_in_flight: 1}}"


def test_a_failed_run_with_a_reply_of_unknown_price_has_no_cost(evaluate, gradebook, judge, tmp_path):
    (tmp_path / "judge.yaml").write_text(JUDGE.format(base_url=judge.base_url))
    outputs, rubric = write_outputs(tmp_path / "o.jsonl"), write_rubric(tmp_path / "r.yaml")
    judge.faults = ["fine", "usage a list", "quota"]
    assert evaluate(outputs, "--rubric", rubric, "--judge", "judge.yaml").code == 3
    query = "select status, cost_usd, (select count(cost_usd) from judgments) as priced from runs"
    (run,) = json.loads(gradebook("sql", query, "--format", "json").out)
    assert run == {"status": "failed", "cost_usd": None, "priced": 1}
