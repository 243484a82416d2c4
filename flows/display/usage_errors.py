"""Usage errors of the command line, in the words of every other error: place, found, expected, hint."""

from typing import Any

from gradebook.rubrics.model.errors import InputError

# Words of other evaluation tools, and likely slips, by the command or group they stand in: what they are here.
_COMMANDS = {
    "": {
        "init": "rubric new",
        "list": "runs",
        "ls": "runs",
        "query": "sql",
        "run": "evaluate",
        "score": "evaluate, or review for one text",
        "show": "report for a run, why for a case, rubric show for a rubric",
        "test": "evaluate",
        "ui": "view",
    },
    "train": {kind: f"rewards --{kind}" for kind in ("pairs", "sft", "curriculum")},
}
_OPTIONS = {
    "evaluate": {
        "--api-key": "the variable OPENAI_API_KEY",
        "--config": "--rubric",
        "--dataset": "the outputs' file as an argument",
        "--limit": "--sample",
        "--metric": "--rubric",
        "--model": "--judge for the model that judges; the column `model` names the one that answered",
        "--output": "a run in the lake, which `gradebook report --out FILE` and `gradebook sql` write out",
        "--provider": "--judge",
        "--scorer": "--rubric",
        "--threshold": "`pass_threshold` in the rubric",
    },
    "suite power": dict.fromkeys(("--diff", "--difference", "--delta", "--mde"), "--effect"),
    "collect": {"--judge": "--endpoint for the model that answers", "--output": "--out"},
    "report": {"--output": "--out", "--html": "--format html", "--baseline": "--against"},
    "suite sweep": {"--step": "--pattern with {step} in it"},
    "lake mcp": dict.fromkeys(("--host", "--port"), "none, as it listens on stdin alone"),
}
_SEVERAL = {  # expected in place of several arguments
    "report": "one run, and --against for another",
    **dict.fromkeys(("evaluate", "collect", "suite sweep", "suite notify"), "one path, a glob in quotes"),
}
_MOST_LISTED = 6  # commands of a group


def usage_error(error: Any) -> InputError:
    """Word a usage error of Typer. Its classes are not public, so its attributes tell the kind."""
    path = error.ctx.command_path if error.ctx else "gradebook"
    command = path.removeprefix("gradebook").strip()
    hint = f"`{path} --help` lists what it takes" if error.ctx else ""
    parameter, name = getattr(error, "param", None), getattr(error, "option_name", "")
    if parameter is not None and hasattr(error, "param_type"):
        return InputError(_name(parameter), "none", parameter.help or "a value", hint)
    if parameter is not None and hasattr(error.__cause__, "errors"):  # of pydantic
        fault = error.__cause__.errors()[0]
        expected = fault["msg"].removeprefix("Input should be ").partition(", unable to parse")[0]
        if choices := expected.partition(" is not one of ")[2]:
            expected = f"one of {choices.rstrip('.')}"
        return InputError(_name(parameter), repr(fault["input"]), expected, hint)
    if name and hasattr(error, "possibilities"):
        close = _OPTIONS.get(command, {}).get(name) or _close(name, error)
        return InputError(command or name, f"the unknown option {name}", close or "one that the help lists", hint)
    message = error.message.rstrip(".")
    if message.startswith("No such command"):
        return _unknown_command(message, command, error.ctx, hint)
    subject = name or (_name(parameter) if parameter is not None else command)
    found, expected = _reworded(message, command)
    return InputError(subject, found, expected, hint) if subject else InputError(found, hint=hint)


def _close(name: str, error: Any) -> str:
    """Options of the command that an unknown one may stand for: `--k` for `-k`, or those of Typer."""
    options = {opt for parameter in error.ctx.command.params for opt in parameter.opts} if error.ctx else ()
    return f"-{name}" if f"-{name}" in options else " or ".join(sorted({*(error.possibilities or ())} - {"--help"}))


def _reworded(message: str, command: str) -> tuple[str, str]:
    """Found and expected of a message of Typer; the message itself and nothing where it is another."""
    if message.startswith("Got unexpected extra argument"):
        return f"also {message.partition(' (')[2].rstrip(')')}", _SEVERAL.get(command, "fewer arguments")
    if message.endswith("requires an argument"):
        return "no value", "one after it"
    return message, ""


def _unknown_command(message: str, command: str, context: Any, hint: str) -> InputError:
    _, name, *others = message.split("'")
    close = " or ".join(other for other in others if other.isidentifier() or "-" in other)
    close = _COMMANDS.get(command, {}).get(name, close)
    listed = list(context.command.commands) if context else []
    if not close and 0 < len(listed) <= _MOST_LISTED:
        close = listed[0] if len(listed) == 1 else f"one of {', '.join(listed)}"
    return InputError("COMMAND", repr(name), close or "one that the help lists", hint)


def _name(parameter: Any) -> str:
    """Name of a parameter as in the help: its longest option, or the argument in capitals."""
    is_option = parameter.param_type_name == "option"
    return max(parameter.opts, key=len) if is_option else str(parameter.name).upper()
