"""The rule that `--require auto` chooses: by the number of cases and what they can show."""

import json
from math import nan
from pathlib import Path
from types import SimpleNamespace

from gradebook.rubrics.statistics.rules import CHANCE_RULE
from gradebook.tasks.comparing.expected_power import ShownMargin, choose_rule, fitting_rule
from gradebook.tasks.comparing.gate import GateRule
from gradebook.tasks.stages.open_run import copy_rule
from gradebook.tasks.workspace.folder import RunFolder
from tests.support.law_over import law_over


@law_over(
    ("count", "shown", "rule"),
    [
        (30, 0.03, CHANCE_RULE),
        (99, 0.03, CHANCE_RULE),
        (100, 0.12, CHANCE_RULE),
        (300, nan, CHANCE_RULE),
        (300, None, CHANCE_RULE),
        (300, 0.0411, "not_worse_by(0.05)"),
        (300, 0.04, "not_worse_by(0.04)"),
        (300, 0.1, "not_worse_by(0.1)"),
        (3_000, 0.011, "not_worse_by(0.02)"),
    ],
)
def test_the_rule_fits_the_cases_and_can_be_parsed(count: int, shown: float | None, rule: str):
    found = None if shown is None else ShownMargin("s", count, shown, 0.02, 1_300, 0.8, "by the past")
    assert fitting_rule(count, found) == rule
    assert GateRule(require=rule).parse()


def test_a_resumed_run_keeps_its_rule(tmp_path: Path):
    folder = RunFolder(tmp_path)
    folder.rule_file.write_text(json.dumps({"require": "not_worse_by(0.07)", "sentence": "why"}), encoding="utf-8")
    choose_rule(
        SimpleNamespace(request=SimpleNamespace(require="auto"), folder=folder), ["no such shard"], lambda *_: True
    )
    assert json.loads(folder.rule_file.read_text(encoding="utf-8"))["require"] == "not_worse_by(0.07)"


def test_a_dry_run_of_a_begun_run_has_its_rule(tmp_path: Path):
    begun, preview = RunFolder(tmp_path / "begun"), RunFolder(tmp_path / "preview")
    for folder in (begun, preview):
        folder.path.mkdir()
    copy_rule(begun, preview)
    assert not preview.rule_file.exists()
    begun.rule_file.write_text("{}", encoding="utf-8")
    copy_rule(begun, preview)
    assert preview.rule_file.read_text(encoding="utf-8") == "{}"
