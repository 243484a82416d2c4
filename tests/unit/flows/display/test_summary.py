"""What a terminal shows of a published run."""

from gradebook.flows.display.summary import show_summary
from gradebook.tasks.lake.rows import Row
from gradebook.tasks.published.summary import RunSummary

RUN = {"run_id": "r", "rubric_id": "reply", "rubric_version": "1.0.0", "dataset": "d", "version": 1, "notes": None}


def mean(model: str, checkpoint: str | None, mean: float) -> Row:
    row = {"criterion_id": "tone", "weight": 0.5, "coverage_rate": 1.0}
    return row | {"model": model, "checkpoint": checkpoint, "mean": mean}


def test_each_model_has_its_own_column_whatever_it_is_called(capsys):
    rows = (mean("weight", None, 0.1), mean("m @ 1", None, 0.2), mean("m", "1", 0.3))
    show_summary(RunSummary(RUN, (), rows, (), (), (), False, ()), report=None)
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.strip().startswith("tone")]
    assert line.split()[1:] == ["0.500", "0.100", "0.200", "0.300"]
