"""`gradebook suite cases`: the cases of a suite beside real usage and beside each other."""

import csv
import json
from pathlib import Path

import pytest

from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.operations.suite_cases import CoverageRequest, measure_coverage, read_sides
from tests.support.loopback_judge import LoopbackJudge
from tests.support.samples import write_lines

EMBEDDER = "model: embedder\nbatch_size: 8\nmax_attempts: 1\nprices: {input_usd: 100, output_usd: 0}\n"


@pytest.fixture
def words(tmp_path: Path) -> list[str | Path]:
    """Suite of 20 cases by two models, all of one topic; traffic of 100 rows, a fifth of another, without case ids."""
    suite = [
        {
            "case_id": f"c{n % 20}",
            "model": f"m{n // 20}",
            "output": "x",
            "prompt": f"invoice {n % 20}",
            "topic": "billing",
        }
        for n in range(40)
    ]
    (tmp_path / "suite.jsonl").write_text("".join(json.dumps(row) + "\n" for row in suite))
    with (tmp_path / "traffic.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["prompt", "topic", "spent"])
        writer.writerows(
            [f"crash of the app {n}" if n < 20 else "invoice", "tech" if n < 20 else "billing", n] for n in range(100)
        )
        writer.writerow(["", "billing", 1])
    return ["suite", "cases", "coverage", tmp_path / "suite.jsonl", "--against", tmp_path / "traffic.csv"]


def test_strata_that_the_suite_lacks_come_first(gradebook, words):
    found = gradebook(*words, "--json").json
    assert (found["suite_count"], found["traffic_count"]) == (20, 100)
    topics = {row["stratum"]: row for row in found["strata"] if row["column"] == "topic"}
    tech = topics["tech"]
    assert found["strata"][0]["is_missing"]
    # Newcombe's interval of 0 of 20 and 20 of 100 by hand: Wilson 0..0.1611 and 0.1334..0.2888
    assert (tech["suite_share"], tech["traffic_share"], tech["is_missing"]) == (0.0, 0.2, True)
    assert (tech["low"], tech["high"]) == pytest.approx((-0.2888, -0.0255), abs=1e-3)
    assert tech["p"] == pytest.approx(0.0236110956)  # of scipy.stats.fisher_exact([[0, 20], [20, 80]])
    assert tech["p_adjusted"] >= tech["p"]
    (distance,) = (each["distance"] for each in found["columns"] if each["column"] == "topic")
    assert distance == pytest.approx(0.2)
    assert any("only the traffic has: spent" in note for note in found["notes"])
    assert any("1 row of the traffic without a prompt" in note for note in found["notes"])


def test_the_table_names_the_missing_topic_first(gradebook, words):
    finished = gradebook(*words, "--embedder", "lexical")
    lines = finished.out.splitlines()
    missing = lines.index(next(line for line in lines if line.startswith("(topic) ") and "crash of the app" in line))
    assert missing < lines.index(next(line for line in lines if line.startswith("topic billing"))), finished.out
    assert any("topics: " in line and "by lexical" in line for line in lines)


def test_vectors_of_an_endpoint_are_priced_before_and_paid_for_once(gradebook, words, tmp_path, monkeypatch):
    (tmp_path / "embedder.yaml").write_text(EMBEDDER)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789")
    with LoopbackJudge() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        words = [*words, "--embedder", tmp_path / "embedder.yaml"]
        price = gradebook(*words, "--dry-run", "--json").json
        assert (price["text_count"], price["request_count"], server.request_count) == (41, 6, 0)
        assert gradebook(*words, "--budget-usd", "0.0000001").code == 3
        first = gradebook(*words, "--budget-usd", "1")
        assert (first.code, "41 texts to embed, about $" in first.err) == (0, True), first.err
        asked = server.request_count
        again = gradebook(*words, "--json").json
        assert (server.request_count, again["embedding"]["text_count"]) == (asked, 0)
    assert gradebook("lake", "ledger", "verify").code == 0


def test_files_that_do_not_fit_are_refused(gradebook, words, tmp_path):
    (tmp_path / "empty.jsonl").write_text('{"prompt": " "}\n')
    for given, message in (("empty.jsonl", "no row with a prompt"), ("none.jsonl", "found a path that is not there")):
        finished = gradebook(*words[:-1], tmp_path / given)
        assert (finished.code, message in finished.err) == (2, True), finished.err


def test_neither_rows_with_columns_of_their_own_nor_long_prompts_make_it_large(tmp_path):
    def row(n: int) -> dict[str, object]:
        return {"prompt": ("red ", "blue ")[n % 2] * 10_000, "kind": n % 2} | {f"k{n}.{k}": 1 for k in range(20)}

    rows = [row(n) for n in range(20)]
    file = str(write_lines(tmp_path / "a.jsonl", rows))
    request = CoverageRequest([file], file, embedder="lexical")
    lake = find_lake(f"sqlite:{tmp_path}/catalog.sqlite")
    sides = read_sides(lake, request)
    assert (len(sides.traffic.columns), sides.traffic.rare_column_count) == (200, 201)
    assert sides.plan is not None
    assert {len(text) for side in sides.plan.texts for text in side} == {20_000}
    found = measure_coverage(lake, request, sides)
    assert {"kind", "(topic)"} < {each.column for each in found.columns}
    assert "the 200 most common columns of the traffic compared, 201 rarer ones left out" in found.notes


def test_the_cases_that_tell_models_apart_are_printed_to_make_a_shorter_suite(gradebook, tmp_path):
    # Cases a and b are solved by the better three of six models, c and d by all, e by none.
    rows = [
        {
            "case_id": case,
            "model": f"m{model}",
            "output": "solved" if case in "cd" or (case in "ab" and model > 2) else "no",
        }
        for case in "abcde"
        for model in range(6)
    ]
    outputs = write_lines(tmp_path / "outputs.jsonl", rows)
    check = "{type: check, check: contains, settings: {any: [solved]}}"
    rubric = f"id: solved\nversion: 1.0.0\ncriteria: [{{id: right, description: R, method: {check}}}]\n"
    (tmp_path / "rubric.yaml").write_text(rubric)
    finished = gradebook("evaluate", outputs, "--rubric", tmp_path / "rubric.yaml")
    assert finished.code == 0, finished.err
    assert gradebook("suite", "cases", "items", "solved", "--enough").out.split() == ["a", "b"]
