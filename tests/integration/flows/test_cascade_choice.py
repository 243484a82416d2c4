"""`gradebook judge calibrate`, and a run by the cascade that it writes: two decision models on loopback."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gradebook.tasks.agreement.audited_scores import audited_sentence
from gradebook.tasks.judging.settings.files import read_judge
from gradebook.tasks.judging.settings.judge import CascadeSettings, When
from tests.support.loopback_decisions import Asked, LoopbackDecisions
from tests.support.samples import query, write_lines

CASES = 200
RUBRIC = """
id: support
version: 1.0.0
criteria:
  - {id: tone, description: Is it kind?, levels: [{id: fail, score: 0}, {id: pass, score: 1}], method: {type: judge}}
  - id: safe
    description: No promise is made that nobody can keep.
    gate: true
    levels: [{id: fail, score: 0}, {id: pass, score: 1}]
    method: {type: judge}
"""


def drawn(*of: object) -> float:
    return int.from_bytes(hashlib.blake2b(repr(of).encode(), digest_size=8).digest(), "big") / 2**64


def first_shares(state: str, asked: Asked, _: list[Asked]) -> list[float]:
    """Sure of three outputs in four, and else as open as a coin."""
    text = state[state.index("output") :]
    passed = 0.55 if drawn(text, asked.instructions) < 0.25 else 0.98
    return [passed if name == "true" else 1 - passed for name in asked.options]


def second_shares(state: str, asked: Asked, others: list[Asked]) -> list[float]:
    """Passes what the first is sure of, and half of the rest."""
    text = state[state.index("output") :]
    is_open = first_shares(state, asked, others)[0] in (0.55, 1 - 0.55)
    passed = 0.0 if is_open and drawn("second", text, asked.instructions) < 0.5 else 1.0
    return [passed if name == "true" else 1 - passed for name in asked.options]


pytestmark = pytest.mark.nightly


@pytest.fixture
def servers():
    with LoopbackDecisions() as first, LoopbackDecisions() as second:
        first.decide, second.decide = first_shares, second_shares
        for name, server, price in (("first", first, 0.1), ("second", second, 1.0)):
            prices = {"input_usd": price, "output_usd": 0.0}
            judge = {"model": name, "form": "systemone", "base_url": f"{server.base_url}/v1", "prices": prices}
            Path(f"{name}.yaml").write_text(json.dumps(judge), encoding="utf-8")
        yield first, second


def test_the_rule_of_a_panel_is_written_and_its_cascade_asks_nothing_again(
    evaluate: Callable[..., Any], gradebook: Callable[..., Any], servers, tmp_path: Path
):
    rows = [{"case_id": f"c{n}", "model": "m", "prompt": "Help.", "output": f"Reply {n}."} for n in range(CASES)]
    write_lines(tmp_path / "outputs.jsonl", rows)
    (tmp_path / "rubric.yaml").write_text(RUBRIC, encoding="utf-8")
    Path("panel.yaml").write_text("panel: [first.yaml, second.yaml]", encoding="utf-8")
    words = ("outputs.jsonl", "--rubric", "rubric.yaml", "--no-report")
    panel = evaluate(*words, "--judge", "panel.yaml", "--run-id", "panel")
    assert panel.code in (0, 1), panel.err
    found = gradebook("judge", "calibrate", "panel", "--loss", "0.05", "--write", "cascade.yaml", "--json").json
    chosen = found["rule"]["chosen"]
    # The first is as open as a coin, 0.55, about a quarter of its verdicts; its other ones are the second's.
    assert chosen["rule"] == {"name": "share_below", "value": 0.98}
    assert chosen["loss"]["value"] == 0.0 and 0.2 < chosen["asked"] < 0.3
    assert (found["rule"]["case_count"], found["rule"]["fresh_count"]) == (CASES // 2, CASES // 2)
    assert chosen["usd"] == pytest.approx(found["rule"]["always_usd"] * (0.1 + chosen["asked"]), rel=0.05)
    whole = read_judge("cascade.yaml", {})
    assert isinstance(whole, CascadeSettings) and whole.when == When(share_below=0.98, audit=0.05)

    text = "cascade: {first: first.yaml, then: second.yaml, when: {audit: 0.4}}"
    Path("audited.yaml").write_text(text, encoding="utf-8")
    asked = [server.request_count for server in servers]
    audited = evaluate(*words, "--judge", "audited.yaml", "--run-id", "audited")
    assert [server.request_count for server in servers] == asked
    rows = audited.json["audited"]
    assert rows == query(gradebook, "select * exclude (run_id) from audited_scores order by criterion_id")
    assert "second judge alone would give m on the overall score 0." in audited_sentence(rows[2])
    drawn = query(gradebook, "select count(*) as n from opinions where run_id = 'audited' and asked_for = 'audit'")
    always = "from opinions where run_id = 'panel' and judge = 'second' and criterion_id = 'tone'"
    (second,) = query(gradebook, f"select avg(score) as mean {always}")
    assert [row["criterion_id"] for row in rows] == ["safe", "tone", None]
    assert {(row["n"], 2 * row["audited_count"]) for row in rows} == {(CASES, drawn[0]["n"])}
    assert all(row["ci_low"] < second["mean"] < row["ci_high"] for row in rows[1:])
    # The gate has no weight, so the overall score is that of the other criterion.
    assert rows[2]["corrected_mean"] == pytest.approx(rows[1]["corrected_mean"])
