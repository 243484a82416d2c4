"""The verdict: every surface begins with it, and no section says otherwise, in runs of every outcome."""

import json
import re
from dataclasses import replace
from html import unescape

import pytest

from gradebook.flows.display.comparison import show_comparison
from gradebook.flows.display.summary import show_summary
from gradebook.tasks.comparing.compare import compare_runs
from gradebook.tasks.comparing.verdict import comparison_verdict
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.published.requirements import Unmet
from gradebook.tasks.published.summary import summarise
from gradebook.tasks.published.verdict import Grounds, run_verdict
from gradebook.tasks.reporting.comment import artifact_texts, run_comment
from gradebook.tasks.reporting.page import picture_parts, run_page
from gradebook.tasks.reporting.report_source import opened_source
from gradebook.tasks.reporting.sections.agreement import report_verdict
from gradebook.tasks.reporting.sections.change import read_change
from gradebook.tasks.reporting.sections.people import read_people
from gradebook.tasks.reporting.sections.trust import Sign, read_trust
from tests.support.nightly import matrix
from tests.support.published_runs import publish
from tests.support.rated_lake import JudgedRun, publish_agreement, publish_runs, ratings_of
from tests.support.reported_runs import publish_run, source_of, yes_criterion
from tests.support.samples import write_lines
from tests.support.scored_lake import make_lake

CRITERIA = [{"id": "kind"}, {"id": "safe", "gate": True}]
# Of 12 cases the model says yes in so many, in the baseline and in the run; the gate asks for yes in each.
COMPARED = {"worse": (12, 2), "better": (2, 12), "same": (6, 7), "gate": (None, 9), "met": (None, 12)}
JUDGED = [1.0, 0.0] * 20
# What people say of the same forty outputs.
RATED = {
    "chance": [1.0, 1.0, 0.0, 0.0] * 10,  # the same level in half of them
    "good": [1.0, 0.0] * 19 + [0.0, 1.0],
    "lenient": [1.0, 0.0] * 10 + [0.0] * 20,  # ten good ones are bad to people
    "unrated": [],
}


class Lakes(dict):
    """Lake of each world, made when a test first asks for it: runs of checks with a baseline, or of a judge."""

    def __init__(self, factory):
        super().__init__()
        self._factory = factory

    def __missing__(self, world):
        if world in RATED:
            self.update(dict.fromkeys(RATED, self._rated()))
        else:
            self[world] = self._compared(world, *COMPARED[world])
        return self[world]

    def _compared(self, world, before, after):
        folder = self._factory.mktemp(world)
        if before is not None:
            publish_run(folder, {"m": before}, CRITERIA[:1], run_id="before")
        criteria, baseline = (CRITERIA, None) if before is None else (CRITERIA[:1], "before")
        publish_run(folder, {"m": after}, criteria, run_id=world, baseline=baseline)
        return find_lake(f"sqlite:{folder}/lake/catalog.sqlite")

    def _rated(self):
        lake = make_lake(self._factory.mktemp("rated"))
        ratings = [row for place, world in enumerate(RATED) for row in ratings_of(RATED[world], "ann", f"w{place}")]
        runs = {world: JudgedRun(JUDGED, prefix=f"w{place}") for place, world in enumerate(RATED)}
        publish_runs(lake, runs, {"ratings": ratings})
        publish_agreement(lake, RATED)
        return lake


@pytest.fixture(scope="module")
def lakes(tmp_path_factory):
    return Lakes(tmp_path_factory)


@pytest.fixture
def summary(lakes, world):
    return summarise(lakes[world], world)


@pytest.fixture
def source(lakes, world, summary):
    with opened_source(lakes[world], summary) as found:
        yield found


EXPECTED = {
    "worse": "Nothing decides whether m may ship: the rubric has no gate and no pass_threshold; "
    "worse than before beyond chance.",
    "better": "Nothing decides whether m may ship: the rubric has no gate and no pass_threshold; "
    "better than before beyond chance.",
    "same": "Nothing decides whether m may ship: the rubric has no gate and no pass_threshold; "
    "11 of 12 outputs are the same, with the same score: "
    "no overall difference from before beyond chance, but 12 cases can only show one of 0.523 or more.",
    "gate": "m may not ship: 3 of 12 outputs fail the gate safe (none may).",
    "met": "m may ship by point estimates: every gate and threshold is met.",
    "chance": "Nothing decides whether m may ship: the rubric has no gate and no pass_threshold; "
    "but the judge is no better than chance on tone, as far as 40 ratings show.",
}
UNDECIDED = "Nothing decides whether m may ship: the rubric has no gate and no pass_threshold."


@pytest.mark.parametrize(
    "world", ["worse", "same", "gate", "chance", *matrix(["better", "met", "good", "lenient", "unrated"])]
)
def test_the_sentence_is_the_one_a_lead_acts_on(world, summary):
    assert summary.verdict.sentence == EXPECTED.get(world, UNDECIDED)


