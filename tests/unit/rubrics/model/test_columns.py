from gradebook.rubrics.model.outputs import column_faults, map_faults


def messages(found, column_map=None):
    return [fault.message for fault in column_faults("a.csv", 1, found, column_map)]


def test_the_required_columns_are_enough():
    assert messages(["case_id", "model", "output"]) == []


def test_a_missing_column_is_named_with_the_columns_found_and_the_likely_one():
    (message,) = messages(["id", "case_id", "model", "response"])
    assert message == (
        "found the columns id, case_id, model, response; "
        "expected output: name the column that holds it, --map output=response"
    )


def test_a_missing_column_without_a_likely_one_is_hinted_as_found():
    assert messages(["case_id", "model", "x"])[0].endswith("--map output=FOUND")


def test_cases_without_ids_may_be_told_apart_by_their_prompts():
    hint = "or tell cases apart by their prompts, --map case_id=prompt"
    assert messages(["prompt", "model", "output"])[0].endswith(hint)
    assert messages(["prompt", "id", "model", "output"])[0].endswith("--map case_id=id")


def test_every_missing_column_is_reported_at_once():
    assert [message.rpartition("=")[0][-7:] for message in messages(["x"])] == ["case_id", "p model", " output"]


def test_a_mapped_column_has_to_be_there():
    assert messages(["case_id", "model", "output"], {"reference": "gold"}) == [
        "found the columns case_id, model, output; expected gold, which --map reference=gold names"
    ]


def test_a_mapped_column_stands_for_the_required_one():
    assert messages(["id", "model", "output"], {"case_id": "id"}) == []


def test_a_column_given_twice_is_a_fault():
    assert messages(["case_id", "model", "output", "output"]) == ["found the column output 2 times, expected it once"]


def test_a_map_of_an_unknown_column_names_those_that_are_known():
    (fault,) = map_faults({"respons": "output"})
    assert str(fault).startswith("--map respons=output: found respons, expected one of case_id, model, ")
