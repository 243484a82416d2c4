"""`gradebook compare`: pairing of models and outputs, and parts that are left out."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.nightly import matrix
from tests.support.samples import write_lines

RUBRIC = """
id: {id}
version: 1.0.0
criteria:
"""
WORDS = """
  - id: words
    description: At most {most} words.
    method: {{type: check, check: length_words, settings: {{max: {most}}}}}
"""
LIKED = """
  - id: liked
    description: Did a person like it?
    method: {type: ratings}
    levels: [{id: disliked, score: 0}, {id: liked, score: 1}]
"""
TEXTS = {"same": "one two", "other": "one two", "more": "one two three", "rated": "one two", "alone": "one"}


def own(most: int) -> dict[str, Any]:
    method = {"type": "check", "check": "length_words", "settings": {"max": most}}
    return {"id": "brief", "description": f"At most {most} words.", "method": method}


def output(case: str, model: str = "m", **columns: Any) -> dict[str, Any]:
    return {"case_id": case, "model": model, "output": TEXTS.get(case, "one")} | columns


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Lake of the first `compared`; later tests copy it."""
    return tmp_path_factory.mktemp("compared") / "kept"


Compare = Callable[..., Any]


@pytest.fixture
def compared(gradebook, evaluate, tmp_path: Path, kept: Path) -> Compare:
    """Compare the runs a and b of one rubric, whose outputs are those of `write_runs`; the JSON."""
    if kept.exists():
        shutil.copytree(kept, tmp_path, dirs_exist_ok=True)
    else:
        write_runs(tmp_path, evaluate)
        shutil.copytree(tmp_path, kept)

    def call(run_a: str, run_b: str) -> Any:
        return gradebook("compare", run_a, run_b, "--json").json

    return call


def write_runs(folder: Path, evaluate: Callable[..., Any]) -> None:
    """Evaluate outputs of the models m and n, in both runs, and of one model in each run only."""
    rubric = folder / "rubric.yaml"
    rubric.write_text(RUBRIC.format(id="pair") + WORDS.format(most=2) + LIKED, encoding="utf-8")
    both = [output(case, "n") for case in ("same", "rated")] + [output("same", criteria=[own(3)]), output("rated")]
    twice = [output("twice", output=text) for text in ("one", "two")]
    rows_a = [*both, *twice, output("other", criteria=[own(1)]), output("alone"), output("same", "old")]
    rows_b = [*both, output("twice", output="two"), output("twice", output="a b c"), output("same", "new")]
    rows_b += [output("other", criteria=[own(2)]), *(output("thrice", output=text) for text in ("one", "a b c"))]
    rows_a.append(output("thrice", output="two"))
    rating = {"case_id": "rated", "model": "m", "criterion_id": "liked", "rater": "r", "level_id": "liked"}
    ratings = write_lines(folder / "ratings.jsonl", [rating])
    for name, rows in (("a", rows_a), ("b", rows_b)):
        more = ("--ratings", ratings) if name == "b" else ()
        outputs = write_lines(folder / f"{name}.jsonl", rows)
        finished = evaluate(outputs, "--rubric", rubric, "--run-id", name, *more)
        assert finished.code == 0, finished.err


def row_of(found: Any, criterion: str, model: str = "m") -> Any:
    (row,) = [row for row in found["criteria"] if (row["criterion_id"], row["model_a"]) == (criterion, model)]
    return row


@pytest.mark.nightly
def test_pairs_of_models_come_first_then_the_order_of_the_rubric(compared):
    rows = compared("a", "b")["criteria"]
    assert [(row["model_a"], row["criterion_id"]) for row in rows] == [
        ("m", "words"),
        ("m", "liked"),
        ("m", "brief"),
        ("n", "words"),
        ("n", "liked"),
    ]


@pytest.mark.nightly
def test_a_model_of_one_run_only_is_named(compared):
    named = compared("a", "b")["not_compared"]
    assert [words for words in named if "only in" in words] == ["old: only in run A", "new: only in run B"]


@pytest.mark.nightly
def test_the_remaining_outputs_of_a_case_and_sample_are_paired_if_each_run_has_one(compared):
    # the pairs of m: same, rated, other (2 words both), twice: "two" with itself, and "one" with "a b c";
    # each case counts once: (0 + 0 + 0 - 1/2) / 4
    row = row_of(compared("a", "b"), "words")
    assert (row["n"], row["tied_count"], row["worse_count"], row["mean_diff"]) == (5, 4, 1, pytest.approx(-1 / 8))


@pytest.mark.nightly
def test_several_outputs_of_a_case_and_sample_are_not_paired_by_guessing(compared):
    # thrice: "two" in run a, "one" and "a b c" in run b
    found = compared("a", "b")
    assert row_of(found, "words")["ambiguous_count"] == 3
    assert "m: 3 outputs, as a run has several of one case and sample_index" in found["not_compared"]


