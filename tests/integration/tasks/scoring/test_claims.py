"""Criteria of the method `claims`: found, checked and counted through the ledger, in a real run."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from gradebook.rubrics.model.errors import UnfinishedError
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.lake.connections import connect
from gradebook.tasks.runs.request import EvaluationRequest
from gradebook.tasks.stages.preview import preview_run
from gradebook.tasks.stages.rescore import RescoreRequest, rescore_run
from tests.support.claims_judge import write_claims
from tests.support.loopback_judge import LoopbackJudge
from tests.support.nightly import matrix
from tests.support.published_runs import publish
from tests.support.samples import write_lines

RUBRIC = """
id: grounded
version: 1.0.0
criteria:
  - id: groundedness
    description: Does the context bear out what is said?
    weight: 1
    method: {{type: claims{settings}}}
"""
CONTEXT = ["The shop is open on Sundays. The cafe is not free.", "Returns take 60 days."]
ANSWERS = {
    "all": "The shop is open on Sundays. Returns take 60 days.",
    "half": "The shop is open on Sundays. The moon is made of cheese.",
    "denied": "The cafe is free. Returns take 60 days. I think that is fine.",
    "made_up": "This is made up entirely.",
    "nothing": "?!",
    "opinion": "I think it is fine.",
}


@pytest.fixture
def judge(judge: LoopbackJudge) -> LoopbackJudge:
    judge.writer = write_claims
    return judge


def rows_of(answers: dict[str, str] = ANSWERS, **columns: Any) -> list[dict[str, Any]]:
    return [
        {"case_id": name, "model": "m", "output": text, "context": CONTEXT, **columns} for name, text in answers.items()
    ]


def evaluated(folder: Path, rows: list[dict[str, Any]], settings: str = "") -> Any:
    rubric = folder / "rubric.yaml"
    rubric.write_text(RUBRIC.format(settings=settings), encoding="utf-8")
    return publish(write_lines(folder / "outputs.jsonl", rows), rubric, judge="m")


def rows_in(folder: Path, query: str) -> list[tuple[Any, ...]]:
    with connect(find_lake(f"sqlite:{folder}/lake/catalog.sqlite"), read_only=True) as connection:
        return connection.execute(query).fetchall()


def verdicts_in(folder: Path, criterion_id: str = "groundedness") -> dict[str, tuple[Any, ...]]:
    """Score, reason, rationale and evidence by case."""
    rows = rows_in(
        folder,
        "select case_id, verdicts.score, reason, rationale, evidence from verdicts join outputs using (output_id) "
        f"where criterion_id = '{criterion_id}'",
    )
    return {case: tuple(rest) for case, *rest in rows}


def test_groundedness_is_the_share_of_supported_claims(judge: LoopbackJudge, tmp_path: Path):
    (unsourced,) = rows_of({"unsourced": ANSWERS["all"]}, context=[])
    evaluated(tmp_path, [*rows_of(), unsourced])
    found = verdicts_in(tmp_path)
    assert found.pop("unsourced")[:2] == (None, "no_context: nothing to check against")
    assert {case: verdict[0] for case, verdict in found.items()} == {
        "all": 1.0,
        "half": 0.5,
        "denied": 0.5,
        "made_up": 0.0,
        "nothing": None,
        "opinion": None,
    }
    assert found["nothing"][1] == found["opinion"][1] == "not_applicable: no claim that can be checked"
    assert found["denied"][2] == "output: 1 of 2 claims supported, 1 contradicted; left out: 1 opinion"
    assert found["made_up"][2] == "output: 0 of 1 claims supported, 1 with a quote that the source lacks"
    assert found["half"][3] == '["The moon is made of cheese."]'
    claims = rows_in(
        tmp_path,
        "select span, kind, verdict, quote, substr(output, start + 1, stop - start) = span from claims "
        "join outputs using (output_id) where case_id = 'denied' order by claim_index",
    )
    assert claims == [
        ("The cafe is free.", "verifiable", "contradicted", "The cafe is not free.", True),
        ("Returns take 60 days.", "verifiable", "supported", "Returns take 60 days.", True),
        ("I think that is fine.", "opinion", None, None, True),
    ]
    assert judge.request_count == 5 + 4  # one text has no sentence, and one no claim to check


@pytest.mark.nightly
def test_the_report_shows_each_claim_with_its_passage(judge: LoopbackJudge, tmp_path: Path):
    rubric = tmp_path / "rubric.yaml"
    rubric.write_text(RUBRIC.format(settings=""), encoding="utf-8")
    run = publish(write_lines(tmp_path / "outputs.jsonl", rows_of()), rubric, judge="m", has_report=True)
    page = (tmp_path / "lake" / "runs" / run.run_id / "report.html").read_text(encoding="utf-8")
    assert "contradicted: The cafe is free. — “The cafe is not free.”" in page
    assert "not in source: The moon is made of cheese." in page


def test_a_second_run_and_a_second_criterion_ask_nothing_twice(judge: LoopbackJudge, tmp_path: Path):
    method = "{type: claims, measure: not_contradicted}"
    second = f"\n  - {{id: other, description: Is nothing denied?, weight: 1, method: {method}}}"
    rubric = tmp_path / "two.yaml"
    rubric.write_text(RUBRIC.format(settings="") + second, encoding="utf-8")
    outputs = write_lines(tmp_path / "outputs.jsonl", rows_of())
    publish(outputs, rubric, judge="m")
    assert judge.request_count == 9
    scores = rows_in(tmp_path, "select criterion_id, sum(score) from verdicts group by all order by all")
    assert scores == [("groundedness", 2.0), ("other", 3.5)]
    lake = f"sqlite:{tmp_path}/lake/catalog.sqlite"
    plan = preview_run(EvaluationRequest(str(outputs), str(rubric), judge="m", lake=lake))[1]
    assert (plan.request_count, plan.replayed_count) == (0, 18)  # each criterion reads the nine replies


@pytest.mark.nightly
def test_a_run_that_lost_its_judge_goes_on_where_it_stopped(judge: LoopbackJudge, tmp_path: Path):
    judge.faults = ["", "", "", "", "", "", *["401"] * 50]  # in the middle of the second stage
    with pytest.raises(UnfinishedError):
        evaluated(tmp_path, rows_of())
    judge.faults = []
    evaluated(tmp_path, rows_of())
    assert judge.answered_count == 9  # each question once, over both commands
    assert verdicts_in(tmp_path)["denied"][0] == 0.5


def test_claims_are_verified_while_those_of_another_output_are_still_looked_for(judge: LoopbackJudge, tmp_path: Path):
    rows, ends = rows_of({name: ANSWERS[name] for name in ("all", "half", "denied", "made_up")}), time.monotonic() + 20

    def is_held(body: dict[str, Any]) -> bool:
        asked = [each["response_format"]["json_schema"]["name"] for each in judge.bodies]
        is_last = "made up" in body["messages"][-1]["content"]
        return is_last and "claim_verdicts" not in asked and time.monotonic() < ends

    judge.is_held = is_held
    evaluated(tmp_path, rows)
    assert time.monotonic() < ends
    assert {case: verdict[0] for case, verdict in verdicts_in(tmp_path).items()} == {
        "all": 1.0,
        "half": 0.5,
        "denied": 0.5,
        "made_up": 0.0,
    }


@pytest.mark.nightly
def test_an_unreadable_reply_leaves_its_output_unscored_and_is_asked_again(judge: LoopbackJudge, tmp_path: Path):
    def write(body: dict[str, Any]) -> str:
        content = body["messages"][-1]["content"]
        if "made up" in content:
            content = {"sentence": 1, "span": "nobody's words", "claim": "It is.", "kind": "verifiable"}
            return json.dumps({"claims": [content, content | {"sentence": 7}]})
        return "no list" if "moon" in content else write_claims(body)

    judge.writer = write
    evaluated(tmp_path, rows_of())
    assert verdicts_in(tmp_path)["half"][:2] == (None, "parse_error")
    invented = "invented_claims: the judge found 2, of words that the output lacks"
    assert verdicts_in(tmp_path)["made_up"][:2] == (None, invented)
    judge.writer = write_claims
    publish(tmp_path / "outputs.jsonl", tmp_path / "rubric.yaml", judge="m", run_id="later")
    later = rows_in(
        tmp_path,
        "select score from verdicts join outputs using (output_id) where run_id = 'later' and case_id = 'half'",
    )
    assert later == [(0.5,)]


@pytest.mark.parametrize(
    ("columns", "settings", "expected"),
    [
        *matrix(
            [
                ({"context": []}, "", (None, "no_context: nothing to check against")),
                ({"context": ["", " \u200b"]}, "", (None, "no_context: nothing to check against")),
                ({"reference": None}, ", against: reference", (None, "no_reference: nothing to check against")),
                ({"prompt": "The shop is open on Sundays."}, ", against: prompt", (0.5, None)),
                ({"prompt": [{"role": "user", "content": "Returns take 60 days."}]}, ", against: prompt", (0.5, None)),
                ({"context": ["Returns take 60 days."]}, ", precision: sentence", (0.5, None)),
                (
                    {"reference": "Returns take 60 days. A fee is due. Refunds are slow."},
                    ", against: reference, measure: recall",
                    (pytest.approx(1 / 3), None),
                ),
            ]
        ),
        (
            {"reference": "Returns take 60 days. A fee is due. Refunds are slow."},
            ", against: reference, measure: f1",
            (pytest.approx(0.4), None),
        ),
    ],
)
def test_what_is_checked_against_what(judge, tmp_path: Path, columns: dict[str, Any], settings: str, expected: Any):
    evaluated(tmp_path, rows_of({"all": ANSWERS["all"]}, **columns), settings)
    assert verdicts_in(tmp_path)["all"][:2] == expected


CITED = {
    "both": "The shop is open on Sundays [1]. Returns take 60 days [1, 2].",  # 1 is not needed for the second
    "wrong": "The shop is open on Sundays [2]. Returns take 60 days. [2]",
    "beyond": "The shop is open on Sundays [7]. Returns take 60 days.",
    "none": "The shop is open on Sundays.",
    "footnotes": "The shop is open on Sundays.[^1] Returns take 60 days.【2】 The cafe is free.",  # 2 of 3 are cited
    "other": "The shop is open on Sundays (1). Returns take 60 days (2).",
    "greeting": "[1]",
}


@pytest.mark.nightly
def test_citations_are_measured_sentence_by_sentence(judge: LoopbackJudge, tmp_path: Path):
    precise = "\n  - {id: precise, description: Does each citation say so?, weight: 1, method: {type: claims, "
    rubric = RUBRIC.format(settings=", measure: citation_recall") + precise + "measure: citation_precision}}"
    (tmp_path / "rubric.yaml").write_text(rubric, encoding="utf-8")
    publish(write_lines(tmp_path / "outputs.jsonl", rows_of(CITED)), tmp_path / "rubric.yaml", judge="m")
    found = verdicts_in(tmp_path, "groundedness")
    nothing = "not_applicable: no citation, or no sentence"
    assert {case: verdict[:2] for case, verdict in found.items()} == {
        "both": (1.0, None),
        "wrong": (0.5, None),
        "beyond": (0.0, None),
        "none": (0.0, None),
        "footnotes": (pytest.approx(2 / 3), None),
        "other": (0.0, None),
        "greeting": (None, nothing),
    }
    assert found["beyond"][2] == "output: no sentence of 2 cites a passage of the context"
    unread = "; citations are read in brackets, [1], so '(1)' is none"
    assert found["other"][2] == f"output: no sentence of 2 cites a passage of the context{unread}"
    assert judge.request_count == 4 + 1  # one a sentence with its sources, and one more for precision
    found = verdicts_in(tmp_path, "precise")
    # both: of three citations the one of passage 1 for returns says nothing, and the other does without it
    assert found["both"][:2] == (pytest.approx(2 / 3), None)
    assert {case: found[case][:2] for case in ("wrong", "beyond", "none")} == {
        "wrong": (0.5, None),
        "beyond": (0.0, None),
        "none": (None, nothing),
    }


@pytest.mark.nightly
def test_the_claims_of_a_reference_measure_the_retriever(judge: LoopbackJudge, tmp_path: Path):
    context = ["Nothing of the kind.", "Returns take 60 days.", "Filler.", "A fee is due."]
    rows = rows_of(
        {"a": "I don't know."}, context=context, reference="Returns take 60 days. A fee is due. All is well."
    )
    evaluated(tmp_path, rows, ", of: reference")
    assert verdicts_in(tmp_path)["a"][0] == pytest.approx(2 / 3)  # context recall
    asked_count = judge.request_count
    (tmp_path / "precision").mkdir()
    evaluated(tmp_path / "precision", rows, ", of: reference, measure: passages")
    assert verdicts_in(tmp_path / "precision")["a"][0] == pytest.approx((1 / 2 + 2 / 4) / 2)  # ranks 2 and 4
    assert judge.request_count == 2 * asked_count  # another lake
    (tmp_path / "none").mkdir()
    evaluated(tmp_path / "none", rows_of({"a": "x"}), ", of: reference")
    assert verdicts_in(tmp_path / "none")["a"][:2] == (None, "no_reference: nothing to check")


@pytest.mark.nightly
def test_without_a_judge_or_with_recorded_replies_nothing_is_claimed(tmp_path: Path):
    rubric = tmp_path / "rubric.yaml"
    rubric.write_text(RUBRIC.format(settings=""), encoding="utf-8")
    publish(write_lines(tmp_path / "outputs.jsonl", rows_of()), rubric)
    assert {verdict[:2] for verdict in verdicts_in(tmp_path).values()} == {(None, "no_judge: the run had no --judge")}


def write_of_several(body: dict[str, Any]) -> str:
    """As `write_claims`; `harsh` supports nothing, `unsure` can't tell and `broken` writes no list of verdicts."""
    reply, model = write_claims(body), body["model"]
    if body["response_format"]["json_schema"]["name"] == "claims" or model == "m":
        return reply
    if model == "broken":
        return "no list"
    verdict = {"harsh": "not_in_source", "unsure": "cannot_tell"}[model]
    said = [each | {"verdict": verdict, "quote": ""} for each in json.loads(reply)["verdicts"]]
    return json.dumps({"verdicts": said})