@pytest.mark.parametrize(
    "world", ["worse", *matrix(["gate", "chance", "better", "same", "met", "good", "lenient", "unrated"])]
)
def test_every_surface_begins_with_the_same_three_lines(summary, source, capsys):
    lines = summary.verdict.lines
    assert len(lines) == 3
    show_summary(summary, None)
    assert tuple(capsys.readouterr().out.splitlines()[:3]) == lines
    page = run_page(source)
    assert unescape(re.findall('<p class="verdict[^>]*>(.*?)</p>', page)[0]) == lines[0]
    head = unescape(page[: page.index("<dl")])
    (model,) = summary.verdict.models
    assert lines[1] in head
    assert lines[2] in head
    assert f">{model.outcome.value}</span>" in head
    texts = {key: text for key, _, text in artifact_texts(summary)}
    for text in (run_comment(source), texts["scores"]):
        assert unescape(text).replace("\\", "").startswith(f"**{lines[0]}**\n\n{lines[1]}\n\n{lines[2]}\n")
    drawn = " ".join(row["line"] for row in picture_parts(source)[0]["head"])
    assert drawn.startswith(" ".join(lines))
    told = json.loads(json.dumps(summary.as_json(), default=str))["verdict"]
    assert (told["lines"], told["sentence"]) == (list(lines), summary.verdict.sentence)


def fact(verdict, topic):
    return next((each for each in verdict.facts if each.topic == topic), None)


@pytest.mark.parametrize("world", ["chance", *matrix([*COMPARED, "good", "lenient", "unrated"])])
def test_no_section_says_otherwise_of_the_judge(world, source):
    verdict, people = report_verdict(source), read_people(source)
    trust = {each.topic: each for each in read_trust(source).findings}
    readings = " ".join(each.sentence for each in people.agreement_figures) if people else ""
    readings += f" {people.means_figure.sentence}" if people and people.means_figure else ""
    told = fact(verdict, "judge")
    says = {"head": told.sentence if told else "", "trust": trust["People"].words if told else "", "people": readings}
    has_chance = {name: "no better than chance" in words for name, words in says.items()}
    assert set(has_chance.values()) == {world == "chance"}
    is_lenient = {name: bool(re.search(r"(too|more) lenient", words)) for name, words in says.items()}
    assert set(is_lenient.values()) == {world == "lenient"}
    if told:
        signs = {"chance": Sign.BAD, "good": Sign.FINE, "lenient": Sign.LOOK, "unrated": Sign.LOOK}
        assert trust["People"].sign == signs[world]
        assert ("Nobody rated" in told.sentence) == (world == "unrated")
        assert bool(re.search("beyond chance (and with a bias under 0.05 )?on tone", told.sentence)) == (
            world == "good"
        )


@pytest.mark.parametrize("world", ["worse", *matrix(["better", "same", "gate", "met", *RATED])])
def test_no_section_says_otherwise_of_the_change(world, source):
    verdict, change = report_verdict(source), read_change(source)
    told = fact(verdict, "change")
    assert (told is None) == (source.comparison is None)
    for pair in change.pairs:
        outcome = {"below": "worse", "above": "better", "within": "no"}[told.figures["outcome"]]
        assert {row[1].removesuffix(" (rough)") for row in pair.table.rows} == {outcome}
        assert (pair.worse is not None, pair.better is not None) == (outcome == "worse", outcome == "better")
        (figure, *_) = pair.figures
        assert {row[1] for row in figure.table.rows} == {outcome}
        assert f"| {outcome} |" in run_comment(source)
        assert ("four times in five" in told.sentence) == (outcome == "no")


THRESHOLD = Grounds(
    {"run_id": "r", "judge": None},
    [{"model": "m", "checkpoint": None, "mean": 0.6, "ci_low": 0.4, "ci_high": 0.8}],
    [
        {"criterion_id": name, "is_gate": is_gate, "weight": weight, "n": n, "pass_rate": rate, "mean": None}
        | {"model": model, "checkpoint": None, "is_required": True}
        for name, is_gate, weight, n, rate in (("safe", True, None, 4, 0.5), ("true", False, 1.0, 0, None))
        for model in ("m", "o")
    ],
    "both",
    True,
    True,
    [Unmet(model, "", "2 of 4 outputs fail the gate safe") for model in ("m", "o")],
    (),
    [{"model": "m", "checkpoint": None, "case_ids": ["c1"], "are_failed": True}],
    None,
    pass_threshold=0.7,
)


