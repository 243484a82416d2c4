"""Rows of a run for training: rewards, pairs beyond the judge's noise, examples, curriculum, best of n."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.model.rubric import Rubric
from gradebook.rubrics.model.scores import Gates
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.lake.connections import commit
from gradebook.tasks.rewards.export import (
    best_rows,
    curriculum_rows,
    judgment_rows,
    pair_rows,
    read_rewards,
    reward_rows,
    sft_rows,
)
from tests.support.new_lakes import write_copy
from tests.support.published_runs import publish
from tests.support.samples import write_lines
from tests.support.scored_lake import make_lake, write_scores

LEVELS = [{"id": "bad", "score": 0}, {"id": "good", "score": 1}]
JUDGED = {"description": "?", "method": {"type": "judge"}, "levels": LEVELS}
CHECKED = {"description": "?", "method": {"type": "check", "check": "any"}}
RUBRIC = {
    "id": "reply",
    "version": "1.0.0",
    "pass_threshold": 0.7,
    "criteria": [
        JUDGED | {"id": "tone", "weight": 3},
        CHECKED | {"id": "short", "weight": 1},
        CHECKED | {"id": "safe", "gate": True},
        CHECKED | {"id": "watched", "reward": False, "weight": 1},
    ],
}
GOOD = {"tone": 1.0, "short": 1.0, "safe": 1.0, "watched": 0.0}
SCORES: dict[str, list[dict[str, float | None]]] = {
    "a": [GOOD, GOOD | {"tone": 0.5}, GOOD | {"safe": 0.0}, GOOD | {"tone": None}],  # 1, 0.625, 0, unknown
    "b": [GOOD, GOOD],  # no spread
}


def export(folder: Any, gates: str = "veto", rubric: dict[str, Any] = RUBRIC, noise: float | None = None) -> Any:
    """The rewards of a published run of `SCORES`. noise: variance of the judge on tone."""
    if rubric is RUBRIC:
        write_copy(folder, publish_night)
    else:
        publish_night(folder, rubric)
    lake = find_lake(f"sqlite:{folder}/lake/catalog.sqlite")
    if noise is not None:
        names = "(run_id, model, criterion_id, judge_variance)"
        insert = f"insert into judge_noise {names} values ('night', 'm', 'tone', ?)"
        commit(lake, "noise", lambda connection, _version: connection.execute(insert, [noise]))
    return read_rewards(lake, "night", Gates.read(gates))


def publish_night(folder: Path, rubric: dict[str, Any] = RUBRIC) -> None:
    outputs = [
        {"case_id": case, "sample_index": place, "output_id": f"{case}{place}", "scores": scores}
        for case, listed in SCORES.items()
        for place, scores in enumerate(listed)
    ]
    write_scores(make_lake(folder), "night", Rubric.model_validate(rubric), outputs)


def test_rewards_are_those_of_the_rule_and_null_where_unscored(tmp_path):
    rows = list(reward_rows(export(tmp_path), "plain"))
    # (3 x 0.5 + 1) / 4; a veto is 0; without tone 1/4 to 4/4. `watched`, at 0, counts nowhere.
    assert [row["reward"] for row in rows] == [1.0, 0.625, 0.0, None, 1.0, 1.0]
    assert (rows[3]["reward_low"], rows[3]["reward_high"], rows[3]["rewards"]["tone"]) == (0.25, 1.0, None)
    assert rows[0]["weights"] == {"tone": 3.0, "short": 1.0, "safe": 0.0}
    assert (rows[2]["failed_gates"], {row["group_id"] for row in rows[:4]}) == (["safe"], {'["a", "m"]'})


def test_gates_may_be_a_penalty_or_ignored(tmp_path):
    assert [row["reward"] for row in reward_rows(export(tmp_path / "a", "penalty=0.25"), "plain")][2] == 0.75
    assert [row["reward"] for row in reward_rows(export(tmp_path / "b", "ignore"), "plain")][2] == 1.0


@pytest.mark.parametrize(
    ("shape", "columns"),
    [
        ("trl", ["prompt", "completion", "reward"]),
        ("verl", ["data_source", "prompt", "ability", "reward_model", "extra_info"]),
        ("openrlhf", ["input", "output", "label", "reward"]),
    ],
)
def test_a_shape_has_the_columns_of_its_trainer(tmp_path, shape, columns):
    row = next(reward_rows(export(tmp_path), shape))
    assert list(row)[: len(columns)] == columns


def test_pairs_differ_by_more_than_the_judges_noise_would(tmp_path):
    # tone has 3/4 of the reward: sd 0.75 x 0.2 = 0.15, of a difference 0.15 x sqrt(2); 1.96 times that is 0.416
    rows = list(pair_rows(export(tmp_path, noise=0.04), None))
    assert rows[0]["least_margin"] == pytest.approx(0.415778, abs=1e-6)
    assert [(row["chosen_output_id"], row["rejected_output_id"], row["margin"]) for row in rows] == [
        ("a0", "a2", 1.0),
        ("a1", "a2", 0.625),
    ]


def test_pairs_without_a_measured_noise_need_a_margin(tmp_path):
    found = export(tmp_path)
    with pytest.raises(InputError, match="no measured noise"):
        list(pair_rows(found, None))
    assert [row["margin"] for row in pair_rows(found, 0.375)] == [0.375, 1.0, 0.625]
    assert [row["margin"] for row in pair_rows(found, 0.0)] == [0.375, 1.0, 0.625]  # equal ones are no pair


@pytest.mark.nightly
def test_without_a_judge_every_difference_makes_a_pair(tmp_path):
    checked = [CHECKED | {key: each[key] for key in each if key not in CHECKED} for each in RUBRIC["criteria"]]
    checked[0] = {key: value for key, value in checked[0].items() if key != "levels"}
    found = export(tmp_path, rubric=RUBRIC | {"criteria": checked})
    assert [row["margin"] for row in pair_rows(found, None)] == [0.375, 1.0, 0.625]


@pytest.mark.nightly
def test_examples_pass_or_reach_the_least_reward_and_fail_no_gate(tmp_path):
    found = export(tmp_path)
    assert [row["output_id"] for row in sft_rows(found, None)] == ["a0", "b0", "b1"]
    assert [row["output_id"] for row in sft_rows(found, 0.6)] == ["a0", "a1", "b0", "b1"]
    bare = export(tmp_path / "bare", rubric={key: value for key, value in RUBRIC.items() if key != "pass_threshold"})
    with pytest.raises(InputError, match="no pass_threshold in reply"):
        list(sft_rows(bare, None))


def test_a_curriculum_names_cases_without_spread_and_weak_criteria(tmp_path):
    first, second = curriculum_rows(export(tmp_path))
    assert (first["output_count"], first["n"], first["spread"], first["is_flat"]) == (4, 3, 1.0, False)
    assert first["mean"] == pytest.approx(1.625 / 3)
    assert (first["weak_criteria"], second["is_flat"], second["sd"]) == (["watched", "safe"], True, 0.0)


def test_the_best_of_each_case_have_a_rank(tmp_path):
    rows = [(row["output_id"], row["rank"], row["of"], row["n"]) for row in best_rows(export(tmp_path), 2)]
    assert rows == [("a0", 1, 4, 3), ("a1", 2, 4, 3), ("b0", 1, 2, 2), ("b1", 2, 2, 2)]


@pytest.mark.nightly
def test_the_commands_write_files_and_lines(gradebook, tmp_path):
    rows = [{"case_id": "a", "model": "m", "output": "Hello <b>"}, {"case_id": "b", "model": "m", "output": "no"}]
    path = write_lines(tmp_path / "outputs.jsonl", rows)
    rubric = tmp_path / "rubric.yaml"
    method = {"type": "check", "check": "contains", "settings": {"any": ["Hello"]}}
    values = {"id": "greets", "version": "1.0.0", "criteria": [{"id": "x", "description": "?", "method": method}]}
    rubric.write_text(json.dumps(values), encoding="utf-8")
    run_id = publish(path, rubric).run_id
    shown = gradebook("train", "rewards", run_id)
    assert [json.loads(line)["reward"] for line in shown.out.splitlines()] == [1.0, 0.0]
    written = tmp_path / "rewards.parquet"
    written.write_text("of an earlier run", encoding="utf-8")
    assert gradebook("train", "rewards", "-o", written).code == 0
    assert pq.read_table(written).column("rewards").to_pylist() == [[("x", 1.0)], [("x", 0.0)]]
    assert [json.loads(line)["case_id"] for line in gradebook("train", "best").out.splitlines()] == ["a", "b"]
    names = "run_id, model, criterion_id, slice_key, slice_value, p_adjusted, gain, example_ids"
    values = "run_id, model, 'x', 'topic', 'refunds', p, p, [output_id]"
    insert = f"insert into weak_spots ({names}) select {values} from output_scores, (values (.01), (.3)) as p (p)"
    insert += " where case_id = 'b'"
    commit(make_lake(tmp_path), "spots", lambda connection, _version: connection.execute(insert))
    weak = [json.loads(line) for line in gradebook("train", "rewards", "--weak", 5).out.splitlines()]
    # The whole model could gain 0.5; the slice 0.01; one that chance explains is none.
    assert [(row["gain"], row["slice_value"]) for row in weak] == [(0.5, None), (0.01, "refunds")]
    assert [[each["case_id"] for each in row["examples"]] for row in weak] == [["b", "a"], ["b"]]
    assert len(gradebook("train", "rewards", "--weak", 1).out.splitlines()) == 1
    for words, fault in {
        ("--pairs", "--sft"): "found also --sft, expected one kind of rows",
        ("--least", "0.5"): "--least: found a number, expected it with --sft",
        ("--gates", "no"): "gates: found 'no'",
        ("--out", "x.csv"): "a file that ends in .jsonl or .parquet",
    }.items():
        refused = gradebook("train", "rewards", *words)
        assert (refused.code, fault in refused.err) == (2, True)
    assert judgment_rows(make_lake(tmp_path), run_id) == ()
