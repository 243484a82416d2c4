"""The responses of GPT-4 that were published with IFEval, where a folder `*/data` beside the checkout holds them."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

from gradebook.rubrics.check_kit.check import read_settings
from gradebook.rubrics.checks.grading import run_check
from gradebook.rubrics.checks.registry import find_check
from gradebook.rubrics.model.json_values import drop_none

FOLDERS = [path for path in Path(__file__).parents[6].glob("*/data/ifeval") if path.is_dir()]


def lines_of(name):
    return [json.loads(line) for line in (FOLDERS[0] / name).read_text(encoding="utf-8").splitlines()]


def followed(mode, detector):
    """For each prompt, whether each of its instructions is followed."""
    responses = {row["prompt"]: row["response"] for row in lines_of("input_response_data_gpt4_20231107_145030.jsonl")}
    for row in lines_of("input_data.jsonl"):
        shard = pa.table({"output": [responses[row["prompt"]]]})
        checks = [find_check(name) for name in row["instruction_id_list"]]
        others = [{"detector": detector} if "detector" in check.settings_model.model_fields else {} for check in checks]
        kwargs = [drop_none(each) | other for each, other in zip(row["kwargs"], others, strict=True)]
        chosen = [read_settings(check, each) for check, each in zip(checks, kwargs, strict=True)]
        yield [
            run_check(check, shard, chosen, mode).is_passed[0].as_py()
            for check, chosen in zip(checks, chosen, strict=True)
        ]


# The paper has 416 prompts and 697 instructions strict, 429 and 712 loose. With langdetect, all verdicts on languages
# are those of IFEval's code, whatever its seed (0 to 24): the rest of the difference is Punkt's trained model, or
# IFEval's code and langdetect as they were then. All that py3langid has otherwise is in the language of short
# texts in English: langdetect misses it in three responses (keys 202, 1843 and 3456), and one stays unscored here that
# it finds (3617). "YES" (2341) and "A" (2571) stay unscored here and fail there.
@pytest.mark.skipif(not FOLDERS, reason="ifeval is not there")
@pytest.mark.parametrize(
    ("mode", "detector", "prompt_count", "instruction_count"),
    [
        ("strict", "py3langid", 419, 700),
        ("loose", "py3langid", 434, 717),
        ("strict", "langdetect", 417, 698),
        ("loose", "langdetect", 431, 714),
    ],
)
def test_the_published_responses_follow_about_as_many_instructions_as_in_the_paper(
    mode, detector, prompt_count, instruction_count
):
    if detector == "langdetect":
        pytest.importorskip("langdetect")
    found = list(followed(mode, detector))
    assert (len(found), sum(map(len, found))) == (541, 834)
    assert sum(all(row) for row in found) == prompt_count
    assert sum(is_followed is True for row in found for is_followed in row) == instruction_count
