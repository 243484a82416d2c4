"""Deterministic checks, a package a family; importing this package registers them all."""

from types import ModuleType

from gradebook.rubrics.checks import (
    answers,
    audio,
    dialogue,
    grounding,
    ifeval,
    language,
    length,
    manner,
    markdown,
    privacy,
    rubric_lint,
    structured,
    wording,
)
from gradebook.rubrics.checks.registry import CheckVerdicts, check_names, find_check, read_settings

FAMILIES: dict[str, tuple[ModuleType, ...]] = {
    "Length": length.MODULES,
    "Words and patterns": wording.MODULES,
    "Markdown": markdown.MODULES,
    "Structured text": structured.MODULES,
    "Answers": answers.MODULES,
    "Manner": manner.MODULES,
    "Language": language.MODULES,
    "Grounding": grounding.MODULES,
    "Privacy": privacy.MODULES,
    "Dialogue": dialogue.MODULES,
    "Audio": audio.MODULES,
    "IFEval": ifeval.MODULES,
    "Rubrics": (rubric_lint,),
}


def families() -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The title of each family and the names of its checks, in order."""
    return tuple((title, _names_in(modules)) for title, modules in FAMILIES.items())


def _names_in(modules: tuple[ModuleType, ...]) -> tuple[str, ...]:
    places = [module.__name__ for module in modules]
    found = [name for name in check_names() if find_check(name).function.__module__ in places]
    return tuple(sorted(found, key=lambda name: places.index(find_check(name).function.__module__)))


__all__ = ["FAMILIES", "CheckVerdicts", "check_names", "families", "find_check", "read_settings"]
