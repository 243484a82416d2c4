"""`gradebook evaluate`, from files to published tables: a real flow, a real lake, a real endpoint."""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.samples import query, write_outputs, write_rubric

LAKE = "sqlite:lake/catalog.sqlite"


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    return write_outputs(tmp_path / "outputs.jsonl")


@pytest.fixture
def rubric(tmp_path: Path) -> Path:
    return write_rubric(tmp_path / "rubric.yaml")


@dataclass(frozen=True)
class Evaluated:
    """First evaluation of the sample outputs: printed JSON, number of requests, and lake."""

    folder: Path
    out: str
    err: str
    request_count: int
    prompt_tokens: int


Kept = dict[str, Evaluated]


@pytest.fixture(scope="module")
def kept() -> Kept:
    """Folders of the first `unjudged` and `judged`; later tests copy them."""
    return {}


def evaluated_once(kept: Kept, name: str, folder: Path, evaluate: Callable[[], Evaluated]) -> Evaluated:
    if name in kept:
        shutil.copytree(kept[name].folder, folder, dirs_exist_ok=True)
    else:
        kept[name] = evaluate()
        shutil.copytree(folder, kept[name].folder)
    return kept[name]


@pytest.fixture
def unjudged(evaluate, outputs, rubric, tmp_path, tmp_path_factory, kept) -> Evaluated:
    """Test folder after an evaluation without a judge."""

    def first() -> Evaluated:
        finished = evaluate(outputs, "--rubric", rubric)
        assert finished.code == 1, finished.err  # an unscored criterion meets no threshold
        return Evaluated(tmp_path_factory.mktemp("unjudged") / "kept", finished.out, finished.err, 0, 0)

    return evaluated_once(kept, "unjudged", tmp_path, first)


@pytest.fixture
def judged(evaluate, judge, outputs, rubric, tmp_path, tmp_path_factory, kept) -> Evaluated:
    """Test folder after an evaluation with a judge."""

    def first() -> Evaluated:
        finished = evaluate(outputs, "--rubric", rubric, "--judge", "gpt-4o-mini")
        assert finished.code == 0, finished.err
        folder = tmp_path_factory.mktemp("judged") / "kept"
        return Evaluated(folder, finished.out, finished.err, judge.request_count, judge.prompt_tokens)

    return evaluated_once(kept, "judged", tmp_path, first)


def test_a_run_is_published_and_its_tables_answer_sql(judged, gradebook):
    scores = query(gradebook, "select model, mean, n from run_scores order by model")
    assert [(row["model"], row["n"]) for row in scores] == [("large", 6), ("small", 6)]
    assert {row["model"]: row["mean"] for row in json.loads(judged.out)["scores"]} == {
        row["model"]: row["mean"] for row in scores
    }


def test_every_judgment_is_in_the_ledger_once_and_priced(judged, gradebook):
    (row,) = query(
        gradebook,
        "select count(*) n, count(distinct request_key) keys, sum(cost_usd) usd, sum(prompt_tokens) t from judgments",
    )
    assert (row["n"], row["keys"], judged.request_count) == (12, 12, 12)  # 6 cases x 2 models x 1 judged criterion
    assert row["usd"] == pytest.approx(json.loads(judged.out)["cost_usd"])
    assert row["t"] == judged.prompt_tokens


@pytest.mark.nightly
def test_a_rerun_sends_no_request_and_costs_nothing(judged, evaluate, judge, outputs, rubric):
    first, asked = json.loads(judged.out), judge.request_count
    second = evaluate(outputs, "--rubric", rubric, "--judge", "gpt-4o-mini").json
    assert judge.request_count == asked
    assert second["cost_usd"] == 0
    assert second["run_id"] != first["run_id"]
    assert second["scores"][0]["mean"] == first["scores"][0]["mean"]


@pytest.mark.nightly
def test_another_weight_needs_no_request(judged, evaluate, judge, outputs, tmp_path):
    asked = judge.request_count
    heavier = write_rubric(tmp_path / "heavier.yaml", version="1.0.1", weight=3)
    finished = evaluate(outputs, "--rubric", heavier, "--judge", "gpt-4o-mini")
    assert (judge.request_count, finished.json["cost_usd"]) == (asked, 0)
    (costs,) = [row for row in finished.json["costs"] if row["criterion_id"] == "clarity"]
    assert costs["replayed_count"] == 12
    assert costs["saved_usd"] > 0


