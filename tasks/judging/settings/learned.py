"""Settings of a judge that its endpoint taught by refusing the default ones, stored in the lake."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from gradebook.rubrics.model.errors import LakeError, RefusedSetting
from gradebook.tasks.judging.settings.judge import JudgeSettings, ModelSettings
from gradebook.tasks.judging.settings.panels import (
    CascadeSettings,
    Judge,
    PanelSettings,
    PlainJudge,
    online_members,
)
from gradebook.tasks.system.files import write_text

FILE = "learned_judges.json"
# By the refused parameter: the setting whose default sends it, and the value that does not.
LEARNED: Mapping[str, tuple[str, Any]] = MappingProxyType(
    {"temperature": ("temperature", None), "response_format": ("reply_format", "text")}
)


def refused_setting(settings: ModelSettings, parameter: str | None, reason: str) -> RefusedSetting | None:
    """Fault of a refused parameter that only a default sent; None for others. reason: of the refusal."""
    if parameter is None or parameter not in LEARNED or LEARNED[parameter][0] in settings.model_fields_set:
        return None
    setting, value = LEARNED[parameter]
    return RefusedSetting(settings.base_url, settings.model, setting, _written(value), reason)


def store_learned(root: Path, refused: RefusedSetting) -> None:
    """Store what a refusal taught in a lake's folder, for this run and later ones."""
    base_url, model, setting, *_ = refused.args
    values = {setting: dict(LEARNED.values())[setting]}
    learned = _read(root)
    name = f"{model} at {base_url}"
    write_text(root / FILE, json.dumps(learned | {name: learned.get(name, {}) | values}, indent=1))


def with_learned(judge: Judge, root: Path) -> Judge:
    """Judge with the learned settings of each model, where its file names no others. Raises `LakeError`."""
    learned = _read(root)
    if not learned:
        return judge

    def taught(member: PlainJudge) -> PlainJudge:
        return member.model_copy(update=_own(learned, member)) if isinstance(member, JudgeSettings) else member

    if isinstance(judge, PanelSettings):
        return replace(judge, members=tuple(map(taught, judge.members)))
    if isinstance(judge, CascadeSettings):
        return replace(judge, first=taught(judge.first), then=taught(judge.then))
    return taught(judge)


def learned_notes(judge: Judge | None, root: Path) -> Iterator[str]:
    """One sentence for each model that is asked by learned settings. judge: as of `with_learned`."""
    learned = _read(root)
    for settings in online_members(judge) if learned else ():
        for setting, value in learned.get(_name(settings), {}).items():
            if getattr(settings, setting) == value:
                yield f"{_name(settings)} refused the default, so it is asked with `{setting}: {_written(value)}`"


def _own(learned: dict[str, dict[str, Any]], settings: JudgeSettings) -> dict[str, Any]:
    own = learned.get(_name(settings), {})
    return {name: value for name, value in own.items() if name not in settings.model_fields_set}


def _written(value: Any) -> str:
    """Value as in a judge file."""
    return "null" if value is None else str(value)


def _name(settings: JudgeSettings) -> str:
    return f"{settings.model} at {settings.base_url}"


def _read(root: Path) -> dict[str, dict[str, Any]]:
    """Learned settings by model and address. Raises `LakeError` for a file that is none of ours."""
    file = root / FILE
    if not file.exists():
        return {}
    known = dict(LEARNED.values())
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        is_ours = all(known[name] == value for own in found.values() for name, value in own.items())
    except (ValueError, LookupError, AttributeError):
        is_ours = False
    if not is_ours:
        raise LakeError(
            str(file), "no learned settings of judges", "the file as gradebook wrote it, or none: delete it"
        )
    return dict(found)
