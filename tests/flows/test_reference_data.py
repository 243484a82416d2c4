"""Public data sets evaluated whole, where a folder `*/data` beside the checkout holds them."""

import json
from pathlib import Path

import pytest

from examples.convert import convert_ifeval, convert_prometheus

FOLDERS = [path for path in Path(__file__).parents[3].glob("*/data/*") if path.is_dir()]


def data_folder(name: str) -> Path:
    found = [path for path in FOLDERS if path.name == name]
    if not found:
        pytest.skip(f"{name} is not there")
    return found[0]


def test_prometheus_ratings_give_the_means_of_their_source(evaluate, gradebook, tmp_path):
    convert_prometheus(data_folder("prometheus_vicuna") / "vicuna_eval.json", tmp_path)
    finished = evaluate("outputs.jsonl", "--rubric", "rubric.yaml", "--ratings", "ratings.csv")
    assert finished.code == 0, finished.err
    rows = json.loads(gradebook("sql", "select * from run_scores", "--format", "json").out)
    # the source's means on 1..5, less 1, by 4
    means = {"vicuna": 3.85, "chat_gpt": 4.283333, "wizard": 4.129167, "llama-2-chat": 4.320833}
    assert {row["model"]: row["mean"] for row in rows} == pytest.approx(
        {m: (s - 1) / 4 for m, s in means.items()}, abs=1e-6
    )
    assert [row["n"] for row in rows] == [80] * 4


def test_ifeval_responses_are_all_stored_and_scored(evaluate, gradebook, tmp_path):
    folder = data_folder("ifeval")
    responses = folder / "input_response_data_gpt4_20231107_145030.jsonl"
    convert_ifeval(folder / "input_data.jsonl", responses, tmp_path)
    finished = evaluate("outputs.jsonl", "--rubric", "rubric.yaml")
    assert finished.json["output_count"] == 541
    (row,) = json.loads(gradebook("sql", "select n, coverage_rate from run_scores", "--format", "json").out)
    assert row == {"n": 541, "coverage_rate": 1.0}
