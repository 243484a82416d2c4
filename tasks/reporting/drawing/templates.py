"""The templates, styles and scripts of pages/, and the words that templates may use."""

import base64
import hashlib
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
import yaml
from markupsafe import Markup

from gradebook.tasks.reporting.drawing.marking import visible
from gradebook.tasks.system.number_format import (
    counted,
    difference_interval_words,
    p_words,
    price_words,
    rate_words,
    score_words,
    signed_words,
    sqrt_words,
)


def page_text(file: str) -> str:
    """The text of a file of pages/."""
    return resources.files("gradebook.pages").joinpath(file).read_text(encoding="utf-8")


@cache
def theme() -> dict[str, dict[str, str]]:
    """The colours by name, of the light scheme and of the dark one."""
    colours: dict[str, dict[str, str]] = yaml.safe_load(page_text("theme.yaml"))
    return colours


def _shown(value: Any) -> Any:
    """What a template shows: no text can hide a part of itself, or turn around what stands behind it."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@cache
def environment() -> jinja2.Environment:
    """Where the pages' templates are; whatever they show is escaped."""
    found = jinja2.Environment(
        loader=jinja2.FileSystemLoader(str(resources.files("gradebook.pages"))),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    words = {"score": score_words, "signed": signed_words, "p": p_words, "sd": sqrt_words}
    found.filters |= words | {"rate": rate_words, "usd": price_words, "count": "{:,}".format}
    found.globals |= {
        "span": difference_interval_words,
        "theme": theme(),
        "styles": styles,
        "script": script,
        "digest": digest,
        "counted": counted,
    }
    return found


def render(template: str, **values: Any) -> str:
    """A page of this template."""
    return environment().get_template(template).render(**values)


@cache
def styles() -> str:
    """All of pages/styles, one after the other."""
    return _joined("styles", "css")


@cache
def script() -> str:
    """All of pages/scripts, one after the other; no page runs any other script."""
    return _joined("scripts", "js")


def digest(text: str) -> str:
    """How a page's policy names the one script that may run."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _joined(folder: str, ending: str) -> str:
    files = sorted(Path(str(resources.files("gradebook.pages"))).joinpath(folder).glob(f"*.{ending}"))
    return "\n".join(file.read_text(encoding="utf-8") for file in files)
