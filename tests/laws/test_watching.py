"""The automations of docs/watching.md: Prefect takes them as they stand there."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

pytestmark = pytest.mark.nightly  # to import the parts of Prefect takes seconds
TEXT = (Path(__file__).parents[2] / "docs" / "watching.md").read_text(encoding="utf-8")
BLOCKS = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)]
AUTOMATIONS = [each for block in BLOCKS for each in block.get("automations", [block])]


@pytest.mark.parametrize("automation", AUTOMATIONS, ids=lambda each: each["name"])
def test_prefect_takes_the_automation(automation: dict[str, Any]):
    from prefect.events.schemas.automations import AutomationCore

    core = AutomationCore.model_validate(automation)
    assert core.enabled and core.trigger.expect == set(automation["trigger"]["expect"])


@pytest.mark.parametrize("automation", AUTOMATIONS, ids=lambda each: each["name"])
def test_its_templates_are_of_the_kind_that_the_server_fills_in(automation: dict[str, Any]):
    from prefect.server.utilities.user_templates import validate_user_template

    for action in automation["actions"]:
        for name in {"subject", "body", "payload"} & action.keys():
            validate_user_template(action[name])
