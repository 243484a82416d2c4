"""Objects that a model writes within a budget: real HTTP, a real ledger."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field

from gradebook.rubrics.model.errors import BudgetReached, InputError, JudgeSettingsError
from gradebook.tasks.judging.settings.judge import JudgeSettings, ReplaySettings
from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.learning.asking import Asking, Wanted, open_asking
from gradebook.tasks.ledger.ledger import find_judgments
from gradebook.tasks.ledger.spending import read_spending
from tests.support.asked import make_question
from tests.support.loopback_judge import LoopbackJudge

PRICES = {"input_usd": 1.0, "output_usd": 1.0}  # a million tokens: a dollar


class Modes(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    modes: list[str] = Field(max_length=3)


@pytest.fixture
def server() -> Iterator[LoopbackJudge]:
    with LoopbackJudge() as judge:
        judge.writer = lambda _: json.dumps({"modes": ["rude", "wrong\x00"]})
        yield judge


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return find_lake(f"sqlite:{tmp_path / 'lake' / 'catalog.sqlite'}")


def settings_of(server: LoopbackJudge, **changes: Any) -> JudgeSettings:
    settings = {"model": "m", "base_url": server.base_url, "max_attempts": 1, "prices": PRICES, "patience_s": 0.2}
    return JudgeSettings.model_validate(settings | changes)


def modes_of(asking: Asking, number: int = 0) -> Any:
    return asking.ask_object(asking.object_question("modes", Modes, "Name modes.", {"number": number}))


def test_an_object_is_asked_for_by_its_schema_and_paid_for_once(server: LoopbackJudge, lake: Lake):
    for _ in range(2):
        with open_asking(settings_of(server), lake, "task") as asking:
            assert modes_of(asking).value == Modes(modes=["rude", "wrong"])
    assert asking.tally.stored_count == 1 and asking.tally.cost_usd == 0
    (body,) = server.bodies
    assert body["messages"][1]["content"] == 'MATERIAL\n{"number": 0}'
    schema = body["response_format"]["json_schema"]["schema"]
    assert schema == {
        "type": "object",
        "properties": {"modes": {"type": "array", "items": {"type": "string"}}},
        "required": ["modes"],
        "additionalProperties": False,
    }


def test_the_ledger_has_an_object_as_a_proposal_of_no_run(server: LoopbackJudge, lake: Lake):
    with open_asking(settings_of(server), lake, "task") as asking:
        question = modes_of(asking).question
    (row,) = find_judgments(lake, question.request_key)
    assert (row["criterion_id"], row["run_id"], row["level_id"]) == ("(proposal)", "learning-task", None)
    spending = read_spending(lake)
    assert [part.part for part in spending.parts["stage"]] == ["learning"]
    assert spending.total.billed_usd == pytest.approx(asking.tally.cost_usd) and spending.total.billed_usd > 0


def test_an_unreadable_object_is_asked_for_once_more_with_its_fault(server: LoopbackJudge, lake: Lake):
    replies = iter(['{"modes": ["a", "b", "c", "d"]}', '{"modes": ["a"]}'])
    server.writer = lambda _: next(replies)
    with open_asking(settings_of(server), lake, "task") as asking:
        assert modes_of(asking).value == Modes(modes=["a"])
    assert "at most 3 items" in server.bodies[1]["messages"][-1]["content"]


def test_nonsense_is_no_object_and_says_why(server: LoopbackJudge, lake: Lake):
    server.writer = lambda _: "I would rather not."
    with open_asking(settings_of(server), lake, "task") as asking:
        answer = modes_of(asking)
    assert (answer.value, answer.reason) == (None, "parse_error")


def test_objects_and_verdicts_share_a_budget_over_commands(server: LoopbackJudge, lake: Lake):
    # At the dearest tier, a token costs 2 dollars a million: 0.0082 for a reply of 4,096, and 0.0014 for the prompt.
    with open_asking(settings_of(server), lake, "task", 0.01) as asking:
        modes_of(asking)
        first_usd = asking.tally.cost_usd
    server.writer = None
    with (
        open_asking(settings_of(server, max_tokens=400), lake, "task", first_usd) as asking,
        pytest.raises(BudgetReached),
    ):
        asking.ask([make_question(0)])
    with open_asking(settings_of(server, max_tokens=400), lake, "task", 0.01) as asking:
        (answer,) = asking.ask([make_question(0)])
    assert answer.status == "scored" and server.request_count == 2


def test_a_price_is_that_of_open_questions_and_asks_nothing(server: LoopbackJudge, lake: Lake):
    with open_asking(settings_of(server), lake, "task", is_preview=True) as asking:
        before = asking.price([asking.object_question("modes", Modes, "Name modes.", {"number": 0})])
        later = asking.price_wanted(Wanted(3, 4_000, 100.0, 1_000))
    assert not lake.is_there and server.request_count == 0
    assert (before.question_count, before.stored_count) == (1, 0)
    # At the dearest tier: 3 replies of 1,000 tokens for 2 dollars a million, and 4,000 bytes as so many tokens for 2.5.
    assert later.worst_usd == pytest.approx(0.016)
    assert later.cost_usd is not None and 0 < later.cost_usd < later.worst_usd
    with open_asking(settings_of(server), lake, "task") as asking:
        question = modes_of(asking).question
        assert asking.price([question]).stored_count == 1 and asking.price([question]).worst_usd == 0


def test_two_commands_of_a_task_do_not_spend_one_budget_at_once(server: LoopbackJudge, lake: Lake):
    with open_asking(settings_of(server), lake, "task") as first:
        modes_of(first)
        with open_asking(settings_of(server), lake, "task") as second, pytest.raises(InputError, match="learning-task"):
            modes_of(second, 1)


@pytest.mark.parametrize(
    "judge",
    [ReplaySettings(Path("r.jsonl"), "0" * 32), JudgeSettings(model="d", form="systemone", base_url="http://a/v1")],
)
def test_a_judge_that_writes_no_text_is_refused(judge: Any, lake: Lake):
    with pytest.raises(JudgeSettingsError, match="writes no text"), open_asking(judge, lake, "task"):
        pass
