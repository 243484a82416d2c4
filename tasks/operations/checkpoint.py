"""One checkpoint evaluated and decided about: outputs collected where they are missing, run, gate, stored decision."""

from dataclasses import dataclass, replace
from pathlib import Path

from gradebook.rubrics.model.collecting import refuse_incomplete
from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.statistics.series import read_series
from gradebook.tasks.collecting.collect import CollectRequest, collect_outputs
from gradebook.tasks.comparing.baseline import LATEST
from gradebook.tasks.comparing.gate import gate_rule
from gradebook.tasks.comparing.run_comparison import RunComparison
from gradebook.tasks.datasets.discovery import dataset_files, digest_files
from gradebook.tasks.datasets.one_checkpoint import OneCheckpoint
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.operations.checkpoint_decisions import CheckpointKey, find_decided, key_of, name_checkpoint
from gradebook.tasks.operations.checkpoint_gate import CheckpointDecision, Decider
from gradebook.tasks.published.run_tables import comparison_table, sides_words
from gradebook.tasks.reporting.export.markdown import escaped, table_text
from gradebook.tasks.rubric_store.versions import find_rubric, refuse_changed_rubric
from gradebook.tasks.runs.request import EvaluationRequest, SeriesOfNights
from gradebook.tasks.stages.check_request import check_request
from gradebook.tasks.stages.pipeline import publish_evaluation
from gradebook.tasks.stages.submit import Event, Stages
from gradebook.tasks.system.number_format import score_words
from gradebook.tasks.workspace.folder import RunFolder

MOST_ROWS = 100


def checkpoint_text(decision: CheckpointDecision) -> str:
    """Decision, reasons, and comparisons with the last run and the best checkpoint, in Markdown."""
    row = decision.row
    title = f"{row['model']} @ {row['checkpoint']}: {row['status'].replace('_', ' ')}"
    words = f"By {row['rubric_id']} {row['rubric_version']}, run {row['run_id']}; mean {score_words(row['mean'])}."
    again = "" if decision.is_new else "This is an earlier decision; nothing was evaluated again.\n\n"
    reasons = "".join(f"- {escaped(reason)}\n" for reason in row["reasons"])
    parts = [f"#### {escaped(title)}\n\n{escaped(words)}\n\n{again}{reasons}"]
    parts += [f"{escaped(decision.note)}\n"] if decision.note else []
    parts += _comparison_part("Compared with the last run", decision.latest)
    if decision.best is not decision.latest:
        parts += _comparison_part("Compared with the best approved checkpoint, or the reference", decision.best)
    return "\n".join(parts)


def _comparison_part(title: str, comparison: RunComparison | None) -> list[str]:
    if comparison is None:
        return []
    banner = "" if comparison.banner is None else f"> {escaped(comparison.banner)}\n\n"
    table = table_text(comparison_table(comparison, MOST_ROWS))
    return [f"#### {title}\n\n{banner}{escaped(sides_words(comparison))}\n\n{table}\n"]


PASSED, FAILED = "gradebook.gate.passed", "gradebook.gate.failed"


@dataclass(frozen=True, slots=True)
class CheckpointRequest:
    """Request for a decision about one checkpoint.

    evaluation: of its outputs; its baseline and series are set here. checkpoint: name, by default from the outputs,
    otherwise the step. prompts, endpoint: both or neither; the outputs are then collected first. reference: name of an
    approved checkpoint to compare with in place of the best one. series: as method=lord,alpha=0.05,looks=31.
    """

    evaluation: EvaluationRequest
    model: str
    checkpoint: str | None = None
    step: int | None = None
    prompts: str | None = None
    endpoint: str | None = None
    samples: int = 1
    collect_budget_usd: float | None = None
    reference: str | None = None
    series: str | None = None


def decide_checkpoint(asked: CheckpointRequest, stages: Stages) -> CheckpointDecision:
    """Evaluate the outputs of one checkpoint, compare it with the last run and the best checkpoint, and decide.

    A decision is made once for each model, checkpoint, rubric version and content of the outputs; later requests read
    the stored decision. Raises `InputError` for a wrong request, before anything is collected.
    """
    request = replace(asked.evaluation, trigger="checkpoint", baseline=LATEST, series=read_looks(asked.series))
    if asked.prompts is not None or asked.endpoint is not None:
        stages.call(collect_outputs, _collecting(asked, request))
        request = replace(request, column_map={})  # for the prompts only: collected outputs have gradebook's columns
    decision = _decide(asked, request, stages)
    row = decision.row
    sentence = f"{row['model']} @ {row['checkpoint']}: {row['status']}"
    stages.show_text(row["rubric_id"], "checkpoint", checkpoint_text(decision), sentence)
    stages.emit(_event_of(decision))
    return decision


def read_looks(series: str | None) -> SeriesOfNights | None:
    """Series over the checkpoints of a model. Raises `InputError`."""
    if series is None:
        return None
    try:
        return SeriesOfNights(read_series(series), "branch")
    except ValueError:
        raise InputError("series", repr(series), "method=lord|obf|bonferroni,alpha=0.05,looks=31") from None


def _collecting(asked: CheckpointRequest, request: EvaluationRequest) -> CollectRequest:
    """Build the request that collects the file of outputs, and check the evaluation that follows.

    Raises `InputError`, also for faults of the evaluation, so that nothing is collected in vain.
    """
    refuse_incomplete(asked.prompts, asked.endpoint, asked.checkpoint, asked.step)
    check_request(replace(request, outputs=asked.prompts or ""))  # the outputs do not exist yet
    return CollectRequest(
        asked.prompts or "",
        asked.endpoint or "",
        Path(request.outputs),
        model=asked.model,
        checkpoint=asked.checkpoint or str(asked.step),
        samples=asked.samples,
        budget_usd=asked.collect_budget_usd,
        column_map=request.column_map,
    )


def _decide(asked: CheckpointRequest, request: EvaluationRequest, stages: Stages) -> CheckpointDecision:
    """Read the stored decision about the checkpoint, or publish a run and decide."""
    lake = find_lake(request.lake, request.data)
    rubric, files = find_rubric(request.rubric, lake), dataset_files(request.outputs)
    refuse_changed_rubric(lake, rubric)
    name = name_checkpoint(files, request.column_map, asked.checkpoint, asked.step)
    key = CheckpointKey(asked.model, name, rubric.id, rubric.version, digest_files(files))
    gate = gate_rule(request.fail_if, request.require)
    decider = Decider(lake, key, asked.step, gate, request.across_judges, asked.reference)
    if row := find_decided(lake, key):
        return decider.read(row, str(RunFolder.below(lake.root, row["run_id"]).report_file))
    run_id = stages.run_id(f"{asked.model}-{name}")
    summary = publish_evaluation(replace(request, run_id=run_id, checkpoint=OneCheckpoint(asked.model, name)), stages)
    return decider.decide(summary, str(RunFolder.below(lake.root, summary.run_id).report_file))


def _event_of(decision: CheckpointDecision) -> Event:
    """The gate's event, whose key depends on the decision alone.

    A stored decision is emitted again: the process that decided may have been killed before it emitted the event.
    """
    row, key = decision.row, key_of(decision.row)
    return Event(
        PASSED if decision.is_approved else FAILED,
        {"prefect.resource.id": f"training.{row['model']}", "prefect.resource.name": row["model"]},
        decision.as_json(),
        "\n".join(("gradebook gate", *key.values)),
        {"run": f"gradebook.run.{row['run_id']}"},
    )
