"""The command that resumes a run, stored in the run's folder."""

import json
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gradebook.tasks.runs.request import EvaluationRequest, Option, Use, options_of
from gradebook.tasks.system.files import write_text
from gradebook.tasks.workspace.folder import RunFolder


def keep_words(folder: RunFolder, request: EvaluationRequest) -> None:
    """Store the command that resumes a run, so that somebody else can type it."""
    kept = {"words": _words(folder, request), "folder": str(Path.cwd()), "trigger": request.trigger}
    write_text(folder.request_file, json.dumps(kept))


def option_words(request: EvaluationRequest, options: Iterable[Option]) -> list[str]:
    """The words of a command that give these options what the request says."""
    return [word for option in options for word in option.words(getattr(request, option.name))]


def _words(folder: RunFolder, request: EvaluationRequest) -> list[str]:
    """The command, without its lake; empty where no `gradebook evaluate` asks for the same."""
    if request.again:
        return [*request.again]
    if request.dataset is not None or request.checkpoint is not None:
        return []
    return ["gradebook", "evaluate", *option_words(request, options_of(Use.RESUME)), "--run-id", folder.run_id]


def going_on(folder: RunFolder, lake_words: tuple[str, ...]) -> str:
    """The command that resumes a run. lake_words: the options that name its lake."""
    kept = read_kept(folder.request_file)
    if words := kept.get("words"):
        return f"cd {shlex.quote(kept['folder'])} && {shlex.join([*words, *lake_words])}"
    # of a nightly run or a checkpoint, or killed before it was written
    began = f" ({kept['trigger']})" if kept.get("trigger") else ""
    return f"the command or flow run that began it{began}, once more"


def read_kept(path: Path) -> dict[str, Any]:
    """What a file of a run's folder keeps; nothing where it is not there or was torn."""
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return kept if isinstance(kept, dict) else {}
