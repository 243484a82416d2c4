"""Table of providers as data, and what it says of models at any address: which of them reason before they reply."""

import re
import tomllib
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from typing import Any

TABLE = "providers.toml"


@cache
def provider_sections() -> Mapping[str, Mapping[str, Any]]:
    """Sections of the table by provider."""
    text = files("gradebook.tasks.judging.settings").joinpath(TABLE).read_text(encoding="utf-8")
    return tomllib.loads(text)


@cache
def reasons_first(model: str) -> bool:
    """Whether a model, by the last part of its name, reasons before it replies, as far as the table knows."""
    name = model.rpartition("/")[2]
    return any(matches(name, section.get("reasons", ())) for section in provider_sections().values())


@cache
def price_list_at(base_url: str) -> str | None:
    """Provider in the list of prices whose models an address of the table serves; None where the list tells itself."""
    for section in provider_sections().values():
        pattern = "[^/]+".join(map(re.escape, re.split(r"\$\{\w+\}", section["base_url"])))
        if "price_list" in section and re.fullmatch(pattern, base_url):
            return str(section["price_list"])
    return None


def matches(model: str, patterns: Iterable[str]) -> bool:
    """Whether a model's name fits one of some patterns, whatever its case."""
    return any(fnmatchcase(model.lower(), pattern) for pattern in patterns)
