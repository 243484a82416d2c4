"""Settings of a judge that its endpoint taught by refusing the default ones, stored in the lake."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from gradebook.rubrics.model.errors import LakeError, RefusedSetting
from gradebook.tasks.judging.settings.judge import Judge, JudgeSettings, PlainJudge
from gradebook.tasks.judging.settings.model import ModelSettings
from gradebook.tasks.system.files import write_text

FILE = "learned_judges.json"
# By the refused parameter: the setting whose default sends it, and the value that does not.
LEARNED: Mapping[str, tuple[str, Any]] = MappingProxyType(
    {"temperature": ("temperature", None), "response_format": ("reply_format", "text")}
)
# In Anthropic's form the models without structured output have tools.
LEARNED_OF_ANTHROPIC = MappingProxyType({**LEARNED, "response_format": ("reply_format", "tool")})
VALUES: Mapping[str, tuple[Any, ...]] = MappingProxyType({"temperature": (None,), "reply_format": ("text", "tool")})


def refused_setting(settings: ModelSettings, parameter: str | None, reason: str) -> RefusedSetting | None:
    """Fault of a refused parameter that only a default sent; None for others. reason: of the refusal."""
    learned = learned_setting(settings, parameter)
    if learned is None:
        return None
    setting, value = learned
    return RefusedSetting(settings.base_url, settings.model, setting, _written(value), reason)


def learned_setting(settings: ModelSettings, parameter: str | None) -> tuple[str, Any] | None:
    """Setting, and the value that does not send a refused parameter; None unless only a default sent it."""
    if parameter is None or parameter not in LEARNED or LEARNED[parameter][0] in settings.model_fields_set:
        return None
    return (LEARNED_OF_ANTHROPIC if settings.form == "anthropic" else LEARNED)[parameter]


def store_learned(root: Path, refused: RefusedSetting) -> None:
    """Store what a refusal taught in a lake's folder, for this run and later ones."""
    base_url, model, setting, written, *_ = refused.args
    values = {setting: next(value for value in VALUES[setting] if _written(value) == written)}
    learned = _read_learned(root)
    name = f"{model} at {base_url}"
    write_text(root / FILE, json.dumps(learned | {name: learned.get(name, {}) | values}, indent=1))


def with_learned(judge: Judge, root: Path) -> Judge:
    """Judge with the learned settings of each model, where its file names no others. Raises `LakeError`."""
    learned = _read_learned(root)
    if not learned:
        return judge

    def taught(member: PlainJudge) -> PlainJudge:
        model = member.as_model
        return member if model is None else model.model_copy(update=_own(learned, model))

    return judge.with_members([*map(taught, judge.members)])


def learned_notes(judge: Judge | None, root: Path) -> Iterator[str]:
    """One sentence for each model that is asked by learned settings. judge: as of `with_learned`."""
    learned = _read_learned(root)
    for settings in judge.online if learned and judge else ():
        for setting, value in learned.get(_name(settings), {}).items():
            if getattr(settings, setting) == value:
                yield f"{_name(settings)} refused the default, so it is asked with `{setting}: {_written(value)}`"


def _own(learned: dict[str, dict[str, Any]], settings: JudgeSettings) -> dict[str, Any]:
    values = learned.get(_name(settings), {})
    return {name: value for name, value in values.items() if name not in settings.model_fields_set}


def _written(value: Any) -> str:
    """Value as in a judge file."""
    return "null" if value is None else str(value)


def _name(settings: JudgeSettings) -> str:
    return f"{settings.model} at {settings.base_url}"


def _read_learned(root: Path) -> dict[str, dict[str, Any]]:
    """Learned settings by model and address. Raises `LakeError` for a file that is none of ours."""
    file = root / FILE
    if not file.exists():
        return {}
    try:
        stored = json.loads(file.read_text(encoding="utf-8"))
        is_ours = all(value in VALUES[name] for values in stored.values() for name, value in values.items())
    except (ValueError, LookupError, AttributeError):
        is_ours = False
    if not is_ours:
        raise LakeError(
            str(file), "no learned settings of judges", "the file as gradebook wrote it, or none: delete it"
        )
    return dict(stored)
