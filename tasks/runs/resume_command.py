"""What a run's folder keeps for those who look at it from outside: how much there is to do, and what goes on."""

import json
import shlex
from pathlib import Path
from typing import Any

from gradebook.tasks.runs.request import EvaluationRequest
from gradebook.tasks.system.files import write_text
from gradebook.tasks.workspace.folder import RunFolder

# An option a word of the request; the lake is named by whoever looks for the run.
_OPTIONS = {
    "rubric": "--rubric",
    "judge": "--judge",
    "ratings": "--ratings",
    "budget_usd": "--budget-usd",
    "feedback": "--feedback",
    "record": "--record",
    "baseline": "--baseline",
    "fail_if": "--fail-if",
    "runner": "--runner",
}
_USUAL_BAD_RATE = 0.01


def keep_words(folder: RunFolder, request: EvaluationRequest) -> None:
    """Keep the command that goes on with a run, so that somebody else can type it."""
    kept = {"words": _words(folder, request), "folder": str(Path.cwd()), "trigger": request.trigger}
    write_text(folder.request_file, json.dumps(kept))


def option_words(request: EvaluationRequest, *names: str) -> list[str]:
    """The options of a command that stand for these parts of a request, and for what it allows."""
    words: list[str] = []
    for name in names:
        value = getattr(request, name)
        words += [] if value is None else [_OPTIONS[name], str(value)]
    for package in request.allow_functions:
        words += ["--allow-functions", package]
    return [*words, "--allow-unscored"] if request.allow_unscored else words


def _words(folder: RunFolder, request: EvaluationRequest) -> list[str]:
    """The command, without its lake; nothing where no `gradebook evaluate` asks for the same."""
    if request.again:
        return [*request.again]
    if request.dataset is not None or request.checkpoint is not None:
        return []
    words = ["gradebook", "evaluate", request.outputs, *option_words(request, *_OPTIONS)]
    for column, wanted in request.column_map.items():
        words += ["--map", f"{column}={wanted}"]
    words += [] if request.max_bad_rate == _USUAL_BAD_RATE else ["--max-bad-rate", str(request.max_bad_rate)]
    words += [] if request.deadline is None else ["--deadline", request.deadline.isoformat()]
    return [*words, "--run-id", folder.run_id]


def going_on(folder: RunFolder, lake_words: tuple[str, ...]) -> str:
    """The command that goes on with a run. lake_words: the options that name its lake."""
    kept = read_kept(folder.request_file)
    if words := kept.get("words"):
        return f"cd {shlex.quote(kept['folder'])} && {shlex.join([*words, *lake_words])}"
    # of a night or a checkpoint, or killed before it was written
    began = f" ({kept['trigger']})" if kept.get("trigger") else ""
    return f"the command or flow run that began it{began}, once more"


def read_kept(path: Path) -> dict[str, Any]:
    """What a file of a run's folder keeps; nothing where it is not there or was torn."""
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return kept if isinstance(kept, dict) else {}
