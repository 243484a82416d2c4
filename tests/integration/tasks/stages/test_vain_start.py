"""What would end a run before its first judgment is reported before Prefect starts, if anything is to be judged."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gradebook.rubrics.model.errors import BudgetReached, EndpointUnavailable, MissingKey
from gradebook.tasks.runs.request import EvaluationRequest
from gradebook.tasks.stages.check_request import check_request
from gradebook.tasks.stages.open_run import opened_run
from gradebook.tasks.stages.preview import preview_run, refuse_failing_start
from tests.support.asked import NOWHERE
from tests.support.loopback_judge import LoopbackJudge
from tests.support.samples import write_outputs, write_rubric

CHECK = "  - {id: length, description: Short., method: {type: check, check: length_words, settings: {max: 9}}}\n"
CHECKED = "id: checked\nversion: 1.0.0\ncriteria:\n" + CHECK
DEAR = "max_tokens: 1000\nprices: {input_usd: 1, output_usd: 1000}\n"  # a dollar for a reply, two at the dearest tier


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Start of an evaluation with a judge at an address."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "k")

    def begin(address: str, *, is_judged: bool = True, budget_usd: float | None = None) -> EvaluationRequest:
        rubric, judge = tmp_path / "rubric.yaml", tmp_path / "judge.yaml"
        if is_judged:
            write_rubric(rubric)
        else:
            rubric.write_text(CHECKED, encoding="utf-8")
        judge.write_text(f"model: m\nbase_url: {address}\n{DEAR}", encoding="utf-8")
        outputs = write_outputs(tmp_path / "outputs.jsonl")
        request = EvaluationRequest(str(outputs), str(rubric), judge=str(judge), budget_usd=budget_usd)
        refuse_failing_start(request, check_request(request))
        return request

    return begin


def test_a_judge_that_does_not_answer_ends_the_command_and_leaves_no_lake(start, tmp_path):
    with pytest.raises(EndpointUnavailable, match="no endpoint answers"):
        start(NOWHERE)
    assert not (tmp_path / "lake").exists()


NAMED = NOWHERE + "\nkey: env:MINE"  # by the judge file


@pytest.mark.parametrize(("address", "name"), [("https://api.openai.com/v1", "OPENAI_API_KEY"), (NAMED, "MINE")])
def test_a_key_that_is_missing_is_named_before_any_address_is_asked(start, monkeypatch, address, name):
    monkeypatch.delenv("OPENAI_API_KEY")
    monkeypatch.setenv("GRADEBOOK_ALLOW_KEYS", f"MINE@{NOWHERE.split('/')[2]}")
    with pytest.raises(MissingKey, match=f"found no key in {name}, expected one") as refused:
        start(address)
    assert refused.value.exit_code == 2
    start(address, is_judged=False)


def test_an_endpoint_of_one_s_own_needs_no_key(start, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY")
    with LoopbackJudge() as judge:
        start(judge.base_url)
        monkeypatch.setenv("OPENAI_BASE_URL", judge.base_url)
        start(judge.base_url)
    assert judge.request_count == 0


def test_a_run_that_asks_nothing_needs_no_answer(start):
    start(NOWHERE, is_judged=False, budget_usd=0.5)


def test_a_budget_that_no_reply_fits_in_sends_no_request(start):
    with LoopbackJudge() as judge:
        with pytest.raises(BudgetReached, match=r"a reply alone could cost \$2\.00, of \$0\.500"):
            start(judge.base_url, budget_usd=0.5)
        request = start(judge.base_url, budget_usd=3.0)
        notes = [preview_run(replace(request, budget_usd=usd))[1].budget_note or "" for usd in (0.5, 2.0, 3.0, 4.0)]
        with opened_run(request, datetime.now(UTC)) as run:
            run.folder.budget_file.write_text('{"ticket": 1, "cost_usd": 2.5}\n', encoding="utf-8")
        notes.append(preview_run(replace(request, budget_usd=4.0))[1].budget_note or "")
    assert judge.request_count == 0
    # 12 replies of 120 tokens at $0.001 are estimated, and $2.00 have to be left for the last: $3.44
    told = (
        "a reply alone could cost $2.00, of $0.500 left",
        "the $2.00 left may not pay for any request",  # with its prompt
        "the $3.00 left may not pay for all",
        "",
        "of $1.50 left",
    )
    assert [words in note for words, note in zip(told, notes, strict=True)] == [True] * 5
    assert not notes[3]
