"""The command that resumes a run, stored in the run's folder."""

import json
import re
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gradebook.tasks.runs.request import EvaluationRequest, Option, Use, options_of
from gradebook.tasks.system.files import write_text
from gradebook.tasks.workspace.folder import RunFolder

_BUDGET = re.compile(r"--budget-usd(?: (\d\S*))?")  # of a fault, with the sum that would suffice, if known
_GIVEN_BUDGET = re.compile(r"(?<= --budget-usd )\S+")


def store_command(folder: RunFolder, request: EvaluationRequest) -> None:
    """Store the command that resumes a run, so that other commands can show it."""
    stored = {"words": _command_words(folder, request), "folder": str(Path.cwd()), "trigger": request.trigger}
    write_text(folder.request_file, json.dumps(stored))


def option_words(request: EvaluationRequest, options: Iterable[Option]) -> list[str]:
    """Command-line words that set these options to the request's values."""
    return [word for option in options for word in option.words(getattr(request, option.name))]


def _command_words(folder: RunFolder, request: EvaluationRequest) -> list[str]:
    """Words of the command, without its lake; empty if no `gradebook evaluate` makes the same request."""
    if request.again:
        return [*request.again]
    if request.dataset is not None or request.checkpoint is not None:
        return []
    return ["gradebook", "evaluate", *option_words(request, options_of(Use.RESUME)), "--run-id", folder.run_id]


def command_to_resume(folder: RunFolder, lake_words: tuple[str, ...]) -> str:
    """Command that resumes a run. lake_words: options that name its lake."""
    stored = read_json_or_empty(folder.request_file)
    if words := stored.get("words"):
        return f"cd {shlex.quote(stored['folder'])} && {shlex.join([*words, *lake_words])}"
    # A nightly run or a checkpoint's, or a run that was killed before it stored the command.
    began = f" ({stored['trigger']})" if stored.get("trigger") else ""
    return f"the same command or flow run again{began}"


def in_suites_file(fault: str) -> str:
    """Fault of a suite that names the key of its file instead of the option `--budget-usd`."""
    return _BUDGET.sub(lambda match: f"`budget_usd{f': {match[1]}' if match[1] else ''}` in the suites file", fault)


def with_larger_budget(command: str, reason: str) -> str:
    """Command with the budget that its run stopped for want of, or `USD` if the reason names no sum.

    Unchanged if the run failed for another reason.
    """
    match = _BUDGET.search(reason) if reason.startswith("budget: ") else None
    return _GIVEN_BUDGET.sub(match[1] or "USD", command) if match else command


def read_json_or_empty(path: Path) -> dict[str, Any]:
    """Content of a JSON file of a run's folder; empty if the file is missing or incomplete."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return stored if isinstance(stored, dict) else {}
