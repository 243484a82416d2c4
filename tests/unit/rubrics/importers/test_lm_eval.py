"""lm-evaluation-harness: samples as outputs with their metrics."""

import json
from pathlib import Path
from typing import Any

import pytest

from gradebook.rubrics.importers.lm_eval import read_lm_eval
from gradebook.rubrics.model.errors import RubricError
from gradebook.rubrics.model.json_values import Row

EXAMPLE = Path(__file__).parent / "examples" / "lm-eval.jsonl"
FILE = "results/org__small/samples_gsm8k_cot_2026-11-01T10-00-00.123456.jsonl"


def sample(**changes: Any) -> Row:
    arguments = {"gen_args_0": {"arg_0": "Q: 1+1?", "arg_1": {"until": ["Q:"]}}}
    base = {"doc_id": 0, "doc": {}, "target": "2", "arguments": arguments, "resps": [["It is 2."]]}
    return {**base, "filter": "none", "metrics": ["exact_match"], "exact_match": 1.0} | changes


def read(*rows: Row, path: str = FILE) -> Any:
    return read_lm_eval("".join(json.dumps(row) + "\n" for row in rows), path)


def test_a_sample_is_an_output_of_the_task_and_model_that_its_path_names():
    (case,) = read(sample()).cases
    columns = ("case_id", "model", "prompt", "output", "reference")
    assert [case[name] for name in columns] == ["gsm8k_cot/0", "org/small", "Q: 1+1?", "It is 2.", "2"]
    assert [read(sample(), path=path).cases[0]["model"] for path in ("samples_x.jsonl", "x.jsonl")] == ["unknown"] * 2


def test_filters_of_a_document_are_one_output_with_a_metric_each():
    imported = read_lm_eval(EXAMPLE.read_text(encoding="utf-8"), "samples_sum.jsonl")
    found = {(row["case_id"], row["criterion_id"]): row["score"] for row in imported.ratings}
    assert found == {
        ("sum/0", "exact_match_strict_match"): 0.0,
        ("sum/0", "exact_match_flexible_extract"): 1.0,
        ("sum/7", "acc"): 1.0,
        ("sum/7", "acc_norm"): 1.0,
    }


def test_a_choice_is_the_likeliest_continuation_and_its_reference_the_right_one():
    case = read_lm_eval(EXAMPLE.read_text(encoding="utf-8"), "samples_sum.jsonl").cases[1]
    assert (case["prompt"], case["output"], case["reference"]) == ("Sky?", "blue", "blue")


def test_chat_messages_are_logged_as_their_json():
    messages = [{"role": "user", "content": "1+1?"}]
    arguments = {"gen_args_0": {"arg_0": [json.dumps(messages)], "arg_1": {}}}
    assert read(sample(arguments=arguments)).cases[0]["prompt"] == messages


def test_metrics_of_several_responses_belong_to_none_of_them():
    imported = read(sample(resps=[["2", "3"]]))
    assert [(case["output"], case.get("sample_index", 0)) for case in imported.cases] == [("2", 0), ("3", 1)]
    assert imported.ratings == () and "metrics (of several responses together)" in imported.kept


def test_a_measure_beyond_0_to_1_is_reported_and_no_rating():
    imported = read(sample(metrics=["word_perplexity"], word_perplexity=[-12.5, 3]))
    assert imported.ratings == () and "word_perplexity (no number from 0 to 1)" in imported.kept


def test_older_files_name_no_metrics():
    old = {key: value for key, value in sample().items() if key != "metrics"}
    assert [row["criterion_id"] for row in read(old).ratings] == ["exact_match"]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([{"doc": {}}], ":1: found no 'doc_id'"),
        ([sample(resps=[])], ":1: resps: found an empty list"),
        ([sample(), sample(resps=[["other"]])], ":2: resps: found other responses for the document '0'"),
    ],
)
def test_another_row_is_refused_at_its_line(rows: list[Row], words: str):
    with pytest.raises(RubricError) as caught:
        read(*rows)
    assert f"{FILE}{words}" in str(caught.value)
