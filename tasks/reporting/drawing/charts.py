"""Charts: Vega-Lite specifications from pages/charts, drawn with rows as SVG or PNG; no browser and no network.

A specification is a YAML file. Its rows come by name (`data: {name: rows}`), and a value that depends on them, such as
the order of an axis, as `$name`; what says `shown: $name` in a list is left out where that is false. Colours are names
of pages/theme.yaml (`@ink`): in a page they follow the reader's light or dark scheme, in a PNG they are the light ones.
"""

import zlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any
from xml.etree import ElementTree

import vl_convert
import yaml
from markupsafe import Markup

from gradebook.tasks.lake.rows import Row
from gradebook.tasks.reporting.drawing.templates import page_text, theme

SVG = "http://www.w3.org/2000/svg"
PNG_SCALE = 2.0  # dots a unit
REMS_A_UNIT = 1.3 / 16  # of a chart in a page: its 11 units high letters are a little smaller than the text
SHOWN = "shown"
MOST_LETTERS = 60  # of a name in a chart: one can be as long as an output

_FRAME = {"axis", "legend", "title"}  # what Vega describes besides marks

Rows = Mapping[str, Sequence[Row]]


class Colour(str):
    """A name of pages/theme.yaml among the values of a chart; any other text is what it says."""

    __slots__ = ()


def draw(chart: str, rows: Rows, **values: Any) -> Markup:
    """A chart as SVG for a page, without ids, roles or sizes of its own: the page gives it these.

    chart: a file of pages/charts; rows: by the name that it reads them by; values: what it has as `$name`.
    """
    svg = vl_convert.vegalite_to_svg(_specification(chart, rows, values, "var(--{0})"), allowed_base_urls=[])
    return Markup(_tidied(svg))


def draw_png(chart: str, rows: Rows, **values: Any) -> bytes:
    """A chart as `draw`, in light colours, as a PNG image."""
    specification = _specification(chart, rows, values, None)
    return bytes(vl_convert.vegalite_to_png(specification, scale=PNG_SCALE, allowed_base_urls=[]))


def shortened(name: str, most: int = MOST_LETTERS) -> str:
    """A name of an input in a chart: on one line, its middle left out where it is long: names differ at both ends."""
    plain: str = _printable(name)
    if len(plain) <= most:
        return plain
    head = most // 2
    return f"{plain[:head]}…{plain[len(plain) - (most - head - 1) :]}"


def told_apart(names: Iterable[str], most: int = MOST_LETTERS) -> list[str]:
    """The names as charts have them, no two alike: what stands on an axis once is one place."""
    labels: list[str] = []
    for place, name in enumerate(names, start=1):
        label, number = shortened(name, most), f" ({place})"
        while label in labels:
            label = f"{shortened(label, most - len(number))}{number}"
        labels.append(label)
    return labels


def labels_of(names: Iterable[str], most: int = MOST_LETTERS) -> dict[str, str]:
    """Each of these names as charts have it, see `told_apart`."""
    each = list(dict.fromkeys(names))
    return dict(zip(each, told_apart(each, most), strict=True))


def _specification(chart: str, rows: Rows, values: Mapping[str, Any], variable: str | None) -> dict[str, Any]:
    """The specification with its values and colours. variable: how a colour is named; None: by its light value."""
    colours = {name: variable.format(name) if variable else value for name, value in theme()["light"].items()}
    filled = _filled(_read(chart), values, colours)
    filled["config"] = _filled(_read("config"), {}, colours)
    filled["datasets"] = {name: [_printable(row) for row in found] for name, found in rows.items()}
    return dict(filled)


@cache
def _read(chart: str) -> Any:
    return yaml.safe_load(page_text(f"charts/{chart}.yaml"))


def _filled(part: Any, values: Mapping[str, Any], colours: Mapping[str, str]) -> Any:
    """A part of a specification with what `$name` and `@name` stand for."""
    if isinstance(part, Mapping):
        return {name: _filled(value, values, colours) for name, value in part.items() if name != SHOWN}
    if isinstance(part, list):
        return [_filled(each, values, colours) for each in part if _is_shown(each, values)]
    if isinstance(part, str) and part.startswith("$") and part[1:] in values:
        return _coloured(_printable(values[part[1:]]), colours)
    if isinstance(part, str) and part.startswith("@"):
        return colours[part[1:]]
    return part


def _is_shown(part: Any, values: Mapping[str, Any]) -> bool:
    return not isinstance(part, Mapping) or bool(_filled(part.get(SHOWN, True), values, {}))


def _coloured(value: Any, colours: Mapping[str, str]) -> Any:
    """A value of a chart with its colours by value; its texts come from inputs, and stay what they are."""
    if isinstance(value, list | tuple):
        return [_coloured(each, colours) for each in value]
    return colours[value] if isinstance(value, Colour) else value


def _printable(value: Any) -> Any:
    """A value with a space for each letter that can't be seen: Vega fails on some, and on others ends the process."""
    if isinstance(value, str):
        if value.isprintable():
            return value
        return "".join(letter if letter.isprintable() else " " for letter in value)
    if isinstance(value, Mapping):
        return {name: _printable(each) for name, each in value.items()}
    return [_printable(each) for each in value] if isinstance(value, list | tuple) else value


def _tidied(svg: str) -> str:
    """The SVG as a part of a page: what Vega says of each mark becomes its tip, and ids are this chart's own.

    Its width is the one that its letters are readable at; a page that is narrower may take less.
    """
    own = f"d{zlib.crc32(svg.encode()):08x}"
    ElementTree.register_namespace("", SVG)
    root = ElementTree.fromstring(svg)
    for element in root.iter():
        attributes = element.attrib
        tip = attributes.pop("aria-label", None)
        is_mark = attributes.get("role") == "graphics-symbol"
        if tip is not None and is_mark and attributes.get("aria-roledescription") not in _FRAME:
            attributes["data-tip"] = tip
        for name in ("role", "aria-roledescription", "aria-hidden", "class"):
            attributes.pop(name, None)
        if "id" in attributes:
            attributes["id"] = f"{own}-{attributes['id']}"
        if "clip-path" in attributes:
            attributes["clip-path"] = attributes["clip-path"].replace("url(#", f"url(#{own}-")
    width = float(root.attrib.pop("width"))
    for name in ("version", "height"):
        root.attrib.pop(name, None)
    root.set("style", f"width: {width * REMS_A_UNIT:.2f}rem")
    return ElementTree.tostring(root, encoding="unicode")