def judged_by(folder: Path, judge_file: str, settings: str = "", run_id: str | None = None, **members: str) -> Any:
    """Two of the answers, judged by a file; members: files that it names."""
    for name, text in {"judge": judge_file, **members}.items():
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    answers = {name: ANSWERS[name] for name in ("all", "half")}
    rubric = folder / "rubric.yaml"
    rubric.write_text(RUBRIC.format(settings=settings), encoding="utf-8")
    outputs = write_lines(folder / "outputs.jsonl", rows_of(answers))
    return publish(outputs, rubric, judge=str(folder / "judge.yaml"), run_id=run_id)


@pytest.mark.nightly
def test_members_of_a_panel_vote_on_the_same_claims(judge: LoopbackJudge, tmp_path: Path):
    judge.writer = write_of_several
    panel = "panel: [one.yaml, two.yaml, three.yaml]\n"
    members = {
        "one": "model: m\nreplicates: 2\ntemperature: 1.0\n",
        "two": "model: harsh\n",
        "three": "model: unsure\n",
    }
    judged_by(tmp_path, panel, ", can_abstain: true", "panel", **members)
    # Of supported and not_in_source the lower verdict, as of levels; the third judge abstains.
    assert {case: verdict[0] for case, verdict in verdicts_in(tmp_path).items()} == {"all": 0.0, "half": 0.0}
    votes = rows_in(
        tmp_path,
        "select judge, count(*), count(verdict), count(distinct replicate), any_value(reason) from claim_verdicts "
        "group by judge order by judge",
    )
    assert votes == [("harsh", 4, 4, 1, None), ("m", 8, 8, 2, None), ("unsure", 4, 0, 1, "abstained")]
    opinions = rows_in(
        tmp_path,
        "select judge, list(score order by case_id), any_value(opinions.reason) from opinions "
        "join outputs using (output_id) where replicate = 0 group by judge order by judge",
    )
    assert opinions == [("harsh", [0.0, 0.0], None), ("m", [1.0, 0.5], None), ("unsure", [None, None], "abstained")]
    noise = rows_in(tmp_path, "select n, opinion_count, agreement_rate, flip_rate from judge_noise")
    assert noise == [(2, 6, None, None)]  # scores of claims have no levels that could flip
    asked_count = judge.request_count
    assert asked_count == 2 + 2 * 4  # one text a question, found once and verified by four votes
    again = EvaluationRequest(
        str(tmp_path / "outputs.jsonl"),
        str(tmp_path / "rubric.yaml"),
        judge=str(tmp_path / "judge.yaml"),
        lake=f"sqlite:{tmp_path}/lake/catalog.sqlite",
    )
    plan = preview_run(again)[1]
    assert (plan.request_count, plan.replayed_count) == (0, asked_count)
    weighed = (tmp_path / "rubric.yaml").read_text(encoding="utf-8").replace("1.0.0", "1.1.0")
    (tmp_path / "rubric.yaml").write_text(weighed, encoding="utf-8")
    rescore_run(RescoreRequest("panel", str(tmp_path / "rubric.yaml"), again.lake, run_id="later"))
    kept = "select count(*) from {} group by run_id"
    assert [rows_in(tmp_path, kept.format(table)) for table in ("claims", "claim_verdicts")] == [
        [(4,)] * 2,
        [(16,)] * 2,
    ]


