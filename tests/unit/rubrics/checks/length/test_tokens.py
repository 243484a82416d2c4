import hashlib
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pydantic import ValidationError
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from gradebook.rubrics.check_kit.check import CheckVerdicts, read_settings
from gradebook.rubrics.checks import length
from gradebook.rubrics.checks.registry import find_check

WORDS = {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "tea": 3, "cake": 4}


@pytest.fixture
def tokenizer_path(tmp_path: Path) -> Path:
    """A tokenizer of words and signs, which would add two special tokens and cut to four."""
    tokenizer = Tokenizer(models.WordLevel(WORDS, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    tokenizer.enable_truncation(4)
    tokenizer.enable_padding(length=4)
    path = tmp_path / "tokenizer.json"
    tokenizer.save(str(path))
    return path


def judge(path: Path, *outputs: str, **settings: Any) -> CheckVerdicts:
    check = find_check("length_tokens")
    shard = pa.table({"output": pa.array(outputs, pa.string())})
    return check.function(shard, read_settings(check, {"tokenizer": path.name, **settings}, path.parent))


@pytest.mark.parametrize(
    ("output", "count"),
    [
        ("", 0),
        (" \n", 0),
        ("tea", 1),
        ("tea, cake!", 4),
        ("tea tea tea tea tea\r\ntea", 6),
        ("中文 ไทย שלום", 3),
        ("😀 \x00", 2),
    ],
    ids=ascii,
)
def test_tokens_are_those_of_the_file_without_special_ones(tokenizer_path, output, count):
    assert judge(tokenizer_path, output, max=count, min=count).evidence.to_pylist() == [None]


def test_a_miss_names_the_count(tokenizer_path):
    found = judge(tokenizer_path, "tea", "tea cake tea", max=2)
    assert (found.is_passed.to_pylist(), found.evidence.to_pylist()) == (
        [True, False],
        [None, "3 tokens, at most 2 allowed"],
    )


def test_an_output_too_long_to_count_is_unscored(tokenizer_path):
    found = judge(tokenizer_path, "tea " * 100_001, "tea", max=1)
    assert (found.is_passed.to_pylist(), found.evidence.to_pylist()) == ([None, True], [None, None])
    assert found.reasons is not None
    assert found.reasons.to_pylist() == ["too long to count: found 400004 bytes, at most 400000", None]


def test_many_outputs_are_counted_each_for_itself(tokenizer_path):
    outputs = ["tea " * (number % 7) for number in range(600)]
    expected = [number % 7 <= 3 for number in range(600)]
    assert judge(tokenizer_path, *outputs, max=3).is_passed.to_pylist() == expected


def test_no_outputs_give_no_verdicts(tokenizer_path):
    assert len(judge(tokenizer_path, max=3).is_passed) == 0


def test_the_digest_has_to_be_that_of_the_file(tokenizer_path):
    digest = hashlib.sha256(tokenizer_path.read_bytes()).hexdigest()
    assert judge(tokenizer_path, "tea", max=1, digest=digest).is_passed.to_pylist() == [True]
    with pytest.raises(ValidationError, match=f"of SHA-256 {digest}, expected {'0' * 64}"):
        judge(tokenizer_path, "tea", max=1, digest="0" * 64)


def test_a_changed_file_is_read_again(tokenizer_path):
    assert judge(tokenizer_path, "tea-cake", max=1).is_passed.to_pylist() == [False]
    changed = json.loads(tokenizer_path.read_text(encoding="utf-8"))
    changed["pre_tokenizer"] = {"type": "WhitespaceSplit"}
    tokenizer_path.write_text(json.dumps(changed), encoding="utf-8")
    assert judge(tokenizer_path, "tea-cake", max=1).is_passed.to_pylist() == [True]


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(ValidationError, match=r"found no file 'none\.json' beside the rubric, expected one: a tok"):
        judge(tmp_path / "none.json", "tea", max=1)


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"model": {"type": "None"}}', "\x00"])
def test_a_file_that_is_no_tokenizer_is_refused(tmp_path, content):
    (tmp_path / "tokenizer.json").write_text(content, encoding="utf-8")
    with pytest.raises(ValidationError, match=r"expected a tokenizer\.json"):
        judge(tmp_path / "tokenizer.json", "tea", max=1)


def test_a_package_that_is_not_there_is_named(tokenizer_path, monkeypatch):
    monkeypatch.setattr(length, "find_spec", lambda _name: None)
    with pytest.raises(ValidationError, match=r"found no package tokenizers, expected it: pip install '\.\[tokens\]'"):
        judge(tokenizer_path, "tea", max=1)


@pytest.mark.parametrize(
    "settings", [{}, {"max": 1, "digest": "abc"}, {"min": 2, "max": 1}, {"max": 1, "tokenizer": ""}]
)
def test_settings_that_make_no_sense_are_refused(tokenizer_path, settings):
    with pytest.raises(ValidationError):
        judge(tokenizer_path, "tea", **settings)