def test_the_head_says_how_sure_the_mean_is_and_which_criterion_has_no_score():
    scores = [*THRESHOLD.scores, {**THRESHOLD.scores[0], "model": "o", "mean": 0.8, "ci_low": 0.71, "ci_high": 0.9}]
    verdict = run_verdict(replace(THRESHOLD, scores=scores))
    interval, gaps, _decision = verdict.facts  # the sentence has both counts of the gate already
    assert interval.sentence == (
        "The 95% interval of the mean holds 0.7 for m (0.400 to 0.800): more cases would tell on which side it is."
    )
    assert gaps.sentence == ("No output of a model is scored on true, so overall scores are missing or partial.")
    assert verdict.next_steps[0].words == ("gradebook", "why", "r", "c1", "true")
    penalised = [{"model": "m", "checkpoint": None, "output_count": 1, "of_count": 4}]
    (fact_of_penalties,) = [
        each for each in run_verdict(replace(THRESHOLD, penalised=penalised)).facts if each.topic == "penalties"
    ]
    assert fact_of_penalties.sentence == "Outputs without a score, as their criteria only take points: 1 of 4 of m."
    optional = [row | {"is_required": False} for row in THRESHOLD.criteria]  # their scores are whole without it
    assert not any(each.topic == "gaps" for each in run_verdict(replace(THRESHOLD, criteria=optional)).facts)
    assert not any(each.topic == "interval" for each in run_verdict(replace(THRESHOLD, pass_threshold=0.3)).facts)


def test_the_head_says_that_the_judge_may_have_seen_cut_prompts():
    run = THRESHOLD.run | {"judge": "m", "settings": json.dumps({"warnings": ["it counted 2,050 tokens"]})}
    (doubt, _unrated) = (each for each in run_verdict(replace(THRESHOLD, run=run)).facts if each.topic == "judge")
    assert doubt.sentence.startswith("The judge may not have seen whole prompts, by token counts that can't be true")


def test_two_models_of_a_run_without_a_common_case_are_not_compared(tmp_path, capsys):
    rows = [{"case_id": f"{model}{place}", "model": model, "output": "yes"} for model in "mo" for place in range(3)]
    rubric = tmp_path / "rubric.json"
    rubric.write_text(json.dumps({"id": "r", "version": "1.0.0", "criteria": [yes_criterion(id="kind")]}))
    summary = publish(write_lines(tmp_path / "apart.jsonl", rows), rubric, run_id="apart")
    with source_of(tmp_path, summary) as source:
        assert (source.comparison, source.comparison_fault) == (
            None,
            "m and o have no case with a score on both sides",
        )
        assert fact(report_verdict(source), "change") is None
    found = compare_runs(find_lake(f"sqlite:{tmp_path}/lake/catalog.sqlite"), "apart", None)
    verdict = comparison_verdict(found)
    assert verdict.sentence == "o compared with m: no case has a score on both sides."
    assert [step.words for step in verdict.next_steps] == [
        ("gradebook", "compare", "apart", "--model-a", "m", "--model-b", "o", "--unpaired")
    ]
    show_comparison(found)
    assert "–" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("world", "begins"),
    [("worse", "m is worse than m in before beyond chance: -0.833 overall"), ("same", "m compared with m in before:")],
)
def test_a_comparison_begins_with_its_verdict(lakes, world, begins):
    verdict = comparison_verdict(compare_runs(lakes[world], "before", world))
    assert verdict.sentence.startswith(begins)
    assert verdict.is_good is (False if world == "worse" else None)
    assert verdict.next_steps[-1].command(("--lake", "sqlite:x y")) == (
        f"gradebook report {world} --against before --lake 'sqlite:x y'"
    )


def test_what_to_do_next_names_the_cases_the_criterion_and_a_command(lakes):
    first, second = summarise(lakes["gate"], "gate").verdict.next_steps
    assert first.sentence == "read the worst cases, such as the first (c10, c11, c9)"
    assert first.command().startswith("gradebook why gate c10")
    assert second.sentence.startswith("work on kind, which costs most score (mean 0.750): Says yes")
    (*_, rate) = summarise(lakes["unrated"], "unrated").verdict.next_steps
    assert rate.command() == "gradebook people rate unrated --n 50"


def test_cases_of_which_none_failed_are_not_the_worst(lakes):
    first, *_ = summarise(lakes["worse"], "worse").verdict.next_steps
    assert first.sentence == "read the lowest-scoring cases, such as the first (c10, c11, c2)"


def test_a_rule_that_passed_alone_is_not_every_gate(lakes):
    found = replace(summarise(lakes["same"], "same"), has_requirement=True, has_rubric_requirement=False)
    assert found.verdict.sentence.startswith("m may ship: the rule against the baseline is met;")
    alone = replace(found, run=found.run | {"settings": '{"gate": "baseline"}'})
    assert alone.verdict.sentence.startswith("m may ship under --gate baseline: the rule against the baseline is met;")


@pytest.mark.parametrize(
    ("settings", "missing"),
    [("", "neither --fail-if nor --require was given"), (', "fail_if": "p < 1"', "there is no run to compare with")],
)
def test_a_run_without_the_rule_that_alone_counts_says_what_is_missing(lakes, settings, missing):
    found = replace(summarise(lakes["met"], "met"), has_requirement=False)
    found = replace(found, run=found.run | {"settings": f'{{"gate": "baseline"{settings}}}'})
    why = f"--gate baseline counts only the rule against a baseline, and {missing}"
    assert found.verdict.sentence == f"Nothing decides whether m may ship: {why}."
