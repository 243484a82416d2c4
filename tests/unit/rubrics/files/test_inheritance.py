"""Rubrics made of others by `extends` and `use`."""

from pathlib import Path

import pytest

from gradebook.rubrics.files.load import line_of, parse_rubric, read_rubric
from gradebook.rubrics.model.errors import Fault, RubricError
from gradebook.rubrics.model.rubric import Rubric
from gradebook.rubrics.text.plain_words import Place
from gradebook.rubrics.text.yaml_lines import read_yaml

HEAD = "id: mine\nversion: 1.0.0\nextends: general_answer\n"
GENERAL = read_rubric("general_answer")


def composed(criteria: str) -> Rubric:
    return parse_rubric(f"{HEAD}criteria:\n{criteria}", "mine.yaml")


def faults_of(text: str, folder: Path | None = None) -> tuple[Fault, ...]:
    with pytest.raises(RubricError) as caught:
        parse_rubric(text, "mine.yaml", folder)
    return caught.value.faults


def test_without_criteria_all_of_the_other_rubric_are_taken_and_nothing_else():
    rubric = parse_rubric(HEAD, "mine.yaml")
    assert (rubric.criteria, rubric.pass_threshold) == (GENERAL.criteria, None)


def test_a_used_criterion_is_the_other_ones_with_its_own_keys_over_it():
    taken = composed("  - {use: clarity, weight: 0.7, description: Is it short?}\n").criteria[0]
    assert taken == GENERAL.criterion("clarity").model_copy(update={"weight": 0.7, "description": "Is it short?"})


def test_a_used_criterion_may_have_another_id():
    assert composed("  - {use: clarity, id: plain_words}\n").criteria[0].id == "plain_words"


def test_null_takes_a_key_away():
    assert composed("  - {use: clarity, threshold: null}\n").criteria[0].threshold is None


def test_a_used_criterion_made_a_gate_loses_its_weight():
    assert composed("  - {use: length, gate: true}\n").criteria[0].weight is None


def test_a_scale_takes_the_place_of_the_levels():
    criterion = composed("  - {use: clarity, scale: {min: 1, max: 5}}\n").criteria[0]
    assert [level.id for level in criterion.ranked_levels] == ["1", "2", "3", "4", "5"]


def test_criteria_of_ones_own_stand_beside_used_ones():
    own = "  - {id: brief, description: Short., method: {type: check, check: length_words, settings: {max: 9}}}\n"
    assert [c.id for c in composed(f"  - {{use: accuracy}}\n{own}").criteria] == ["accuracy", "brief"]


def test_the_composed_rubric_has_the_digest_of_the_same_rubric_written_out(tmp_path: Path):
    from gradebook.rubrics.files.dump import rubric_yaml
    from gradebook.rubrics.files.versions import rubric_digest

    rubric = composed("  - {use: accuracy}\n  - {use: length}\n")
    assert rubric_digest(parse_rubric(rubric_yaml(rubric), "out.yaml")) == rubric_digest(rubric)


def test_an_unknown_criterion_is_told_at_its_line_with_the_nearest():
    (fault,) = faults_of(f"{HEAD}criteria:\n  - {{use: accuracy}}\n  - {{use: clarty}}\n")
    assert (fault.line, fault.rule, "the nearest is clarity" in fault.message) == (6, "unknown-use", True)


def test_what_an_override_breaks_is_told_at_its_entry():
    (fault,) = faults_of(f"{HEAD}criteria:\n  - use: accuracy\n    threshold: 7\n")
    assert (fault.line, fault.message) == (6, "criteria[0].threshold: found 7, expected a number of at most 1")


def test_use_without_extends_is_told():
    (*_, fault) = faults_of("id: mine\nversion: 1.0.0\ncriteria:\n  - {use: tone}\n")
    assert "expected a rubric that has it under `extends`" in "".join(
        entry.message for entry in faults_of("id: mine\nversion: 1.0.0\ncriteria:\n  - {use: tone}\n")
    )
    assert fault.line == 4


