"""Pairing of the models of two runs."""

import duckdb
import pytest

from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.model.rubric import Rubric
from gradebook.tasks.comparing.sides import RunPair, pair_groups, resolve_run_pair, same_criteria
from gradebook.tasks.lake.rows import model_name

TONE = {"id": "tone", "description": "Is it kind?", "method": {"type": "check", "check": "length_words"}}


def paired(a: list[str], b: list[str], *models: str | None) -> tuple[list[str], list[str]]:
    """Pairs of two runs of these models, `name@checkpoint`, and unpaired models."""
    with duckdb.connect() as connection:
        connection.execute("create table run_scores (run_id varchar, model varchar, checkpoint varchar)")
        for run, groups in (("a", a), ("b", b)):
            rows = [[run, *group.split("@")] if "@" in group else [run, group, None] for group in groups]
            connection.executemany("insert into run_scores values (?, ?, ?)", rows)
        pairs, alone = pair_groups(connection, RunPair("a", "b", *models))
    return [" - ".join(map(model_name, pair)) for pair in pairs], alone


def test_a_model_at_a_new_checkpoint_is_paired_with_its_old_one():
    assert paired(["m@100", "n@1", "still"], ["m@200", "n@2", "still"]) == (
        ["m @ 100 - m @ 200", "n @ 1 - n @ 2", "still - still"],
        [],
    )


def test_the_same_checkpoint_is_preferred_to_a_later_one():
    assert paired(["m@100", "n"], ["m@100", "m@200", "n"]) == (
        ["m @ 100 - m @ 100", "n - n"],
        ["m @ 200: only in run B"],
    )


def test_several_checkpoints_are_not_paired_by_guessing():
    pairs, alone = paired(["m@100", "m@200", "n"], ["m@300", "n"])
    assert pairs == ["n - n"]
    assert alone == ["m @ 100: only in run A", "m @ 200: only in run A", "m @ 300: only in run B"]


def test_the_remaining_checkpoints_of_a_model_are_paired():
    assert paired(["m@100", "m@200"], ["m@100", "m@300"])[0] == ["m @ 100 - m @ 100", "m @ 200 - m @ 300"]


def test_one_model_each_is_a_pair_whatever_their_names():
    assert paired(["old@1"], ["new@9"]) == (["old @ 1 - new @ 9"], [])


def test_a_schema_changed_by_another_version_is_another_question():
    method = {"type": "schema", "schema": {"$ref": "order"}}
    old, same, new = (
        Rubric.model_validate(
            {
                "id": "r",
                "version": "1.0.0",
                "schemas": {"order": {"type": kind}},
                "criteria": [{"id": "shape", "description": "?", "method": method, "weight": weight}, TONE],
            }
        )
        for kind, weight in (("object", 1), ("object", 2), ("array", 1))
    )
    assert same_criteria(old, same) == (["shape", "tone"], [])
    assert same_criteria(old, new) == (["tone"], ["shape: another set of schemas"])


def test_models_that_share_no_name_are_refused():
    with pytest.raises(InputError, match="expected one each or a common one"):
        paired(["m@1", "n"], ["o@1", "p"])


def test_a_part_of_several_names_is_refused_with_these():
    with duckdb.connect() as connection:
        connection.execute("create table run_scores (run_id varchar, model varchar, checkpoint varchar)")
        connection.execute("insert into run_scores values ('a', 'support-large', null), ('a', 'support-small', null)")
        with pytest.raises(InputError, match="--model-b: found 'support' in 2 names, expected a model of a"):
            resolve_run_pair(connection, "a", None, (None, "support"))
        assert resolve_run_pair(connection, "a", None, ("small", None)).model_b == "support-large"