def test_a_used_version_with_another_text_is_refused(unjudged, gradebook, outputs, rubric):
    write_rubric(rubric, weight=2)
    finished = gradebook("evaluate", outputs, "--rubric", rubric)
    assert finished.code == 2
    assert "criteria[clarity].weight: 1" in finished.err
    assert len(query(gradebook, "from runs")) == 1


def test_without_a_judge_judged_criteria_stay_unscored_with_a_reason(unjudged, gradebook):
    rows = query(gradebook, "select distinct status, reason, score from verdicts where criterion_id = 'clarity'")
    assert rows == [{"status": "unscored", "reason": "no_judge: the run had no --judge", "score": None}]


def test_an_unscored_verdict_bounds_the_score_instead_of_lowering_it(unjudged, gradebook):
    rows = query(gradebook, "select distinct score, score_low, score_high from output_scores")
    # length passes (1 x 1), clarity is unscored: (0 + 1) / 2 to (1 + 1) / 2
    assert rows == [{"score": None, "score_low": 0.5, "score_high": 1.0}]


def test_a_failed_call_is_an_unscored_verdict_and_the_next_run_asks_again(evaluate, gradebook, judge, outputs, rubric):
    judge.faults = ["400"]
    finished = evaluate(outputs, "--rubric", rubric, "--judge", "gpt-4o-mini")
    reasons = query(gradebook, "select reason from verdicts where status = 'unscored'")
    assert finished.code == 0
    assert len(reasons) == 1
    assert reasons[0]["reason"].startswith("endpoint_error")
    asked = judge.request_count
    assert evaluate(outputs, "--rubric", rubric, "--judge", "gpt-4o-mini").code == 0
    assert judge.request_count == asked + 1


def test_the_budget_stops_the_run_and_a_larger_one_resumes_it(evaluate, gradebook, judge, outputs, rubric):
    # A request may cost at most 0.0021 dollars, at the dearest tier, and costs 0.0001: a few fit, not twelve.
    stopped = evaluate(outputs, "--rubric", rubric, "--judge", "gpt-4o-mini", "--budget-usd", "0.0025")
    asked = judge.request_count
    assert stopped.code == 3
    assert "budget" in stopped.err
    assert 0 < asked < 12
    (row,) = query(gradebook, "select count(*) n, sum(cost_usd) usd from judgments")
    assert row["n"] == asked
    assert [run["cost_usd"] for run in query(gradebook, "from runs")] == [row["usd"]]  # the run records its cost
    assert 0 < row["usd"] <= 0.0025
    finished = evaluate(outputs, "--rubric", rubric, "--judge", "gpt-4o-mini")
    assert (finished.code, judge.request_count) == (0, 12)
    assert [row["status"] for row in query(gradebook, "from runs")] == ["published"]
    # Requests paid before it stopped are billed, not saved.
    (costs,) = [row for row in finished.json["costs"] if row["criterion_id"] == "clarity"]
    assert (costs["request_count"], costs["replayed_count"], costs["saved_usd"]) == (12, 0, 0)
    assert query(gradebook, "select count(*) n from verdicts where is_replayed") == [{"n": 0}]


@pytest.mark.nightly
def test_the_same_answer_of_several_models_is_judged_once(evaluate, judge, rubric, tmp_path):
    rows = [{"case_id": "c", "model": model, "prompt": "Where?", "output": "In Paris, of course."} for model in "abcd"]
    (tmp_path / "alike.jsonl").write_text("\n".join(map(json.dumps, rows)))
    finished = evaluate("alike.jsonl", "--rubric", rubric, "--judge", "gpt-4o-mini")
    assert judge.request_count == 1
    assert len({row["mean"] for row in finished.json["scores"]}) == 1
    assert len(finished.json["scores"]) == 4