def test_an_unknown_rubric_is_told_with_the_nearest():
    (fault,) = faults_of("id: mine\nversion: 1.0.0\nextends: general_anser\n")
    assert (fault.line, fault.rule, "the nearest is general_answer" in fault.message) == (3, "unknown-rubric", True)


def test_a_criterion_that_two_extended_rubrics_have_is_ambiguous():
    text = "id: mine\nversion: 1.0.0\nextends: [general_answer, json_record]\ncriteria:\n  - {use: length}\n"
    (fault,) = faults_of(text)
    assert "found length in general_answer and json_record, expected it in one" in fault.message


def test_a_file_extends_a_file_beside_it(tmp_path: Path):
    (tmp_path / "base.yaml").write_text(HEAD.replace("mine", "base"), encoding="utf-8")
    (tmp_path / "mine.yaml").write_text(HEAD.replace("general_answer", "base.yaml"), encoding="utf-8")
    assert read_rubric(tmp_path / "mine.yaml").criteria == GENERAL.criteria


def test_rubrics_that_extend_each_other_are_told(tmp_path: Path):
    for name, other in (("a", "b"), ("b", "a")):
        (tmp_path / f"{name}.yaml").write_text(f"id: {name}\nversion: 1.0.0\nextends: {other}.yaml\n", encoding="utf-8")
    with pytest.raises(RubricError, match="expected an end"):
        read_rubric(tmp_path / "a.yaml")


def test_a_text_without_a_folder_reads_no_file(tmp_path: Path):
    secret = tmp_path / "secret.yaml"
    secret.write_text("id: [", encoding="utf-8")
    (fault,) = faults_of(f"id: mine\nversion: 1.0.0\nextends: {secret}\n")
    assert "expected a shipped rubric" in fault.message


@pytest.mark.parametrize("value", ["7", "{a: 1}", "[7]", "''", "[[general_answer]]"])
def test_what_is_no_name_is_told(value: str):
    assert faults_of(f"id: mine\nversion: 1.0.0\nextends: {value}\n")[0].rule == "unknown-rubric"


@pytest.mark.parametrize("criteria", ["", "criteria: [{use: clarity}]\n"])
def test_extending_nothing_is_told(criteria: str):
    first = faults_of(f"id: mine\nversion: 1.0.0\nextends: []\n{criteria}")[0]
    assert (first.line, first.rule, first.message) == (
        3,
        "unknown-rubric",
        "extends: found an empty list, expected a rubric's name or file",
    )


def test_more_names_than_20_are_told():
    names = ", ".join(f"a{n}" for n in range(21))
    first = faults_of(f"id: mine\nversion: 1.0.0\nextends: [{names}]\n")[0]
    assert (first.line, first.message) == (3, "extends: found 21 names, expected at most 20")


def test_a_name_given_twice_is_told():
    (fault,) = faults_of("id: mine\nversion: 1.0.0\nextends: [json_record, json_record]\n")
    assert fault.message == "extends[1]: found 'json_record' again, expected each name once"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("criteria: 5", "criteria: found 5, expected a list"),
        ("criteria: true", "criteria: found true (a bare yes, no, on or off is read so), expected a list"),
        ("criteria: [{use: [a]}]", "criteria[0].use: found a list, expected one of "),
        ("categories: [{id: [a]}]", "categories[0].id: found a list, expected text"),
        ("categories: 5", "categories: found 5, expected a list"),
    ],
)
def test_a_wrong_value_beside_extends_is_one_fault_at_its_line(line: str, message: str):
    (fault,) = faults_of(f"{HEAD}{line}\n")
    assert (fault.line, fault.message[: len(message)]) == (4, message)


def write_base(folder: Path, name: str, category: str) -> None:
    """A rubric of the criterion NAME in the category voice, which has these keys."""
    criterion = f"{{id: {name}, category: voice, description: Is it so?, method: {{type: claims}}}}"
    head = f"id: {name}\nversion: 1.0.0\ncategories: [{{id: voice{category}}}]\n"
    (folder / f"{name}.yaml").write_text(f"{head}criteria: [{criterion}]\n", encoding="utf-8")


