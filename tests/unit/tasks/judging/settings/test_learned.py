"""Settings that an endpoint taught by refusing a default."""

from pathlib import Path

import pytest

from gradebook.rubrics.model.errors import LakeError
from gradebook.tasks.judging.settings.judge import CascadeSettings, JudgeSettings, PanelSettings
from gradebook.tasks.judging.settings.learned import (
    FILE,
    learned_notes,
    refused_setting,
    store_learned,
    with_learned,
)

PLAIN = JudgeSettings(model="m")
WRITTEN = JudgeSettings(model="m", temperature=0, reply_format="json_schema")
ELSEWHERE = JudgeSettings(model="m", base_url="http://localhost:8000/v1")


def teach(root: Path, *parameters: str) -> None:
    for parameter in parameters:
        refused = refused_setting(PLAIN, parameter, "HTTP 400")
        assert refused is not None
        store_learned(root, refused)


def test_a_default_that_was_refused_is_sent_no_more(tmp_path: Path):
    assert with_learned(PLAIN, tmp_path) is PLAIN
    teach(tmp_path, "temperature", "response_format")
    taught = with_learned(PLAIN, tmp_path)
    assert taught == PLAIN.model_copy(update={"temperature": None, "reply_format": "text"})
    assert with_learned(PanelSettings((PLAIN, WRITTEN)), tmp_path) == PanelSettings((taught, WRITTEN))
    assert with_learned(CascadeSettings(ELSEWHERE, PLAIN), tmp_path) == CascadeSettings(ELSEWHERE, taught)
    assert [note.rpartition(" ")[2] for note in learned_notes(taught, tmp_path)] == ["null`", "text`"]
    assert list(learned_notes(WRITTEN, tmp_path)) == []


def test_what_a_judge_file_names_and_other_parameters_are_not_learned(tmp_path: Path):
    teach(tmp_path, "temperature")
    again = with_learned(PLAIN, tmp_path)
    assert isinstance(again, JudgeSettings)
    refusals = [(WRITTEN, "temperature"), (again, "temperature"), (PLAIN, "seed"), (PLAIN, None)]
    assert [refused_setting(settings, parameter, "HTTP 400") for settings, parameter in refusals] == [None] * 4


@pytest.mark.parametrize("text", ["", "[]", '{"m": 1}', '{"m": {"temperature": 1}}', '{"m": {"model": "n"}}'])
def test_a_file_that_is_not_ours_is_named(tmp_path: Path, text: str):
    (tmp_path / FILE).write_text(text, encoding="utf-8")
    with pytest.raises(LakeError, match=FILE):
        with_learned(PLAIN, tmp_path)
