"""Panels, cascades and replicates as they are written, and what opinions they want of an output."""

import os
from pathlib import Path

import pytest

from gradebook.rubrics.model.errors import JudgeSettingsError
from gradebook.tasks.judging.settings.files import read_judge
from gradebook.tasks.judging.settings.judge import (
    ONLY,
    CascadeSettings,
    JudgeSettings,
    Opinion,
    PanelSettings,
    ReplaySettings,
    When,
)

CHEAP, DEAR = JudgeSettings(model="cheap"), JudgeSettings(model="dear")
IDS = [f"{number:032x}" for number in range(2_000)]


def judge_of(**settings: object) -> JudgeSettings:
    return JudgeSettings.model_validate({"model": "m"} | settings)


def drawn_of(judge: JudgeSettings, opinion: Opinion) -> list[int]:
    """The outputs that get an opinion, by their number."""
    return list(judge.drawn_rows(opinion, IDS, range(len(IDS))))


def read(folder: Path, text: str, **files: str):
    for name, content in files.items():
        (folder / f"{name}.yaml").write_text(content, encoding="utf-8")
    (folder / "judge.yaml").write_text(text, encoding="utf-8")
    return read_judge(str(folder / "judge.yaml"), {})


def test_a_panel_names_files_beside_it_models_and_recorded_replies(tmp_path):
    (tmp_path / "x.jsonl").write_text("", encoding="utf-8")
    panel = read(tmp_path, "panel: [cheap.yaml, gpt-4o, replay:x.jsonl]\naggregate: median", cheap="model: cheap")
    assert isinstance(panel, PanelSettings)
    assert (panel.judge, panel.aggregate) == ("panel(cheap, gpt-4o, replay:x.jsonl)", "median")
    assert isinstance(panel.members[2], ReplaySettings)


def test_a_cascade_names_its_judges_and_when_the_second_is_asked(tmp_path):
    text = "cascade: {first: cheap, then: dear.yaml, when: {share_below: 0.8, criteria: [tone], disagreement: true}}"
    cascade = read(tmp_path, text, dear="model: dear")
    assert isinstance(cascade, CascadeSettings)
    assert cascade.judge == "cascade(cheap, dear)"
    assert cascade.when == When(share_below=0.8, criteria=("tone",), disagreement=True, unscored=True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("panel: [cheap]", "judge.yaml: panel: found"),
        ("panel: [a, b]\naggregate: best", "judge.yaml: aggregate: found 'best'"),
        ("panel: [a, a]", "a: found the same judge twice"),
        ("panel: [a, inner.yaml]", "inner.yaml: found a panel or a cascade, expected a single judge"),
        ("panel: [a, slow.yaml]", "slow.yaml: mode: found batch"),
        ("panel: [a, b]\nmodel: c", "model: found an unknown setting, expected panel and aggregate"),
        ("panel: [a, none.yaml]", "judge.yaml: found no file 'none.yaml' beside the panel, expected one"),
        ("panel: [a, 'replay:/dev/zero']", "judge.yaml: found '/dev/zero', expected a path below the panel's folder"),
        ("panel: [a, 'replay:../x.jsonl']", "expected a path below the panel's folder"),
        ("panel: [a, 'replay:fifo']", "found no file 'fifo' beside the panel"),
        ("panel: [a, ../x.yaml]", "expected a path below the panel's folder"),
        ("cascade: {first: link.yaml, then: a}", "found 'link.yaml', which leads out of the panel's folder"),
        ("cascade: {first: a}", "cascade.then: found nothing"),
        ("cascade: {first: a, then: b, when: {share_below: 2}}", "cascade.when.share_below: found 2"),
    ],
)
def test_a_fault_names_the_file_what_was_found_and_what_is_expected(tmp_path, text, said):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link.yaml").symlink_to("/etc/hostname")
    with pytest.raises(JudgeSettingsError) as caught:
        read(tmp_path, text, inner="panel: [a, b]", slow="model: c\nmode: batch")
    assert said in str(caught.value)


def test_members_of_one_model_are_told_apart_by_name():
    panel = PanelSettings((CHEAP, CHEAP.model_copy(update={"temperature": 1.0})))
    assert panel.member_names == ("cheap", "cheap#2")


# -------- which opinions
def test_a_plain_judge_has_one_opinion():
    assert CHEAP.votes() == (ONLY,)
    assert not CHEAP.has_several_votes


def test_replicates_and_a_swap_are_opinions_of_their_own():
    assert judge_of(replicates=2, swap_share=0.1).votes() == (ONLY, Opinion(0, 1), Opinion(0, 0, True))


def test_the_first_judge_of_a_cascade_is_not_asked_of_the_criteria_listed():
    cascade = CascadeSettings(CHEAP, DEAR, When(criteria=("tone",)))
    assert cascade.votes("tone") == (Opinion(1),)
    assert cascade.votes("facts") == (ONLY, Opinion(1))
    votes = [(opinion, cascade.votes(name)) for name in ("tone", "facts") for opinion in (ONLY, Opinion(1))]
    assert [cascade.is_conditional(*vote) for vote in votes] == [False, False, False, True]
    assert not PanelSettings((CHEAP, DEAR)).is_conditional(*votes[-1])


@pytest.mark.parametrize(
    ("settings", "opinion"),
    [({"replicates": 3, "replicate_share": 0.25}, Opinion(0, 2)), ({"swap_share": 0.25}, Opinion(0, 0, True))],
)
def test_a_share_of_the_outputs_is_drawn(settings, opinion):
    assert len(drawn_of(judge_of(**settings), opinion)) == pytest.approx(
        0.25 * len(IDS), abs=80
    )  # 4 standard deviations: sqrt(2,000 x 0.1875) x 4 = 77


def test_all_replicates_of_an_output_are_drawn_or_none():
    judge = judge_of(replicates=3, replicate_share=0.5)
    assert drawn_of(judge, Opinion(0, 1)) == drawn_of(judge, Opinion(0, 2))


def test_the_first_opinion_is_wanted_of_every_output():
    judge = judge_of(replicates=3, replicate_share=0.0001, swap_share=0.5)
    assert len(drawn_of(judge, ONLY)) == len(IDS)


def test_a_swapped_opinion_is_of_another_judge_by_its_digest():
    judge = judge_of(swap_share=1)
    digests = {judge.asked_as(opinion).judge_digest for opinion in judge.votes()}
    assert digests == {judge.judge_digest, judge_of(level_order="best_first").judge_digest}


# -------- what makes another run
def test_replicates_share_the_ledger_with_a_single_opinion_and_make_another_run():
    judge = judge_of(replicates=3)
    assert judge.judge_digest == judge_of().judge_digest
    assert judge.verdict_digest != judge_of().verdict_digest


def test_a_plain_judge_makes_the_run_that_it_always_made():
    assert CHEAP.verdict_digest == CHEAP.judge_digest


@pytest.mark.parametrize(
    "other",
    [
        PanelSettings((CHEAP, DEAR), "all"),
        PanelSettings((DEAR, CHEAP)),
        PanelSettings((CHEAP, DEAR.model_copy(update={"replicates": 2}))),
        CascadeSettings(CHEAP, DEAR),
    ],
)
def test_another_panel_has_another_digest(other):
    assert other.judge_digest != PanelSettings((CHEAP, DEAR)).judge_digest


def test_an_epoch_is_part_of_a_judge_s_identity_only_if_it_is_set():
    assert "epoch" not in judge_of().identity
    assert judge_of(epoch=2).judge_digest not in {judge_of().judge_digest, judge_of(epoch=1).judge_digest}