TWO_BASES = "id: mine\nversion: 1.0.0\nextends: [a.yaml, b.yaml]\n"


def test_a_category_that_two_extended_rubrics_have_otherwise_is_ambiguous(tmp_path: Path):
    write_base(tmp_path, "a", ", weight: 2")
    write_base(tmp_path, "b", ", weight: 3")
    (fault,) = faults_of(TWO_BASES, tmp_path)
    assert (fault.line, fault.rule) == (3, "category-tree")
    assert fault.message.startswith("extends: found different categories 'voice' in a and b")


@pytest.mark.parametrize(("weight", "own"), [("2", ""), ("3", "categories: [{id: voice}]\n")])
def test_a_category_that_is_alike_or_listed_is_not_ambiguous(tmp_path: Path, weight: str, own: str):
    write_base(tmp_path, "a", ", weight: 2")
    write_base(tmp_path, "b", f", weight: {weight}")
    assert len(parse_rubric(TWO_BASES + own, "mine.yaml", tmp_path).categories) == 1


def test_a_fault_of_taken_categories_is_told_where_the_other_rubric_is_named(tmp_path: Path):
    # voice comes along with a, which is a gate here, so nothing in it has a weight
    write_base(tmp_path, "a", "")
    own = "{id: own, description: Is it so?, method: {type: claims}}"
    text = f"id: mine\nversion: 1.0.0\nextends: a.yaml\ncriteria: [{{use: a, gate: true}}, {own}]\n"
    assert [(fault.line, fault.rule) for fault in faults_of(text, tmp_path)] == [(3, "category-tree")]


def test_a_place_that_was_taken_has_the_line_of_extends():
    text = read_yaml(f"{HEAD}criteria:\n  - {{use: clarity}}\ncategories:\n  - {{id: own}}\n", "mine.yaml")
    places: list[Place] = [("criteria", 0, "weight"), ("criteria", 1), ("categories", 0), ("categories", 1, "name")]
    assert [line_of(text, place) for place in places] == [5, 3, 7, 3]


def test_a_place_that_nothing_was_taken_for_has_the_line_around_it():
    text = read_yaml("id: mine\nversion: 1.0.0\n", "mine.yaml")
    assert line_of(text, ("criteria", 0)) == 1


def write_rows(folder: Path, base: str) -> Path:
    """Nine rows of twelve files, each of which extends the whole row below: 12^8 ways down to the base."""
    (folder / "base.yaml").write_text(base, encoding="utf-8")
    below = ["base"]
    for row in range(9):
        named = ", ".join(f"./{name}.yaml" for name in below)
        below = [f"r{row}_{column}" for column in range(12)]
        for name in below:
            head = f"id: {name}\nversion: 1.0.0\nextends: [{named}]\n"
            own = f"criteria: [{{id: {name}, description: Is it so?, method: {{type: claims}}}}]\n"
            (folder / f"{name}.yaml").write_text(head + own, encoding="utf-8")
    return folder / "r8_0.yaml"


def test_rubrics_that_share_what_they_extend_are_read_once(tmp_path: Path):
    assert read_rubric(write_rows(tmp_path, HEAD)).id == "r8_0"


def test_a_shared_rubric_with_a_fault_is_read_once_too(tmp_path: Path):
    with pytest.raises(RubricError, match=r"r7_0.yaml:3: syntax\), expected one without"):
        read_rubric(write_rows(tmp_path, ""))


def test_the_categories_of_used_criteria_come_along():
    rubric = parse_rubric(
        "id: mine\nversion: 1.0.0\nextends: text_to_speech\ncriteria: [{use: clarity}, {use: fluency}]\n", "mine.yaml"
    )
    assert {category.id for category in rubric.categories} == {c.category for c in rubric.criteria}
