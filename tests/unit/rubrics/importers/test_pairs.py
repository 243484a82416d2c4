"""Pairs of outputs with the better one labelled."""

import json
from pathlib import Path
from typing import Any

import pytest

from gradebook.rubrics.importers.pairs import read_pairs
from gradebook.rubrics.model.errors import RubricError
from tests.support.law_over import law_over

EXAMPLE = Path(__file__).parent / "examples" / "pairs.json"
LLMBAR = {"input": "Say hi.", "output_1": "Hi.", "output_2": "Bye.", "label": 2}
JUDGEBENCH = {
    "pair_id": "81ec57f2",
    "question": "1+1?",
    "response_model": "gpt-4o",
    "response_A": "3",
    "response_B": "2",
    "label": "B>A",
}
ALPACA = json.loads(EXAMPLE.read_text(encoding="utf-8"))[0]


def read(*rows: Any) -> Any:
    return read_pairs(json.dumps(rows), "pairs.json")


def test_annotations_of_alpaca_eval_are_outputs_and_ratings_against_the_baseline():
    imported = read_pairs(EXAMPLE.read_text(encoding="utf-8"), "pairs.json")
    models = [(row["case_id"], row["model"]) for row in imported.cases]
    first, second = ("case_1", "gpt4_1106_preview"), ("case_2", "gpt4_1106_preview")
    assert models == [first, ("case_1", "small"), ("case_1", "tiny"), second, ("case_2", "small")]
    scores = [(row["model"], row["rater"], row["score"]) for row in imported.ratings]
    rater = "weighted_alpaca_eval_gpt4_turbo"
    assert scores == [("small", rater, pytest.approx(0.83)), ("tiny", rater, 0)]  # 1.83 - 1; nobody chose the third
    method = {"type": "preference", "against": "gpt4_1106_preview"}
    assert [each["method"] for each in imported.rubric["criteria"]] == [method]


@pytest.mark.parametrize("rows", [[LLMBAR], [JUDGEBENCH]])
def test_a_label_rates_the_first_output_against_the_second(rows: list[Any]):
    imported = read(*rows)
    assert [(row["rater"], row["score"]) for row in imported.ratings] == [("label", 0.0)]
    assert len(imported.cases) == 2
    assert imported.ratings[0]["model"] == imported.cases[1]["model"]


def test_a_tie_is_half():
    assert read({**ALPACA, "preference": 0}).ratings[0]["score"] == 0.5
    assert read({**JUDGEBENCH, "label": "A=B"}).ratings[0]["score"] == 0.5


@law_over(
    ("rows", "words"),
    [
        ([{"a": 1}], "[0]: found a mapping, expected a pair with games, instruction, pair_id or input"),
        ([{**LLMBAR, "label": 3}], "[0].label: found 3, expected 1 or 2"),
        ([{**JUDGEBENCH, "label": "A"}], "[0].label: found 'A', expected one of A>B, B>A, A=B"),
        ([{**ALPACA, "preference": 3}], "[0].preference: found 3, expected a number from 1 to 2"),
        ([{**ALPACA, "generator_2": ALPACA["generator_1"]}], "twice in a pair, expected two models"),
        ([{**ALPACA, "generator_1": "baseline"}], "found the model 'baseline', expected another name"),
        ([ALPACA, {**ALPACA, "generator_1": "other"}], "found the baselines gpt4_1106_preview, other, expected one"),
        ([ALPACA, {**ALPACA, "output_2": "x"}], "[1]: found other outputs of small for the case 'case_1'"),
    ],
)
def test_another_row_is_refused_with_its_place(rows: list[Any], words: str):
    with pytest.raises(RubricError) as caught:
        read(*rows)
    assert words in str(caught.value)


def test_a_pair_with_two_preferences_of_one_annotator_is_refused():
    pair = {"instruction": "Q", "output_1": "a", "output_2": "b", "generator_1": "base", "generator_2": "m"}
    rows = [pair | {"preference": preference} for preference in (1.7, float("nan"), 1.7)]
    assert [rating["score"] for rating in read_pairs(json.dumps(rows), "p.json").ratings] == [pytest.approx(0.7)]
    with pytest.raises(
        RubricError, match=r"\[3\]: found two preferences of alpaca_eval for the case 'case_1', expected one"
    ):
        read_pairs(json.dumps([*rows, pair | {"preference": 1.2}]), "p.json")
