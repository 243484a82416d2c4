"""Templates, styles and scripts of pages/, with the filters for templates."""

import base64
import hashlib
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
import yaml
from markupsafe import Markup

from gradebook.rubrics.model.counts import counted
from gradebook.tasks.reporting.drawing.marking import visible
from gradebook.tasks.system.number_format import (
    difference_interval_words,
    p_words,
    price_words,
    rate_words,
    score_words,
    signed_words,
    sqrt_words,
)
from gradebook.tasks.system.shell import shell_line


def page_text(file: str) -> str:
    """Text of a file in pages/."""
    return resources.files("gradebook.pages").joinpath(file).read_text(encoding="utf-8")


def page_values(file: str) -> Any:
    """Values of a YAML file in pages/, with libyaml: ten times as fast."""
    return yaml.load(page_text(file), getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - safe loaders


@cache
def theme() -> dict[str, dict[str, str]]:
    """Colours by name, for the light and the dark scheme."""
    colours: dict[str, dict[str, str]] = page_values("theme.yaml")
    return colours


def _shown(value: Any) -> Any:
    """Value as shown by a template, with invisible characters written out: no text can hide or reverse other text."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@cache
def environment() -> jinja2.Environment:
    """Jinja environment of the pages' templates; all values are escaped."""
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
        "shell_line": shell_line,
    }
    return found


def render(template: str, **values: Any) -> str:
    """Render a page from a template."""
    return environment().get_template(template).render(**values)


@cache
def styles() -> str:
    """All files of pages/styles, concatenated."""
    return _joined("styles", "css")


@cache
def script() -> str:
    """All files of pages/scripts, concatenated: the only script of a page."""
    return _joined("scripts", "js")


def digest(text: str) -> str:
    """Hash source of a script for the page's Content-Security-Policy."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _joined(folder: str, ending: str) -> str:
    files = sorted(Path(str(resources.files("gradebook.pages"))).joinpath(folder).glob(f"*.{ending}"))
    return "\n".join(file.read_text(encoding="utf-8") for file in files)
