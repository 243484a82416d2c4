"""Runs whose judges differ: no rule is applied to them unless asked to, and each surface says so."""

from pathlib import Path
from typing import Any

import pytest

from gradebook.flows.display.comparison import show_comparison
from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.comparing.compare import ComparisonOptions, compare_runs
from gradebook.tasks.comparing.gate import GateRule
from gradebook.tasks.comparing.verdict import comparison_verdict
from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.lake.connections import connect_up_to_date
from gradebook.tasks.operations.checkpoint import CheckpointDecision, Decider
from gradebook.tasks.operations.checkpoint_decisions import APPROVED, CheckpointKey, decide, find_decided
from gradebook.tasks.published.summary import failed_models, summarise
from gradebook.tasks.reporting.comment import run_comment
from gradebook.tasks.reporting.page import run_page
from gradebook.tasks.reporting.report_source import opened_source
from tests.support.loopback_judge import LoopbackJudge
from tests.support.published_runs import NOW, publish
from tests.support.samples import write_outputs, write_rubric

RULE = "mean_diff < -2"
APART = "different judges, kind in A and strict in B"
OF_A_NIGHT = "different judges, kind in the baseline and strict in this run"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Lake of the run a by the judge kind, and of b and c by the judge strict, of which c is compared all the same."""
    folder = tmp_path_factory.mktemp("judges")
    with pytest.MonkeyPatch.context() as patch, LoopbackJudge() as server:
        patch.setenv("OPENAI_API_KEY", "sk-test-0123456789")
        patch.setenv("OPENAI_BASE_URL", server.base_url)
        published(folder, "a", "kind")
        before = server.request_count
        with pytest.raises(InputError) as caught:
            published(folder, "d", "strict", baseline="a")
        assert server.request_count == before  # refused before money is spent
        assert str(caught.value).startswith(f"--baseline: found {OF_A_NIGHT}, expected one judge for both runs")
        published(folder, "b", "strict", baseline="latest")
        published(folder, "c", "strict", baseline="a", across_judges=True)
        yield folder


def published(folder: Path, run_id: str, judge: str, **request: Any) -> None:
    rule = {"fail_if": RULE} if request else {}
    outputs, rubric = write_outputs(folder / "outputs.jsonl", 4), write_rubric(folder / "rubric.yaml")
    publish(outputs, rubric, judge=judge, run_id=run_id, **rule, **request)


def lake_in(folder: Path) -> Lake:
    return find_lake(f"sqlite:{folder}/lake/catalog.sqlite")


@pytest.mark.nightly
def test_a_rule_against_latest_of_another_judge_is_unknown_and_fails(folder):
    (unmet, *_) = summarise(lake_in(folder), "b").unmet
    assert (
        str(unmet)
        == f"gate undecided: required not ({RULE}), found {OF_A_NIGHT} (--across-judges compares them all the same)"
    )
    with connect_up_to_date(lake_in(folder)) as connection:
        assert not failed_models(connection, lake_in(folder), "b")  # so the next night has a baseline of the new judge


@pytest.mark.nightly
def test_a_rule_is_evaluated_across_judges_if_asked(folder):
    found = summarise(lake_in(folder), "c").comparison
    assert found is not None and found.gate is not None
    assert (found.judges, found.gate.is_failed) == (OF_A_NIGHT, False)


def test_compare_refuses_a_rule_across_judges(folder):
    with pytest.raises(InputError, match="--across-judges"):
        compare_runs(lake_in(folder), "a", "b", ComparisonOptions(gate=GateRule(RULE)))
    found = compare_runs(lake_in(folder), "a", "b", ComparisonOptions(gate=GateRule(RULE), across_judges=True))
    assert found.gate is not None and not found.gate.is_failed


@pytest.mark.nightly
def test_every_surface_names_the_judges(folder, capsys):
    found = compare_runs(lake_in(folder), "a", "b")
    assert found.as_json()["judges"] == APART
    assert comparison_verdict(found).sentence.startswith(f"{APART}, which may be the whole difference; ")
    show_comparison(found)
    assert " ".join(capsys.readouterr().out.split()).count(APART) == 2  # in the verdict and the banner
    with opened_source(lake_in(folder), summarise(lake_in(folder), "b")) as source:
        for page in (run_page(source), run_comment(source)):
            head, _, rest = page.partition("across judges, which may be the whole difference")
            assert rest and len(head) < 0.9 * len(page)
            assert OF_A_NIGHT in head  # the rule's reason, in the line before


def test_one_judge_has_no_banner(folder):
    found = compare_runs(lake_in(folder), "b", "c", ComparisonOptions(gate=GateRule(RULE)))
    assert (found.banner, found.judges) == (None, None)


def decided(folder: Path, model: str, approved: dict[str, float], *, across_judges: bool = False) -> CheckpointDecision:
    """Decide on the run c after approved checkpoints of a model. approved: mean of each run."""
    lake, key = lake_in(folder), CheckpointKey(model, "c", "r", "1.0.0", "0")
    for run_id, mean in approved.items():
        row = {"model": model, "checkpoint": run_id, "rubric_id": "r", "rubric_version": "1.0.0", "reasons": []}
        row |= {"status": APPROVED, "mean": mean, "run_id": run_id, "dataset_digest": "0", "decided_at": NOW}
        decide(lake, row)
    decider = Decider(lake, key, None, GateRule(RULE), across_judges)
    made = decider.decide(summarise(lake, "c"), "report.html")
    stored = find_decided(lake, key)
    assert stored is not None
    assert decider.read(stored, "report.html").as_json() == made.as_json()
    return made


@pytest.mark.nightly
def test_the_best_checkpoint_is_one_of_the_same_judge(folder):
    found = decided(folder, "two", {"a": 0.9, "b": 0.5})
    assert (found.row["best_run_id"], found.row["best_diff"]) == ("b", 0.0)
    assert found.note == "1 of 2 approved checkpoints were scored by another judge and are not compared."
    assert not [reason for reason in found.row["reasons"] if reason.startswith("against the best")]


@pytest.mark.nightly
def test_without_a_checkpoint_of_the_same_judge_there_is_no_best_one(folder):
    found = decided(folder, "one", {"a": 0.9})
    assert (found.row["best_run_id"], found.best) == (None, None)
    assert found.note is not None and found.note.endswith("so there is no best checkpoint.")


@pytest.mark.nightly
def test_the_best_checkpoint_may_be_another_judge_s_if_asked(folder):
    found = decided(folder, "across", {"a": 0.9, "b": 0.5}, across_judges=True)
    assert (found.row["best_run_id"], found.note) == ("a", None)
    assert not [reason for reason in found.row["reasons"] if "no comparison" in reason]