@pytest.mark.nightly
def test_replicates_show_how_much_a_judge_disagrees_with_itself(judge: LoopbackJudge, tmp_path: Path):
    asked: list[str] = []

    def write(body: dict[str, Any]) -> str:
        reply = write_claims(body)
        if "moon" not in body["messages"][-1]["content"] or "verdicts" not in reply:
            return reply
        asked.append(reply)  # the first of three calls says otherwise than the others
        return reply if len(asked) > 1 else reply.replace("not_in_source", "contradicted")

    judge.writer = write
    judged_by(tmp_path, "model: m\nreplicates: 3\ntemperature: 1.0\n")
    assert verdicts_in(tmp_path)["half"][0] == 0.5
    (disputed,) = rows_in(
        tmp_path,
        "select list(verdict order by verdict) from claim_verdicts group by output_id, side, claim_index "
        "having count(distinct verdict) > 1",
    )
    assert disputed == (["not_in_source", "not_in_source", "unverified"],)  # its quote is made up


@pytest.mark.nightly
def test_the_second_judge_of_a_cascade_gets_the_claims_of_which_the_first_is_unsure(judge, tmp_path: Path):
    judge.writer = write_of_several
    cascade = "cascade:\n  first: broken.yaml\n  then: m.yaml\n"
    judged_by(tmp_path, cascade, broken="model: broken\n", m="model: m\n")
    assert verdicts_in(tmp_path)["half"][0] == 0.5  # by the second judge
    votes = rows_in(
        tmp_path, "select judge, count(verdict), any_value(reason) from claim_verdicts group by all order by 1"
    )
    assert votes == [("broken", 0, "parse_error"), ("m", 4, None)]
    (sure := tmp_path / "sure").mkdir()
    judged_by(sure, cascade.replace("broken", "harsh"), harsh="model: harsh\n", m="model: m\n")
    assert rows_in(sure, "select distinct judge, verdict from claim_verdicts") == [("harsh", "not_in_source")]
    paths = (str(sure / name) for name in ("outputs.jsonl", "rubric.yaml"))
    lake = f"sqlite:{sure}/lake/catalog.sqlite"
    (planned,) = preview_run(EvaluationRequest(*paths, judge=str(sure / "judge.yaml"), lake=lake))[1].criteria
    assert (planned.request_count, planned.at_most_count) == (0, 0)  # the first judge is known to be sure
