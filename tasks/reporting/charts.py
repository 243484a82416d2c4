"""Charts: Vega-Lite specifications from pages/charts, drawn as SVG or PNG without a browser or network; and figures: a
picture of a page with its sentence and its table.

A specification is a YAML file. It names its rows (`data: {name: rows}`); values that depend on them, such as the order
of an axis, are written `$name`. An entry of a list with `shown: $name` is left out if the value is false. Colours are
names of pages/theme.yaml (`@ink`): in a page they follow the reader's light or dark scheme, in a PNG they are light.
"""

import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from typing import Any
from urllib.parse import quote, urlencode
from xml.etree import ElementTree

import vl_convert
from markupsafe import Markup

from gradebook.rubrics.text.tables import Table
from gradebook.tasks.reporting.rendering import page_values, theme

SVG = "http://www.w3.org/2000/svg"
LINK = "{http://www.w3.org/1999/xlink}href"
CASES, RUN = "#cases?", "#run?"  # begin the link of a mark to cases, and to a run
PNG_SCALE = 2.0  # pixels per unit
REMS_A_UNIT = 1.3 / 16  # of a chart in a page: letters of 11 units are a little smaller than the text
SHOWN = "shown"
MOST_LETTERS = 60  # of a name in a chart; inputs may have names as long as an output

_FRAME = {"axis", "legend", "title"}  # parts other than marks that Vega describes

Rows = Mapping[str, Sequence[dict[str, Any]]]


class Colour(str):
    """Name of a colour in pages/theme.yaml; plain strings among the values of a chart are never colours."""

    __slots__ = ()


def draw(chart: str, rows: Rows, **values: Any) -> Markup:
    """Draw a chart as SVG for a page, without ids, roles or sizes of its own: the page sets them.

    chart: name of a file in pages/charts. rows: by the names in the specification. values: for `$name`.
    """
    return Markup(_tidied(draw_svg(_specification(chart, rows, values, "var(--{0})"))))


def cases_link(**filters: str) -> str:
    """Link of a mark to its cases, for a row's `href`. filters: of `gradebook view`; empty ones filter nothing.

    A drawn mark has it as `data-cases`, and its description as `data-name`: only pages of a server lead to cases.
    """
    return CASES + urlencode({name: value for name, value in filters.items() if value})


def run_link(run_id: str) -> str:
    """Link of a mark to a run, for a row's `href`; a drawn mark has it as `data-run`."""
    return RUN + quote(run_id, safe="")


def draw_svg(specification: str | dict[str, Any]) -> str:
    """Draw a specification in this process; the first one takes 0.4 CPU seconds, for Vega's start."""
    return str(vl_convert.vegalite_to_svg(specification, allowed_base_urls=[]))


def draw_png(chart: str, rows: Rows, **values: Any) -> bytes:
    """Draw a chart in light colours as a PNG image."""
    specification = _specification(chart, rows, values, None)
    return bytes(vl_convert.vegalite_to_png(specification, scale=PNG_SCALE, allowed_base_urls=[]))


def shortened(name: str, most: int = MOST_LETTERS) -> str:
    """Name on one line; a long one loses its middle, because similar names differ at their ends."""
    plain: str = _printable(name)
    if len(plain) <= most:
        return plain
    head = most // 2
    return f"{plain[:head]}…{plain[len(plain) - (most - head - 1) :]}"


def distinct_labels(names: Iterable[str], most: int = MOST_LETTERS) -> list[str]:
    """Shortened names, made distinct by numbers: equal labels would share a place on an axis."""
    labels: list[str] = []
    for index, name in enumerate(names, start=1):
        label, number = shortened(name, most), f" ({index})"
        while label in labels:
            label = f"{shortened(label, most - len(number))}{number}"
        labels.append(label)
    return labels


def labels_of(names: Iterable[str], most: int = MOST_LETTERS) -> dict[str, str]:
    """Distinct label of each of these names, see `distinct_labels`."""
    unique = list(dict.fromkeys(names))
    return dict(zip(unique, distinct_labels(unique, most), strict=True))


