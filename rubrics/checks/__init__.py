"""Deterministic checks, a package a family; importing this package registers them all."""

from types import ModuleType

from gradebook.rubrics.check_kit.registry import CheckVerdicts, check_names, find_check, read_settings
from gradebook.rubrics.checks import (
    answers,
    audio,
    dialogue,
    grounding,
    ifeval,
    language,
    length,
    markdown,
    privacy,
    structured,
)
from gradebook.rubrics.checks import keywords as wording
from gradebook.rubrics.checks import style as manner
from gradebook.rubrics.lint import rubric_lint

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
