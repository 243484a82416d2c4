"""Terminal summary of a published run."""

import pytest

from gradebook.flows.display.summary import show_summary
from gradebook.tasks.lake.rows import Row
from gradebook.tasks.published.summary import RunSummary

RUN = {"run_id": "r", "rubric_id": "reply", "rubric_version": "1.0.0", "dataset": "d", "version": 1, "notes": None}


def mean(model: str, checkpoint: str | None, mean: float) -> Row:
    row = {"criterion_id": "tone", "weight": 0.5, "is_gate": False, "is_required": True, "coverage_rate": 1.0}
    return row | {"model": model, "checkpoint": checkpoint, "mean": mean}


def test_each_model_has_its_own_column_whatever_it_is_called(capsys):
    rows = (mean("weight", None, 0.1), mean("m @ 1", None, 0.2), mean("m", "1", 0.3))
    show_summary(RunSummary(RUN, (), rows, (), (), (), False, ()), report=None)
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.strip().startswith("tone")]
    assert line.split()[1:] == ["0.500", "0.100", "0.200", "0.300"]


@pytest.mark.parametrize(
    ("weight", "is_gate", "shown"), [(0.5, False, "0.500"), (None, True, "gate"), (None, False, "per")]
)
def test_only_a_gate_is_called_one(capsys, weight: float | None, is_gate: bool, shown: str):
    row = mean("m", None, 0.1) | {"weight": weight, "is_gate": is_gate}
    show_summary(RunSummary(RUN, (), (row,), (), (), (), False, ()), report=None)
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.strip().startswith("tone")]
    assert line.split()[1] == shown


def test_the_reasons_of_unscored_verdicts_are_counted(capsys):
    media = "unreadable_media: cat.png: found no such file"
    unscored = (
        {"reason": "parse_error", "verdict_count": 1_200, "example": "parse_error"},
        {"reason": "unreadable_media", "verdict_count": 3, "example": media},
        {
            "reason": "no_judge",
            "verdict_count": 9,
            "example": "no_judge: the run had no --judge",
        },  # said once already
    )
    show_summary(RunSummary(RUN, (), (), (), (), (), False, (), unscored=unscored), report=None)
    shown = capsys.readouterr().out
    assert shown.count("unscored:") == 2
    assert "unscored: 1,200 verdicts, parse_error\n" in shown
    assert "unscored: 3 verdicts, unreadable_media, such as: cat.png: found no such file\n" in shown
