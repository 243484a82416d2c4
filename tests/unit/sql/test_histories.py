"""Views over runs: previous scores, latest runs, costs and worst outputs."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import duckdb
import pyarrow as pa
import pytest

Row = dict[str, Any]
Ask = Callable[[str], list[Row]]
FINISHED = datetime(2026, 11, 1, tzinfo=UTC)


def run(version: int, **changes: Any) -> Row:
    """Row of a published run, with an id made of its version."""
    row = {"run_id": f"r{version}", "version": version, "status": "published", "finished_at": FINISHED}
    row |= {"rubric_id": "reply", "rubric_digest": "d", "dataset_digest": "s", "output_count": 10, "cost_usd": 1.0}
    return row | changes


def mean(version: int, mean: float | None, checkpoint: str | None = None, **changes: Any) -> Row:
    return {"run_id": f"r{version}", "model": "m", "checkpoint": checkpoint, "mean": mean} | changes


@pytest.fixture
def insert(memory: duckdb.DuckDBPyConnection) -> Callable[..., None]:
    def call(table: str, *rows: Row) -> None:
        memory.register("given", pa.Table.from_pylist(list(rows)))
        memory.execute(f"insert into {table} by name from given")
        memory.unregister("given")

    return call


@pytest.fixture
def ask(memory: duckdb.DuckDBPyConnection) -> Ask:
    return lambda query: memory.execute(query).to_arrow_table().to_pylist()


def test_a_mean_is_paired_with_that_of_the_previous_run(insert, ask):
    insert("runs", run(3), run(5), run(9))
    insert("run_scores", mean(3, 0.5), mean(5, 0.75), mean(9, 0.25))
    assert ask("select run_id, previous_run_id, previous_mean, change from score_history order by version") == [
        {"run_id": "r3", "previous_run_id": None, "previous_mean": None, "change": None},
        {"run_id": "r5", "previous_run_id": "r3", "previous_mean": 0.5, "change": 0.25},
        {"run_id": "r9", "previous_run_id": "r5", "previous_mean": 0.75, "change": -0.5},
    ]


def test_the_same_checkpoint_comes_before_another_one(insert, ask):
    insert("runs", run(1), run(2), run(3))
    insert("run_scores", mean(1, 0.1, "100"), mean(2, 0.2, "200"), mean(3, 0.3, "100"), mean(3, 0.4, "300"))
    rows = ask(
        "select checkpoint, previous_run_id, previous_checkpoint from score_history where run_id = 'r3' order by 1"
    )
    assert [tuple(row.values()) for row in rows] == [("100", "r1", "100"), ("300", "r2", "200")]


def test_of_several_earlier_checkpoints_the_highest_step_is_the_previous_one(insert, ask):
    insert("runs", run(1), run(2))
    insert("run_scores", mean(1, 0.1, "900"), mean(1, 0.2, "1000"), mean(2, 0.3, "1100"))
    assert ask("select previous_checkpoint from score_history where run_id = 'r2'") == [{"previous_checkpoint": "1000"}]


def test_the_step_is_the_number_at_the_end_of_a_checkpoint(insert, ask):
    insert("runs", run(1), run(2))
    insert("run_scores", mean(1, 0.1, "v2/step-900"), mean(1, 0.2, "v2/step-1000"), mean(2, 0.3, "v2/step-1100"))
    rows = ask("select previous_checkpoint from score_history where run_id = 'r2'")
    assert rows == [{"previous_checkpoint": "v2/step-1000"}]


def test_a_checkpoint_with_a_number_is_never_the_predecessor_of_one_without(insert, ask):
    insert("runs", run(1), run(2))
    insert("run_scores", mean(1, 0.1, "900"), mean(1, 0.2, "base"), mean(2, 0.3, "1100"))
    assert ask("select previous_checkpoint from score_history where run_id = 'r2'") == [{"previous_checkpoint": "900"}]


def test_checkpoints_of_one_run_do_not_come_before_each_other(insert, ask):
    insert("runs", run(1))
    insert("run_scores", mean(1, 0.1, "100"), mean(1, 0.2, "200"))
    assert ask("select previous_run_id from score_history") == [{"previous_run_id": None}] * 2


def test_runs_of_other_rubrics_and_unpublished_runs_are_never_the_previous_run(insert, ask):
    insert("runs", run(1, rubric_id="other"), run(2, status="running"), run(3))
    insert("run_scores", mean(1, 0.1), mean(2, 0.2), mean(3, 0.3))
    assert ask("select run_id, previous_run_id from score_history where rubric_id = 'reply'") == [
        {"run_id": "r3", "previous_run_id": None}
    ]


def test_a_history_marks_equal_rubrics_and_outputs(insert, ask):
    insert("runs", run(1), run(2, rubric_digest="e"), run(3, rubric_digest="e", dataset_digest="t"))
    insert("run_scores", mean(1, 0.1), mean(2, 0.2), mean(3, 0.3))
    rows = ask("select is_same_rubric, is_same_dataset from score_history order by version")
    assert [tuple(row.values()) for row in rows] == [(None, None), (False, True), (True, False)]


def test_a_history_compares_judges_and_no_judge_equals_no_judge(insert, ask):
    judges = (None, None, "x", "x", "y", "replay:a", "replay:b")
    insert("runs", *(run(version, judge=judge) for version, judge in enumerate(judges, 1)))
    insert("run_scores", *(mean(version, 0.1) for version in range(1, 8)))
    rows = ask("select is_same_judge from score_history order by version")
    assert [row["is_same_judge"] for row in rows] == [None, True, False, True, False, False, True]


def test_the_change_of_a_criterion_needs_the_same_text(insert, ask):
    digests = {"1.0.0": {"same": "d", "other": "d", "unknown": None}, "1.1.0": {"same": "d", "other": "e"}}
    insert("runs", run(1, rubric_version="1.0.0"), run(2, rubric_version="1.1.0"))
    insert("run_scores", mean(1, 0.1), mean(2, 0.2))
    for version, found in digests.items():
        named = {"rubric_id": "reply", "rubric_version": version}
        insert("criteria", *(named | {"criterion_id": name, "digest": digest} for name, digest in found.items()))
    names = ("same", "other", "unknown", "of_rows")
    insert("criterion_scores", *(mean(v, 0.25 * v, criterion_id=name) for v in (1, 2) for name in names))
    rows = ask("select criterion_id, previous_mean, change from criterion_history where run_id = 'r2' order by 1")
    assert {row["criterion_id"]: row["change"] for row in rows} == dict.fromkeys(names) | {"same": 0.25}
    assert {row["previous_mean"] for row in rows} == {0.25}


def test_the_change_of_a_per_case_criterion_needs_one_text_or_equal_shares_of_texts(insert, ask):
    known = {"one": ("d", "ddd"), "several": ("de", "ed"), "twice": ("de", "eedd")}
    texts = known | {"more": ("d", "de"), "shares": ("de", "dee"), "other": ("d", "e"), "unknown": ("", "")}
    insert("runs", run(1), run(2))
    insert("run_scores", mean(1, 0.1), mean(2, 0.2))
    for name, of_runs in texts.items():
        for version, found in enumerate(of_runs, 1):
            brought = {"run_id": f"r{version}", "criterion_id": name}
            insert("case_criteria", *(brought | {"digest": digest} for digest in found or [None]))
    insert("criterion_scores", *(mean(v, 0.25 * v, criterion_id=name) for v in (1, 2) for name in texts))
    rows = ask("select criterion_id, change from criterion_history where run_id = 'r2'")
    assert {row["criterion_id"]: row["change"] for row in rows} == dict.fromkeys(texts) | dict.fromkeys(known, 0.25)


def test_a_criterion_is_paired_with_its_mean_in_the_previous_run(insert, ask):
    insert("runs", run(1, rubric_version="1.0.0"), run(2, rubric_version="1.0.0"))
    insert("criteria", {"rubric_id": "reply", "rubric_version": "1.0.0", "criterion_id": "tone", "digest": "d"})
    insert("run_scores", mean(1, 0.1), mean(2, 0.2))
    insert(
        "criterion_scores", *(mean(v, 0.25 * v, criterion_id="tone") for v in (1, 2)), mean(2, 1.0, criterion_id="new")
    )
    rows = ask("select criterion_id, previous_mean, change from criterion_history where run_id = 'r2' order by 1")
    assert [tuple(row.values()) for row in rows] == [("new", None, None), ("tone", 0.25, 0.25)]


def test_the_latest_run_is_one_for_each_model_and_checkpoint(insert, ask):
    insert("runs", run(1), run(2), run(3))
    insert("run_scores", mean(1, 0.1), mean(2, 0.2), mean(2, 0.2, "7"), mean(3, 0.3, model="other"))
    rows = ask("select model, checkpoint, run_id from latest_runs order by all")
    assert [tuple(row.values()) for row in rows] == [("m", "7", "r2"), ("m", None, "r2"), ("other", None, "r3")]


def test_an_earlier_run_is_not_among_the_latest(insert, ask):
    insert("runs", run(1, dataset="old.jsonl", rubric_version="1.0.0"), run(2, finished_at=None))
    insert("run_scores", mean(1, 0.1), mean(2, 0.2))
    rows = ask("select run_id, version, finished_at, rubric_version, dataset from latest_runs")
    assert [tuple(row.values()) for row in rows] == [("r2", 2, None, None, None)]


@pytest.mark.parametrize(
    ("triggers", "found"), [(["manual", "review"], "r1"), (["review", "review"], "r2"), (["manual", "schedule"], "r2")]
)
def test_a_review_takes_no_evaluation_s_place_among_the_latest_scores(insert, ask, triggers, found):
    insert("runs", *(run(version, trigger=trigger) for version, trigger in enumerate(triggers, 1)))
    insert("run_scores", mean(1, 0.1), mean(2, 0.2))
    assert [row["run_id"] for row in ask("select run_id from latest_run_scores")] == [found]


def test_costs_of_a_run_are_summed_over_its_stages(insert, ask):
    insert("runs", run(1), run(2, status="failed"))
    stage = {"run_id": "r1", "stage": "score", "request_count": 3, "replayed_count": 4, "saved_usd": 0.5}
    insert("stage_costs", stage, stage | {"criterion_id": "tone"})
    names = "run_id, request_count, replayed_count, cost_usd, saved_usd, usd_per_output"
    assert [tuple(row.values()) for row in ask(f"select {names} from cost_history")] == [("r1", 6, 8, 1.0, 1.0, 0.1)]


def test_savings_at_an_unknown_price_are_unknown(insert, ask):
    insert("runs", run(1))
    insert("stage_costs", {"run_id": "r1", "saved_usd": 0.5}, {"run_id": "r1", "saved_usd": None})
    assert ask("select saved_usd from cost_history") == [{"saved_usd": None}]


def test_the_worst_outputs_fail_gates_then_score_low_and_the_unscored_come_last(insert, ask):
    scores = {"a": (0.9, ["safe"]), "b": (0.1, []), "c": (None, []), "d": (0.0, []), "e": (0.0, [])}
    rows = [mean(1, None) | {"output_id": name, "score": s, "failed_gates": g} for name, (s, g) in scores.items()]
    insert("output_scores", *({k: v for k, v in row.items() if k != "mean"} for row in rows))
    found = ask("select output_id, place from worst_outputs where run_id = 'r1' order by place")
    assert [(row["output_id"], row["place"]) for row in found] == [("a", 1), ("d", 2), ("e", 3), ("b", 4), ("c", 5)]
