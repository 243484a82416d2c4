import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradebook.rubrics.check_kit.check import read_settings
from gradebook.rubrics.checks.grading import run_check
from gradebook.rubrics.checks.registry import find_check


def judge(output: str, mode: str, name: str = "starts_with", **given_settings: object) -> tuple[bool, str | None]:
    check = find_check(name)
    found = run_check(check, pa.table({"output": [output]}), read_settings(check, given_settings), mode)
    return found.is_passed[0].as_py(), found.evidence[0].as_py()


@pytest.mark.parametrize(
    ("output", "strict", "words"),
    [
        ("yes", True, None),
        ("*yes*", False, "loose: passes without asterisks"),
        ("Sure:\nyes", False, "loose: passes without its first line"),
        ("Sure:\n*yes*", False, "loose: passes without its first line and without asterisks"),
    ],
)
def test_a_variant_passes_what_the_output_does_not(output, strict, words):
    assert judge(output, "strict", any=["yes"])[0] is strict
    assert judge(output, "loose", any=["yes"]) == (True, words)


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("yes\nBye", "loose: passes without its last line"),
        ("Hi\nyes\nBye", "loose: passes without its first and last line"),
        ("Hi\n*yes*\nBye", "loose: passes without its first and last line and without asterisks"),
        ("yes*\nBye", "loose: passes without its last line and without asterisks"),
    ],
)
def test_the_last_line_may_go(output, words):
    assert judge(output, "loose", "matches_regex", pattern=r"\Ayes\z") == (True, words)


@pytest.mark.parametrize("output", ["bad", "bad\nbad", "*bad*", "", "bad\n\n"])
def test_a_blank_variant_passes_nothing(output):
    # without its only line nothing is left, and nothing holds no "bad"
    assert judge(output, "loose", "not_contains", any=["bad"])[0] is (output == "")


def test_the_evidence_of_what_fails_in_every_variant_is_that_of_the_output():
    assert judge("no", "loose", any=["yes"]) == judge("no", "strict", any=["yes"])


def plain_variants(text: str) -> list[str]:
    lines = text.split("\n")
    parts = [text, *("\n".join(kept).strip() for kept in (lines[1:], lines[:-1], lines[1:-1]))]
    return [*parts, *(part.replace("*", "") for part in parts)]


@given(st.text(alphabet=["a", "b", "*", "\n", " ", "é"], max_size=14), st.integers(0, 6), st.integers(0, 6))
def test_loose_agrees_with_the_eight_variants_written_out(text, least, room):
    bounds = {"min": least, "max": least + room}
    expected = least <= len(text) <= least + room or any(
        variant.strip() and least <= len(variant) <= least + room for variant in plain_variants(text)[1:]
    )
    assert judge(text, "loose", "length_characters", **bounds)[0] is expected


def test_a_mended_output_gets_the_level_of_the_variant_and_the_others_keep_theirs():
    check = find_check("rouge_l")
    outputs = ["red fox", "Sure, here it is:\nred fox", "cat"]
    shard = pa.table({"output": outputs, "reference": ["red fox"] * 3})
    given_settings = {"levels": {"good": 0.9, "partial": 0.8}}
    found = run_check(check, shard, read_settings(check, given_settings), "loose")
    assert found.is_passed.to_pylist() == [True, True, False]
    assert found.level_ids is not None and found.level_ids.to_pylist() == ["good", "good", None]


def test_a_check_of_sound_is_the_same_in_both_modes():
    check = find_check("audio_duration")
    shard = pa.table({"audio": pa.array([None], pa.binary()), "audio_fault": ["found no file"]})
    assert run_check(check, shard, read_settings(check, {"max": 1}), "loose").is_passed.to_pylist() == [None]


def test_a_variant_may_pass_where_the_check_can_not_tell_of_the_output():
    # the whole is no rubric, so of vague words nothing can be said; without its first line it is one
    method = "{type: check, check: length_words, settings: {max: 5}}"
    head = "id: a\nversion: 1.0.0\ndescription: A reply.\ncriteria:\n"
    rubric = f"{head}  - {{id: b, description: Short., method: {method}}}"
    assert judge(f"Sure: here\n{rubric}", "strict", "rubric_lint", rules=["vague-words"])[0] is None
    assert judge(f"Sure: here\n{rubric}", "loose", "rubric_lint", rules=["vague-words"])[0] is True


@pytest.mark.parametrize(("mode", "expected"), [("strict", [True, None, False]), ("loose", [True, None, True])])
def test_a_field_is_checked_in_place_of_the_output(mode, expected):
    check = find_check("starts_with")
    shard = pa.table({"output": ['{"a": "yes"}', '{"b": "yes"}', '{"a": "*yes*"}']})
    found = run_check(check, shard, read_settings(check, {"any": ["yes"]}), mode, "a")
    assert found.is_passed.to_pylist() == expected
    assert found.reasons[1].as_py() == "no_field: found no field a in the output, expected one"
    none = run_check(check, shard, read_settings(check, {"any": ["yes"]}), mode, "z")
    assert (none.is_passed.null_count, none.reasons.null_count) == (3, 0)