@pytest.mark.nightly
def test_an_unwritable_report_leaves_the_run_published(gradebook, outputs, rubric, tmp_path):
    (tmp_path / "lake/runs/night/report.html").mkdir(parents=True)
    assert gradebook("evaluate", outputs, "--rubric", rubric, "--run-id", "night").code == 3
    assert query(gradebook, "select status from runs") == [{"status": "published"}]
    (tmp_path / "lake/runs/night/report.html").rmdir()
    again = gradebook("evaluate", outputs, "--rubric", rubric, "--run-id", "night", "--json")
    assert again.json["run_id"] == "night"
    assert len(query(gradebook, "from runs")) == 1


def test_a_refused_key_is_told_before_anything_is_written(evaluate, judge, outputs, rubric, tmp_path):
    judge.key = "another"
    finished = evaluate(outputs, "--rubric", rubric, "--judge", "gpt-4o-mini")
    assert finished.code == 3
    assert "OPENAI_API_KEY" in finished.err
    assert "Traceback" not in finished.err
    assert not (tmp_path / "lake").exists()


@pytest.mark.nightly
def test_a_run_whose_quota_ends_fails_with_a_sentence_and_a_row(evaluate, gradebook, judge, outputs, rubric):
    judge.faults = ["quota"]
    finished = evaluate(outputs, "--rubric", rubric, "--judge", "gpt-4o-mini")
    assert (finished.code, "the quota is used up" in finished.err) == (3, True)
    (row,) = query(gradebook, "select status, reason from runs")
    assert (row["status"], "the quota is used up" in row["reason"]) == ("failed", True)


def test_no_file_of_a_run_contains_the_key(judged, tmp_path):
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert written
    assert not [path for path in written if b"sk-canary" in path.read_bytes()]
    assert "sk-canary" not in judged.out + judged.err


@pytest.mark.nightly
def test_a_broken_verdict_stops_the_publication(evaluate, gradebook, judge, outputs, rubric, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    judge.faults = ["quota"]
    evaluate(outputs, "--rubric", rubric, "--judge", "gpt-4o-mini", "--run-id", "broken")
    (shard,) = tmp_path.glob("lake/runs/broken/shards/*.parquet")
    rows = pq.read_table(shard)
    doubled = rows.set_column(0, "output_id", pa.array([rows["output_id"][0].as_py()] * len(rows)))
    pq.write_table(doubled, shard)
    finished = evaluate(outputs, "--rubric", rubric, "--judge", "gpt-4o-mini", "--run-id", "broken")
    assert finished.code == 3
    assert "data quality" in finished.err
    assert query(gradebook, "from output_scores") == []
    broken = query(gradebook, "select stage from quality_results where not is_met and severity = 'error'")
    assert broken[0] == {"stage": "ingest"}


@pytest.mark.nightly
def test_an_old_version_reads_as_it_was_and_outputs_are_stored_once(unjudged, evaluate, gradebook, outputs, rubric):
    first = json.loads(unjudged.out)["version"]
    evaluate(outputs, "--rubric", rubric)
    assert len(query(gradebook, "select distinct run_id from output_scores")) == 2
    assert len(query(gradebook, "select distinct run_id from output_scores", "--at", str(first))) == 1
    assert query(gradebook, "select count(*) n, count(distinct output_id) d from outputs") == [{"n": 12, "d": 12}]


def test_every_stage_leaves_quality_results_and_costs(judged, gradebook):
    stages = query(
        gradebook, "select stage, bool_and(is_met) met from quality_results where severity = 'error' group by stage"
    )
    assert {row["stage"] for row in stages if row["met"]} == {"ingest", "verdicts", "judgments", "marts"}
    costs = query(gradebook, "select distinct stage from stage_costs")
    stages = {"ingest", "plan", "score", "quality", "aggregate", "publish", "other"}
    assert {row["stage"] for row in costs} - {"start"} == stages


def test_a_repeated_run_id_is_answered_from_the_lake(unjudged, evaluate, outputs, rubric):
    first = json.loads(unjudged.out)
    again = evaluate(outputs, "--rubric", rubric, "--run-id", first["run_id"]).json
    assert again["version"] == first["version"]


def test_a_run_id_of_other_outputs_is_refused(unjudged, evaluate, rubric, tmp_path):
    run_id = json.loads(unjudged.out)["run_id"]
    other = write_outputs(tmp_path / "other.jsonl", count=2)
    finished = evaluate(other, "--rubric", rubric, "--run-id", run_id)
    assert finished.code == 2
    assert run_id in finished.err
