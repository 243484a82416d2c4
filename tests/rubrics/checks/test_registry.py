import pyarrow as pa
import pytest

from rubrics.checks import check_names, find_check, read_settings

SETTINGS = {
    "contains": {"any": ["b", "é"]},
    "count_bullets": {"max": 0},
    "count_paragraphs": {"max": 1},
    "count_sentences": {"max": 1},
    "ends_with": {"any": ["b"]},
    "json_valid": {},
    "length_characters": {"max": 3},
    "length_words": {"max": 1},
    "matches_reference": {},
    "matches_regex": {"pattern": "[bé]+"},
    "not_contains": {"all": ["a", "b"]},
    "starts_with": {"any": ["a"]},
}
ROWS = ["skipped", "a b", "", "é. ü.", "- a\n\n- b", "[1]", "[1", "中\u3000文", "😀"]


def test_the_shipped_checks_are_registered():
    assert set(SETTINGS) <= set(check_names())


def test_an_unknown_name_offers_the_nearest():
    with pytest.raises(KeyError, match="length_words"):
        find_check("lenght_words")


@pytest.mark.parametrize("name", SETTINGS)
def test_the_summary_is_a_sentence(name):
    assert find_check(name).summary.endswith((".", ":"))


@pytest.mark.parametrize("name", SETTINGS)
def test_slices_chunks_and_large_strings_give_the_same_verdicts(name):
    check = find_check(name)
    settings = read_settings(check, SETTINGS[name])
    plain, large = pa.array(ROWS[1:]), pa.array(ROWS, pa.large_string())
    shapes = [plain, pa.array(ROWS).slice(1), pa.chunked_array([plain.slice(0, 3), plain.slice(3)]), large.slice(1)]
    found = [check.function(pa.table({"output": shape, "reference": shape}), settings) for shape in shapes]
    first, *others = [(each.is_passed.to_pylist(), each.evidence.to_pylist()) for each in found]
    assert others == [first] * 3


@pytest.mark.parametrize("name", SETTINGS)
def test_no_rows_give_no_verdicts(name):
    check = find_check(name)
    empty = pa.chunked_array([], pa.string())
    found = check.function(pa.table({"output": empty, "reference": empty}), read_settings(check, SETTINGS[name]))
    assert (len(found.is_passed), len(found.evidence)) == (0, 0)


@pytest.mark.parametrize("name", SETTINGS)
def test_verdicts_are_booleans_and_texts(name):
    check = find_check(name)
    shard = pa.table({"output": ROWS, "reference": ROWS})
    found = check.function(shard, read_settings(check, SETTINGS[name]))
    assert (found.is_passed.type, found.evidence.type) == (pa.bool_(), pa.string())
