"""`gradebook evaluate` with batch requests: a real flow, a real lake, a real endpoint."""

import time
from pathlib import Path

import pytest

from tests.support.batch_jobs import billed_usd
from tests.support.forked import Forked
from tests.support.loopback_judge import LoopbackJudge
from tests.support.nightly import nightly
from tests.support.samples import query, write_outputs, write_rubric

CASES = 6
COUNT = 2 * CASES  # two models, one judged criterion
JUDGE = "model: m\nmode: batch\nprices: {input_usd: 1.0, output_usd: 1.0}\n"


@pytest.fixture
def words(tmp_path: Path, judge: LoopbackJudge) -> tuple[str, ...]:
    write_outputs(tmp_path / "outputs.jsonl", count=CASES)
    write_rubric(tmp_path / "rubric.yaml")
    (tmp_path / "judge.yaml").write_text(JUDGE, encoding="utf-8")
    return ("outputs.jsonl", "--rubric", "rubric.yaml", "--judge", "judge.yaml")


@pytest.mark.nightly
def test_batches_score_everything_at_half_the_price_without_online_requests(evaluate, gradebook, judge, words):
    finished = evaluate(*words)
    assert finished.code == 0, finished.err
    (row,) = query(gradebook, "select count(*) n, sum(cost_usd) usd, any_value(service_tier) tier from judgments")
    assert (row["n"], row["tier"], judge.request_count) == (COUNT, "batch", 0)
    assert finished.json["cost_usd"] == pytest.approx(row["usd"]) == pytest.approx(billed_usd(judge))
    assert query(gradebook, "select count(*) n from verdicts where status = 'unscored' or is_replayed") == [{"n": 0}]


@pytest.mark.nightly
def test_questions_without_a_batch_reply_are_asked_online(evaluate, gradebook, judge, words):
    judge.batches.script = ("expired",)
    finished = evaluate(*words)
    assert finished.code == 0, finished.err
    tiers = query(gradebook, "select coalesce(service_tier, '-') t, count(*) n from judgments group by 1 order by 1")
    assert tiers == [{"t": "-", "n": COUNT // 2}, {"t": "batch", "n": COUNT // 2}]
    assert judge.request_count == COUNT // 2


@pytest.mark.nightly
@pytest.mark.slow
def test_a_published_run_leaves_the_record_of_its_batches_and_a_second_run_sends_no_request(evaluate, judge, words):
    folder = Path("lake/runs") / evaluate(*words).json["run_id"]
    assert [path.name for path in (folder / "batches").iterdir()] == ["record.jsonl"]
    again = evaluate(*words)
    assert (again.code, again.json["cost_usd"], len(judge.batches.batches)) == (0, 0, 1)


@pytest.mark.nightly
def test_batches_and_requests_online_share_one_budget(evaluate, gradebook, judge, words):
    stopped = evaluate(
        *words, "--budget-usd", "0.003"
    )  # a request may cost about 0.003 online, half of that in a batch
    (row,) = query(gradebook, "select count(*) n, sum(cost_usd) usd from judgments")
    assert stopped.code == 3
    assert "budget" in stopped.err
    assert 0 < row["n"] < COUNT
    assert row["usd"] <= 0.003
    assert evaluate(*words).code == 0
    assert judge.answered_count == COUNT


def test_an_endpoint_without_batches_ends_the_run_with_its_name(evaluate, judge, words):
    judge.batches.is_there = False
    finished = evaluate(*words)
    assert finished.code == 3
    assert f"{judge.base_url} took no batch" in finished.err


@pytest.mark.nightly
def test_without_time_for_a_batch_everything_is_asked_online(evaluate, judge, words):
    assert evaluate(*words, "--deadline", "15m").code == 0  # 10 minutes of it are reserved for online requests
    assert (judge.request_count, len(judge.batches.batches)) == (COUNT, 0)


@pytest.mark.parametrize("deadline", ["soon", "6x", "", "2030-13-01", "999999d" * 2])
def test_an_invalid_deadline_is_refused(gradebook, words, deadline):
    finished = gradebook("evaluate", *words, "--deadline", deadline)
    assert finished.code == 2
    assert "--deadline" in finished.err


def test_a_deadline_needs_a_judge_with_batch_requests(gradebook, words):
    finished = gradebook("evaluate", *words[:-1], "gpt-4o-mini", "--deadline", "6h")
    assert finished.code == 2
    assert "mode: batch" in finished.err


@pytest.mark.slow
@pytest.mark.parametrize("calls_before", [2, *nightly([1, 3])])  # begin; upload, look
def test_a_run_killed_at_any_time_pays_once(gradebook, judge, words, tmp_path, calls_before):
    judge.batches.script = ("endless",)
    first = Forked(["evaluate", *words], tmp_path)
    while first.is_running and judge.batches.calls.total() < calls_before:
        time.sleep(0.01)
    first.kill()
    judge.batches.script = ()
    code, _, err = Forked(["evaluate", *words], tmp_path).wait()
    assert code == 0, err
    (row,) = query(gradebook, "select count(*) n, count(distinct request_key) keys, sum(cost_usd) usd from judgments")
    assert (row["n"], row["keys"], len(judge.batches.batches), judge.request_count) == (COUNT, COUNT, 1, 0)
    assert row["usd"] == pytest.approx(billed_usd(judge))
