import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
from pydantic import BaseModel, ValidationError

from gradebook.rubrics.check_kit.check import (
    Check,
    CheckVerdicts,
    Example,
    example_shard,
    read_settings,
    register_check,
)
from gradebook.rubrics.checks.registry import check_names, families, find_check
from gradebook.rubrics.text.field_descriptions import field_descriptions
from tests.support.law_over import law_over

NAMES = check_names()
NEED_A_FILE = {"length_tokens"}  # so its examples stand in test_tokens.py
SHOWN = [name for name in NAMES if name not in NEED_A_FILE]
EXAMPLES = [(name, index) for name in NAMES for index in range(len(find_check(name).examples))]
ROWS = ["a b", "", "é. ü.", "- a\n\n- b", "[1]", "[1", "中\u3000文", "😀", "a\r\nb", "e\u0301", "שלום", "\x00"]


def run(name: str, example: Example, shard: pa.Table) -> CheckVerdicts:
    check = find_check(name)
    return check.function(shard, read_settings(check, example.settings))


def shard_of(check: Check, outputs: list[str], others: Mapping[str, Any]) -> pa.Table:
    """Rows with these outputs, and with the example's other columns in each."""
    return pa.concat_tables([example_shard(check, Example(output, None, others=others)) for output in outputs])


@law_over(("name", "index"), EXAMPLES)
def test_an_example_of_a_check_comes_out_as_it_says(name, index):
    example = find_check(name).examples[index]
    found = run(name, example, example_shard(find_check(name), example))
    assert found.is_passed.to_pylist() == [example.is_passed]


@law_over("name", SHOWN)
def test_a_check_is_shown_passing_and_failing(name):
    assert {True, False} <= {example.is_passed for example in find_check(name).examples}


@law_over("name", NAMES)
def test_a_check_that_fails_or_cannot_tell_says_why(name):
    check = find_check(name)
    for example in check.examples:
        found = run(name, example, example_shard(check, example))
        assert example.is_passed is not False or found.evidence[0].as_py()
        assert example.is_passed is not None or (found.reasons is not None and found.reasons[0].as_py())


@law_over("name", NAMES)
def test_the_summary_is_a_sentence(name):
    assert find_check(name).summary.endswith((".", ":"))


@law_over("name", NAMES)
def test_every_setting_says_what_it_means(name):
    meanings = field_descriptions(find_check(name).settings_model)
    assert [key for key, meaning in meanings.items() if not meaning.strip()] == []


@law_over("name", SHOWN)
def test_slices_chunks_and_large_strings_give_the_same_verdicts(name):
    check = find_check(name)
    example = check.examples[0]
    plain = shard_of(check, ROWS, example.others)
    large = plain.cast(pa.schema([field.with_type(_widened(field.type)) for field in plain.schema]))
    sliced = pa.concat_tables([plain.slice(3, 1), plain]).combine_chunks().slice(1)
    shapes = [plain.combine_chunks(), plain, sliced, large.combine_chunks()]
    first, *others = [_listed(run(name, example, shape)) for shape in shapes]
    assert others == [first] * 3


def _widened(kind: pa.DataType) -> pa.DataType:
    return pa.large_string() if pa.types.is_string(kind) else kind


def _listed(found: CheckVerdicts) -> list[Any]:
    arrays = (found.is_passed, found.evidence, found.reasons, found.level_ids)
    return [None if array is None else array.to_pylist() for array in arrays]


@law_over("name", SHOWN)
def test_a_row_has_the_same_verdict_alone_as_among_others(name):
    check = find_check(name)
    example = check.examples[0]
    together = run(name, example, shard_of(check, ROWS, example.others)).is_passed.to_pylist()
    alone = [run(name, example, shard_of(check, [row], example.others)).is_passed[0].as_py() for row in ROWS]
    assert together == alone


@law_over("name", SHOWN)
def test_no_rows_give_no_verdicts(name):
    check = find_check(name)
    empty = example_shard(check, check.examples[0]).slice(0, 0)
    found = run(name, check.examples[0], empty)
    assert (len(found.is_passed), len(found.evidence)) == (0, 0)


@law_over("name", SHOWN)
def test_verdicts_are_booleans_and_texts(name):
    check = find_check(name)
    found = run(name, check.examples[0], example_shard(check, check.examples[0]))
    assert (found.is_passed.type, found.evidence.type) == (pa.bool_(), pa.string())


@law_over("name", NAMES)
def test_the_settings_of_examples_are_what_json_can_say(name):
    settings = [dict(example.settings) for example in find_check(name).examples]
    assert json.loads(json.dumps(settings)) == settings


def test_two_models_of_settings_never_share_a_name():
    # the editor's schema keeps them by name
    models: dict[str, type[BaseModel]] = {}
    for name in NAMES:
        model = find_check(name).settings_model
        assert models.setdefault(model.__name__, model) is model


def test_an_unknown_name_offers_the_nearest():
    with pytest.raises(KeyError, match="length_words"):
        find_check("lenght_words")


def test_a_name_is_registered_once():
    with pytest.raises(ValueError, match="found a second check 'length_words'"):
        register_check("length_words", find_check("length_words").settings_model)(find_check("length_words").function)


def test_every_check_stands_in_one_family():
    listed = [name for _, names in families() for name in names]
    assert sorted(listed) == list(NAMES)


@pytest.mark.parametrize(
    ("words", "kinds"),
    [([], ["too_short"]), ([""], ["string_too_short"]), (["", 1], ["string_too_short", "string_type"])],
)
def test_a_list_with_a_wrong_entry_is_not_called_too_short_as_well(words, kinds):
    with pytest.raises(ValidationError) as raised:
        read_settings(find_check("contains"), {"any": words})
    assert [fault["type"] for fault in raised.value.errors()] == kinds
