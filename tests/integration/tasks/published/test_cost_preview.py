"""Cost of a change for a published run: its own judge, its images, leftovers of killed runs."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml

from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.model.outputs import SHARD_SCHEMA
from gradebook.tasks.judging.settings.judge import JudgeSettings, PanelSettings
from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.lake.connections import commit, prepare_lake
from gradebook.tasks.published.cost_preview import CostChange, preview_change
from gradebook.tasks.rubric_store.versions import find_rubric, store_rubric
from tests.support.media_samples import chat, image_part, png, text_part

NIGHT = datetime(2026, 11, 1, tzinfo=UTC)
OWN = JudgeSettings(model="gpt-4o-mini", packing=2, max_tokens=99)
CASES = {"plain": ("Why?", "So."), "pictured": (chat(text_part("What is it?"), image_part("file:cat.png")), "A cat.")}
LEVELS = [{"id": "no", "score": 0, "description": "No."}, {"id": "yes", "score": 1, "description": "Yes."}]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Lake with the published run `r` of two outputs, one about an image, and two judged criteria."""
    found = find_lake(f"sqlite:{tmp_path}/lake/catalog.sqlite")
    prepare_lake(found)
    criteria = [
        {"id": name, "description": f"Is it {name}?", "method": {"type": "judge"}, "levels": LEVELS}
        for name in ("warm", "apt")
    ]
    written = {"id": "two", "version": "1.0.0", "criteria": criteria}
    (tmp_path / "rubric.yaml").write_text(yaml.safe_dump(written), encoding="utf-8")
    (tmp_path / "cat.png").write_bytes(png(30, 20))
    (tmp_path / "outputs.jsonl").write_text("{}\n", encoding="utf-8")
    rubric = find_rubric(str(tmp_path / "rubric.yaml"), found)
    rows = [
        dict.fromkeys(SHARD_SCHEMA.names)
        | {"output_id": name, "case_id": name, "model": "m", "sample_index": 0, "prompt": prompt, "output": output}
        for name, (prompt, output) in CASES.items()
    ]

    def body(connection: Any, _version: int) -> None:
        store_rubric(connection, rubric, NIGHT)
        connection.register("given", pa.Table.from_pylist(rows, SHARD_SCHEMA))
        connection.execute("insert into outputs by name from given")
        connection.execute("insert into output_scores (run_id, output_id) select 'r', output_id from given")
        connection.execute(
            "insert into runs (run_id, status, dataset, rubric_id, rubric_version) values ('r', 'published', ?, ?, ?)",
            [str(tmp_path / "outputs.jsonl"), "two", "1.0.0"],
        )

    commit(found, "a run", body)
    return found


def judged_by(lake: Lake, judge: JudgeSettings | PanelSettings, **columns: Any) -> None:
    """Set the judge and other columns of the run's row."""
    given = {"judge": judge.judge, "settings": json.dumps({"judge": judge.identity})} | columns

    def body(connection: Any, _version: int) -> None:
        for name, value in given.items():
            connection.execute(f"update runs set {name} = ?", [value])

    commit(lake, "its judge", body)


def preview(lake: Lake, tmp_path: Path, **settings: Any) -> CostChange:
    """Preview of a change to a judge file with these settings; without settings, to the run's own judge."""
    if not settings:
        return preview_change(lake, "r", str(tmp_path / "rubric.yaml"), None)
    (tmp_path / "judge.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    return preview_change(lake, "r", None, str(tmp_path / "judge.yaml"))


def test_the_run_s_own_judge_is_the_one_that_it_recorded(lake: Lake, tmp_path: Path):
    judged_by(lake, OWN)
    change = preview(lake, tmp_path)
    assert (change.earlier.request_count, change.later.request_count) == (
        2,
        2,
    )  # two criteria per request, so two requests and not four
    assert (change.difference_usd, change.words) == (0, ())


@pytest.mark.nightly
def test_the_same_model_with_other_settings_is_another_judge(lake: Lake, tmp_path: Path):
    judged_by(lake, OWN)
    change = preview(lake, tmp_path, model="gpt-4o-mini", max_tokens=99)
    assert change.words == ("gpt-4o-mini with other settings (prompt, packing)",)
    assert (change.earlier.request_count, change.later.request_count) == (2, 4)
    assert (change.difference_usd or 0) > 0


@pytest.mark.nightly
def test_the_prices_of_a_file_of_the_same_model_count_for_both(lake: Lake, tmp_path: Path):
    judged_by(lake, OWN)
    prices = {"input_usd": 1000.0, "output_usd": 0.0}
    change = preview(lake, tmp_path, model="gpt-4o-mini", packing=2, max_tokens=99, prices=prices)
    assert (change.words, change.difference_usd) == ((), 0)
    assert (change.earlier.cost_usd or 0) > 0.5


@pytest.mark.nightly
def test_a_panel_is_priced_as_it_was(lake: Lake, tmp_path: Path):
    judged_by(lake, PanelSettings((JudgeSettings(model="gpt-4o-mini"), JudgeSettings(model="gpt-4o", replicates=2))))
    change = preview(lake, tmp_path, model="gpt-4o-mini")
    assert (change.earlier.request_count, change.later.request_count) == (3 * 4, 4)
    assert change.words == ("gpt-4o-mini instead of panel(gpt-4o-mini, gpt-4o)",)


@pytest.mark.nightly
def test_images_are_found_in_the_folder_of_the_run_s_files(lake: Lake, tmp_path: Path):
    judged_by(lake, JudgeSettings(model="gpt-4o-mini"))
    tokens = sum(row.prompt_tokens for row in preview(lake, tmp_path).later.criteria)
    judged_by(lake, JudgeSettings(model="gpt-4o-mini"), dataset="nightly")
    unseen = preview(lake, tmp_path)
    # two requests contain the image, 1,445 tokens each
    assert tokens - sum(row.prompt_tokens for row in unseen.later.criteria) == pytest.approx(2 * 1_445, rel=0.05)
    assert unseen.notes == ("images and audio are counted as text: found no nightly, in whose folder they were",)


@pytest.mark.parametrize("identity", [{"kind": "panel"}, {"kind": "replay", "digest": "d"}], ids=["panel", "replay"])
def test_a_judge_that_can_not_be_restored_has_to_be_named(lake: Lake, tmp_path: Path, identity: Any):
    judged_by(lake, OWN, settings=json.dumps({"judge": identity}))
    with pytest.raises(InputError, match=r"--judge: found none, and run r had gpt-4o-mini"):
        preview(lake, tmp_path)
