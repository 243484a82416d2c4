"""`gradebook cost`: past costs, and the estimated cost of a change."""

import json
import re
from pathlib import Path

import pytest

from tests.support.nightly import matrix
from tests.support.samples import write_outputs, write_rubric

JUDGED = """
  - id: {criterion_id}
    description: {description}
    weight: 1
    method: {{type: judge}}
    levels:
      - {{id: low, score: 0.0, description: Hardly.}}
      - {{id: high, score: 1.0, description: Very much so.}}
"""


@pytest.fixture
def run_id(judged_run) -> str:
    """Published run of 12 outputs with one judged criterion, `clarity`."""
    return str(judged_run["run_id"])


def write_wider_rubric(tmp_path: Path) -> Path:
    """Rubric of the run with `tone` and `depth` instead of `clarity`."""
    path = write_rubric(tmp_path / "wider.yaml", version="2.0.0")
    head, _, rest = path.read_text(encoding="utf-8").partition("  - id: clarity")
    _, _, last = rest.partition("  - id: length")
    added = "".join(
        JUDGED.format(criterion_id=name, description=f"How much {name} is there?").lstrip("\n")
        for name in ("tone", "depth")
    )
    path.write_text(f"{head}{added}  - id: length{last}", encoding="utf-8")
    return path


@pytest.mark.nightly
def test_the_costs_of_a_run_are_those_of_the_ledger(gradebook, run_id: str):
    total = gradebook("cost", run_id, "--json").json["total"]
    paid = gradebook("sql", "select sum(cost_usd) as usd from judgments", "--format", "json").json
    assert (total["judgment_count"], total["billed_usd"]) == (12, pytest.approx((paid or [{}])[0]["usd"]))


@pytest.mark.nightly
def test_stored_judgments_are_counted_as_savings(evaluate, gradebook, run_id: str):
    again = evaluate("outputs.jsonl", "--rubric", "rubric.yaml", "--judge", "gpt-4o-mini", "--run-id", "again")
    assert again.code == 0
    first, second = (gradebook("cost", run, "--json").json["total"] for run in (run_id, "again"))
    assert (second["replayed_count"], second["billed_usd"]) == (12, 0)
    assert second["saved_usd"] == pytest.approx(first["billed_usd"])


def test_the_costs_of_a_lake_are_shown_by_criterion_judge_and_day(gradebook, run_id: str):
    shown = gradebook("cost")
    assert shown.code == 0
    assert "billed for 12 judgments" in shown.out
    assert "note: list prices are of genai-prices" in shown.out + shown.err
    assert [word in shown.out for word in ("clarity", "gpt-4o-mini", "criterion", "judge", "day")] == [True] * 5


def test_a_change_of_the_rubric_is_priced_without_requests(gradebook, judge, run_id: str, tmp_path: Path):
    asked = judge.request_count
    found = gradebook("cost", run_id, "--rubric", write_wider_rubric(tmp_path), "--json").json
    assert found["sentence"].endswith(" a run: 2 more judged criteria (tone, depth); 1 less (clarity)")
    assert (found["earlier"]["request_count"], found["later"]["request_count"]) == (12, 24)
    assert found["difference_usd"] == pytest.approx(found["later"]["cost_usd"] - found["earlier"]["cost_usd"])
    assert found["difference_usd"] > 0
    assert judge.request_count == asked


@pytest.mark.nightly
def test_the_same_rubric_costs_the_same_and_needs_no_request(gradebook, run_id: str):
    found = gradebook("cost", run_id, "--rubric", "rubric.yaml", "--json").json
    assert (found["difference_usd"], found["rest"]["request_count"]) == (0, 0)
    assert found["sentence"] == "+$0 a run: the same judged criteria"


def test_another_judge_is_priced_also_for_the_latest_run(gradebook, run_id: str):
    found = gradebook("cost", "--judge", "gpt-4o", "--json").json
    assert found == gradebook("cost", run_id, "--judge", "gpt-4o", "--json").json
    assert found["sentence"].endswith("a run: gpt-4o instead of gpt-4o-mini")
    assert found["difference_usd"] > found["earlier"]["cost_usd"]


@pytest.mark.nightly
def test_an_unknown_price_of_the_change_is_reported(gradebook, run_id: str):
    shown = gradebook("cost", run_id, "--judge", "no-such-model")
    assert "price unknown, +0 requests a run" in shown.out


def test_a_dry_run_estimates_the_cost_of_the_same_run(gradebook, run_id: str, tmp_path: Path):
    # The same texts with words in another order: new outputs, as long as those in the ledger.
    rows = [json.loads(line) for line in (tmp_path / "outputs.jsonl").read_text(encoding="utf-8").splitlines()]
    turned = [row | {"output": " ".join(reversed(row["output"].split()))} for row in rows]
    (tmp_path / "turned.jsonl").write_text("\n".join(map(json.dumps, turned)), encoding="utf-8")
    words = ("turned.jsonl", "--rubric", "rubric.yaml", "--judge", "gpt-4o-mini", "--dry-run", "--json")
    planned = gradebook("evaluate", *words).json
    billed_usd = gradebook("cost", run_id, "--json").json["total"]["billed_usd"]
    assert planned["cost_usd"] == pytest.approx(billed_usd, rel=0.05)
    assert planned["cost_low_usd"] <= planned["cost_usd"] <= planned["cost_high_usd"]


def test_a_dry_run_shows_the_range_of_the_cost(gradebook, tmp_path: Path):
    write_outputs(tmp_path / "outputs.jsonl")
    write_rubric(tmp_path / "rubric.yaml")
    shown = gradebook("evaluate", "outputs.jsonl", "--rubric", "rubric.yaml", "--judge", "gpt-4o-mini", "--dry-run")
    assert re.search(r"12 requests, about \$0\.\d+ \(\$0\.\d+ to \$0\.\d+\)\n", shown.out)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("no-such-run",), "run: found no 'no-such-run'"),
        *matrix(
            [
                (("no-such-run", "--rubric", "general_answer"), "run: found no 'no-such-run'"),
                (("--rubric", "general_answer"), "run: found no published run"),
                (("--days", "0"), "--days: found 0, expected 1 to 36,500"),
                (("any", "--days", "3"), "--days: found a run as well"),
            ]
        ),
    ],
)
def test_costs_that_can_not_be_computed_are_refused(gradebook, tmp_path: Path, words: tuple[str, ...], told: str):
    from gradebook.tasks.lake.address import find_lake
    from gradebook.tasks.lake.connections import prepare_lake

    prepare_lake(find_lake(f"sqlite:{tmp_path}/lake/catalog.sqlite"))
    refused = gradebook("cost", *words)
    assert (refused.code, told in refused.err) == (2, True)


def test_a_missing_lake_is_named(gradebook):
    refused = gradebook("cost")
    assert refused.code == 2
    assert "found no lake there" in refused.err


def test_an_empty_lake_has_cost_nothing_unless_replies_are_not_counted_yet(gradebook, tmp_path: Path):
    from gradebook.tasks.lake.address import find_lake
    from gradebook.tasks.lake.connections import prepare_lake

    lake = find_lake(f"sqlite:{tmp_path}/lake/catalog.sqlite")
    prepare_lake(lake)
    shown = gradebook("cost")
    assert shown.code == 0
    assert "no request was sent, and no paid reply was used again" in shown.out
    lake.journal_folder.mkdir(parents=True, exist_ok=True)
    (lake.journal_folder / "run.jsonl").touch()
    shown = gradebook("cost")
    assert ("no reply is counted" in shown.out, "no request was sent" in shown.out) == (True, False)
