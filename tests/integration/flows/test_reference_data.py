"""Complete public data sets, if a folder `*/data` next to the checkout has them."""

import json
from pathlib import Path

import pytest

from examples.convert import convert_prometheus

FOLDERS = [path for path in Path(__file__).parents[4].glob("*/data/*") if path.is_dir()]


def data_folder(name: str) -> Path:
    found = [path for path in FOLDERS if path.name == name]
    if not found:
        pytest.skip(f"{name} is not there")
    return found[0]


@pytest.mark.nightly
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


FOLLOWED = """
with prompts as (
    select output_id, count(*) as instruction_count, count(*) filter (level_id = 'pass') as followed_count
    from verdicts
    where criterion_id not like 'loose.%'
    group by output_id
)

select
    sum(instruction_count) as instructions,
    sum(followed_count) as followed,
    count(*) as prompts,
    count(*) filter (followed_count = instruction_count) as prompts_followed
from prompts
"""


@pytest.mark.nightly  # the verdicts of the same responses are tested daily, without a run
def test_ifeval_responses_follow_about_as_much_as_in_the_paper(evaluate, gradebook):
    prompts = data_folder("ifeval") / "input_data.jsonl"
    answers = prompts.with_name("input_response_data_gpt4_20231107_145030.jsonl")
    words = ("--format", "ifeval", "--answers", answers, "-o", "outputs.jsonl")
    assert gradebook("rubric", "import", prompts, *words).code == 0
    assert evaluate("outputs.jsonl", "--rubric", "none").json["output_count"] == 541
    (row,) = json.loads(gradebook("sql", FOLLOWED, "--format", "json").out)
    # the paper: 697 of 834 instructions, 416 of 541 prompts; tests/unit/rubrics/checks/ifeval explains the difference
    assert row == {"instructions": 834, "followed": 700, "prompts": 541, "prompts_followed": 419}