def _specification(chart: str, rows: Rows, values: Mapping[str, Any], variable: str | None) -> dict[str, Any]:
    """Specification with its values and colours. variable: format of a colour's name; None: use the light value."""
    colours = {name: variable.format(name) if variable else value for name, value in theme()["light"].items()}
    filled = _filled(_read(chart), values, colours)
    filled["config"] = _filled(_read("config"), {}, colours)
    filled["datasets"] = {name: [_printable(row) for row in table] for name, table in rows.items()}
    return dict(filled)


@cache
def _read(chart: str) -> Any:
    return page_values(f"charts/{chart}.yaml")


def _filled(part: Any, values: Mapping[str, Any], colours: Mapping[str, str]) -> Any:
    """Part of a specification with `$name` and `@name` replaced."""
    if isinstance(part, Mapping):
        return {name: _filled(value, values, colours) for name, value in part.items() if name != SHOWN}
    if isinstance(part, list):
        return [_filled(entry, values, colours) for entry in part if _is_shown(entry, values)]
    if isinstance(part, str) and part.startswith("$") and part[1:] in values:
        return _coloured(_printable(values[part[1:]]), colours)
    if isinstance(part, str) and part.startswith("@"):
        return colours[part[1:]]
    return part


def _is_shown(part: Any, values: Mapping[str, Any]) -> bool:
    return not isinstance(part, Mapping) or bool(_filled(part.get(SHOWN, True), values, {}))


def _coloured(value: Any, colours: Mapping[str, str]) -> Any:
    """Value of a chart with its colours replaced; its texts come from inputs and are not interpreted."""
    if isinstance(value, list | tuple):
        return [_coloured(element, colours) for element in value]
    return colours[value] if isinstance(value, Colour) else value


def _printable(value: Any) -> Any:
    """Value with unprintable characters replaced by spaces: Vega fails on some, and ends the process on others."""
    if isinstance(value, str):
        if value.isprintable():
            return value
        return "".join(letter if letter.isprintable() else " " for letter in value)
    if isinstance(value, Mapping):
        return {name: _printable(element) for name, element in value.items()}
    return [_printable(element) for element in value] if isinstance(value, list | tuple) else value


def _tidied(svg: str) -> str:
    """SVG adapted to a page: Vega's description of a mark becomes its tooltip, and ids are unique to the chart.

    The width makes its letters readable; a narrower page may shrink it.
    """
    prefix = f"d{zlib.crc32(svg.encode()):08x}"
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
        if LINK in attributes:  # Vega makes it an address of its own host
            link = attributes.pop(LINK)
            name, start = ("data-run", RUN) if RUN in link else ("data-cases", CASES)
            attributes[name] = link.partition(start)[2]
            attributes["data-name"] = next(filter(None, (part.get("aria-label") for part in element.iter())), "cases")
        if "id" in attributes:
            attributes["id"] = f"{prefix}-{attributes['id']}"
        if "clip-path" in attributes:
            attributes["clip-path"] = attributes["clip-path"].replace("url(#", f"url(#{prefix}-")
    width = float(root.attrib.pop("width"))
    for name in ("version", "height"):
        root.attrib.pop(name, None)
    root.set("style", f"width: {width * REMS_A_UNIT:.2f}rem")
    return ElementTree.tostring(root, encoding="unicode")


ANCHOR_LETTERS = 12
_OUTPUT_ID = re.compile("[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Figure:
    """Picture on a page. id: anchor; sentence: states its main figures; table: the numbers drawn.

    svg: made by `draw`, so it contains no markup from inputs.
    """

    id: str
    title: str
    sentence: str
    svg: Markup
    table: Table

    @property
    def alternative(self) -> str:
        """Text alternative for readers who can't see the picture."""
        return f"{self.title}. {self.sentence}"


def anchor_of(output_id: str) -> str:
    """Anchor of an output: the beginning of its id; not unique among ids that gradebook did not make."""
    is_hash = _OUTPUT_ID.fullmatch(output_id) is not None
    return (output_id if is_hash else blake2b(output_id.encode()).hexdigest())[:ANCHOR_LETTERS]
