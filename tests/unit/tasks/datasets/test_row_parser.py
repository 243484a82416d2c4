import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradebook.rubrics.model.outputs import Output, output_id
from gradebook.tasks.datasets.row_parser import RowFitter
from tests.support.law_over import law_over

OWN = {"id": "t", "description": "?", "method": {"type": "judge"}}
OWN_TEXT = '[{"description":"?","id":"t","method":{"type":"judge"}}]'
metadata_objects = st.dictionaries(st.text(max_size=3), st.integers(0, 9) | st.text(max_size=3), max_size=4)


def row(case_id="c1", **columns):
    return {"case_id": case_id, "model": "m", "output": "yes"} | columns


def fitted(row_of_file, form="jsonl", **column_map) -> Output:
    output = RowFitter(column_map).fit(row_of_file, form)
    assert isinstance(output, Output), output
    return output


def test_chat_messages_become_canonical_json():
    messages = [{"role": "user", "content": "Größe?"}]
    assert fitted(row(prompt=messages)).prompt == '[{"content":"Größe?","role":"user"}]'


def test_a_context_of_one_text_is_a_list_of_one():
    assert fitted(row(context="[x]")).context == ["[x]"]


def test_unknown_columns_go_into_metadata_and_are_noted_in_order():
    fitter = RowFitter({})
    kept = [fitter.fit(row(**extra), "jsonl").metadata for extra in ({"seed": 3}, {"topic": "bees", "seed": None})]
    assert kept == ['{"seed":3}', '{"seed":null,"topic":"bees"}']
    assert fitter.extra_columns == ("seed", "topic")


def test_the_sound_of_a_transcript_goes_into_metadata_and_is_not_unknown():
    fitter = RowFitter({})
    assert fitter.fit(row(audio="file:a.wav"), "jsonl").metadata == '{"audio":"file:a.wav"}'
    assert fitter.extra_columns == ()


def test_a_key_that_metadata_has_wins_over_a_column_of_that_name():
    assert fitted(row(seed=3, metadata={"seed": 1})).metadata == '{"seed":1}'


def test_a_renamed_column_leaves_the_one_it_displaces_in_metadata():
    output = fitted(row(response="no"), output="response")
    assert (output.output, output.metadata) == ("no", '{"output":"yes"}')


def test_one_column_may_serve_as_two():
    output = fitted({"q": "Why?", "model": "m", "output": "x"}, case_id="q", prompt="q")
    assert (output.case_id, output.prompt, output.metadata) == ("Why?", "Why?", None)


def test_a_row_that_does_not_fit_gives_its_reason():
    assert RowFitter({}).fit(row(output=None), "jsonl") == "output: found null, expected text"


def test_metadata_given_as_text_does_not_fit_in_json_lines():
    reason = RowFitter({}).fit(row(metadata="{}"), "jsonl")
    assert reason == 'metadata: found the text "{}", expected an object'


@pytest.mark.parametrize("cell", ["{", "[1]", '{"a": "\\ud800"}'])
def test_a_cell_of_metadata_that_holds_no_json_object_does_not_fit(cell):
    assert RowFitter({}).fit(row(metadata=cell), "csv") == f'metadata: found the text "{cell}", expected an object'


def test_csv_cells_are_read_as_what_their_columns_hold():
    cells = {
        "checkpoint": "100",
        "sample_index": "2",
        "prompt": '[{"role": "user"}]',
        "context": '["x", "y"]',
        "metadata": '{"a": 1}',
        "criteria": json.dumps([OWN]),
        "cluster": "d1",
        "seed": "5",
    }
    messages, metadata = '[{"role":"user"}]', '{"a":1,"seed":"5"}'
    expected = Output("1", "m", "100", 2, messages, "", None, ["x", "y"], metadata, OWN_TEXT, "d1")
    assert fitted(row("1", output="", **cells), "csv") == expected


@law_over("column", ["checkpoint", "sample_index", "prompt", "reference", "context", "metadata", "criteria", "cluster"])
def test_an_empty_cell_of_csv_is_no_value(column):
    assert fitted(row(**{column: ""}), "csv") == fitted(row())


@pytest.mark.parametrize("cell", ["[1] says the book", "[1]", "plain"])
def test_a_csv_context_that_is_no_list_of_texts_is_one_text(cell):
    assert fitted(row(context=cell), "csv").context == [cell]


def test_a_csv_prompt_that_is_no_list_of_messages_is_text():
    assert fitted(row(prompt="[sic] why?"), "csv").prompt == "[sic] why?"


def test_parquet_gives_the_same_output_as_json_lines():
    columns = {"prompt": [{"role": "user", "content": "Hi"}], "context": ["x"], "sample_index": 1}
    flat = row(**columns, metadata='{"b": 1, "a": 2}', criteria=json.dumps([OWN]))
    assert fitted(flat, "parquet") == fitted(row(**columns, metadata={"a": 2, "b": 1}, criteria=[OWN]))


def test_values_that_json_lacks_are_kept_in_metadata_as_text():
    assert fitted(row(raw=b"\x00"), "parquet").metadata == '{"raw":"b\'\\\\x00\'"}'


@given(metadata_objects)
def test_an_id_does_not_change_with_the_order_of_keys(metadata):
    turned = dict(reversed(metadata.items()))
    assert output_id(fitted(row(metadata=metadata))) == output_id(fitted(row(metadata=turned)))


@given(metadata_objects, metadata_objects)
def test_an_id_changes_with_metadata(first, second):
    is_same_id = output_id(fitted(row(metadata=first))) == output_id(fitted(row(metadata=second)))
    assert is_same_id == (first == second)


def test_a_row_whose_patterns_take_long_over_its_texts_does_not_fit():
    dear = {"id": "t", "description": "?", "method": {"type": "check", "check": "matches_regex"}}
    dear["method"]["settings"] = {"pattern": ".{0,900}"}
    assert fitted(row(criteria=[dear], output="x" * 200_000))
    misfit = RowFitter({}).fit(row(criteria=[dear], output="x" * 200_000, context="x" * 30_000), "jsonl")
    assert str(misfit).startswith("criteria: found patterns whose repeats match 900 places, over texts of 230,000 char")