@pytest.mark.nightly
def test_a_case_of_one_run_only_is_counted(compared):
    found = compared("a", "b")
    assert row_of(found, "words")["unpaired_count"] == 1  # "alone"
    assert row_of(found, "words", "n")["unpaired_count"] == 0


@pytest.mark.nightly
def test_a_criterion_that_one_run_left_unscored_is_counted(compared):
    # no ratings in run a; in run b one output of the 5 pairs was rated
    row = row_of(compared("a", "b"), "liked")
    assert (row["n"], row["mean_b"], row["unscored_count"]) == (0, None, 5)


def test_the_counts_of_a_row_add_up_to_the_outputs_of_both_runs(compared):
    # m: 7 outputs in run a; same, rated, twice (2), other, thrice (2) in run b
    found = compared("a", "b")
    for row in (row_of(found, "words"), row_of(found, "liked"), found["overall"][0]):
        assert 2 * (row["n"] + row["unscored_count"]) + row["unpaired_count"] + row["ambiguous_count"] == 7 + 7


def test_a_case_with_other_criteria_is_left_out_of_the_overall_score_and_named(compared):
    # unpaired: "alone", and "other" of both runs
    found = compared("a", "b")
    (row,) = [row for row in found["overall"] if row["model_a"] == "m"]
    assert (row["unpaired_count"], row["held_otherwise_count"]) == (3, 2)
    assert "m: the overall score of 1 case, scored on other criteria in run A than in run B" in found["not_compared"]


@pytest.mark.nightly
def test_a_per_case_criterion_is_compared_if_its_text_is_the_same(compared):
    # "same" brings the text of both runs; "other" brings another in each
    row = row_of(compared("a", "b"), "brief")
    assert (row["n"], row["unpaired_count"], row["held_otherwise_count"]) == (1, 2, 2)


@pytest.fixture
def reviewed(gradebook, tmp_path: Path) -> Callable[..., Any]:
    """Review a row with each of two rubrics, and compare the two runs."""

    def call(*runs: tuple[str, dict[str, Any]]) -> Any:
        run_ids = []
        for number, (rubric, row) in enumerate(runs):
            artifact = write_lines(tmp_path / f"{number}.json", [row])
            run_ids.append(
                gradebook("review", artifact, "--rubrics", rubric, "--json").json["evaluations"][0]["run_id"]
            )
        return gradebook("compare", *run_ids, "--json").json

    return call


@pytest.mark.nightly
def test_without_a_rubric_cases_with_other_criteria_have_no_overall_score(reviewed):
    found = reviewed(("none", output("c", criteria=[own(1)])), ("none", output("c", criteria=[own(3)])))
    assert (found["banner"], found["overall"][0]["n"], found["criteria"][0]["n"]) == (None, 0, 0)
    assert found["not_compared"] == ["m: the overall score of 1 case, scored on other criteria in run A than in run B"]


@pytest.mark.nightly
def test_an_additional_per_case_criterion_is_another_overall_score(reviewed):
    more = own(1) | {"id": "briefer"}
    found = reviewed(("none", output("c", criteria=[own(1)])), ("none", output("c", criteria=[more, own(1)])))
    assert (found["overall"][0]["n"], [row["n"] for row in found["criteria"]]) == (0, [1, 0])


@pytest.mark.nightly
def test_the_order_of_per_case_criteria_does_not_matter(reviewed):
    pair = [own(1), own(1) | {"id": "briefer"}]
    found = reviewed(("none", output("c", criteria=pair)), ("none", output("c", criteria=pair[::-1])))
    assert (found["overall"][0]["n"], found["not_compared"]) == (1, [])


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("most", "criteria", "words"),
    [
        (3, [], "no criterion has the same text in both, so nothing is compared"),
        *matrix([(3, [own(1)], "1 criterion has the same text in both and is compared")]),
        (2, [own(1)], "2 criteria have the same text in both and are compared"),
    ],
)
def test_the_banner_counts_the_criteria_that_are_compared(reviewed, tmp_path, most, criteria, words):
    for name, limit in (("first", 2), ("second", most)):
        text = RUBRIC.format(id=name) + WORDS.format(most=limit)
        (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")
    found = reviewed(*((f"{name}.yaml", output("c", criteria=criteria)) for name in ("first", "second")))
    assert found["banner"].endswith(f"not comparable; {words}.")
    assert (found["overall"], len(found["criteria"])) == ([], (most == 2) + len(criteria))


def test_the_terminal_shows_a_table_for_each_pair_of_models_that_changed_and_the_omissions(compared, gradebook):
    shown = gradebook("compare", "a", "b").out
    tables = re.findall(r"^ *(m|n) *$", shown, flags=re.MULTILINE)
    assert tables == ["m"]  # every output of n is the same, with the same score or none
    assert shown.count("not compared: ") == 6  # outputs of one side alone, and uneven cases, are named too
