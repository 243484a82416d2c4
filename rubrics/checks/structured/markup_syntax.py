"""Checks that an output is XML or YAML."""

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NoReturn
from xml.parsers import expat

import pyarrow as pa
import yaml
from pydantic import Field

from gradebook.rubrics.check_kit.check import CheckVerdicts, Example, register_check
from gradebook.rubrics.check_kit.evidence import EXCERPT_CHARACTERS, cut_text
from gradebook.rubrics.checks.structured.fences import CannotTell, Misfit, SyntaxSettings, judge_syntax

MOST_XML = 10_000_000
MOST_YAML = 200_000
MOST_YAML_LEVELS = 100
MOST_YAML_TAG_LINES = 20  # each one is compared with all those before it
LONGEST_TYPED_KEY = 100  # a longer key counts as text, whatever it looks like
TAG = "tag:yaml.org,2002:"
KNOWN_TAGS = frozenset(
    {"str", "int", "float", "bool", "null", "map", "seq", "set", "omap", "pairs", "binary", "timestamp"}
)
LOADER: type[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
RESOLVER: Any = yaml.resolver.Resolver()


class XmlSettings(SyntaxSettings):
    """Required root element."""

    root: Annotated[str, Field(min_length=1)] | None = None
    """exact name of the root element"""


@register_check(
    "xml_valid",
    XmlSettings,
    cost="rows",
    examples=(
        Example("```xml\n<ticket><id>7</id></ticket>\n```", True, {"root": "ticket"}),
        Example("<ticket><id>7</ticket>", False),
        Example('<!DOCTYPE t [<!ENTITY e "x">]><t>&e;</t>', False),
    ),
)
def xml_valid(shard: pa.Table, settings: XmlSettings) -> CheckVerdicts:
    """The whole output is one well-formed XML document, bare or in a code fence; whitespace may surround it.

    A DOCTYPE is refused, and so is every entity except XML's own five. Nothing is fetched. A declared encoding is
    ignored. Namespace prefixes need no declaration. The evidence gives the place and the reason.
    """
    return judge_syntax(shard, settings, "XML", MOST_XML, lambda text: _read_xml(text, settings.root))


def _read_xml(text: str, root: str | None) -> None:
    body = text.lstrip()  # an XML declaration has to come first
    skipped = text[: len(text) - len(body)]
    lines_before, indent = skipped.count("\n"), len(skipped) - (skipped.rfind("\n") + 1)
    parser = expat.ParserCreate("utf-8")

    def refuse_doctype(*_: Any) -> NoReturn:
        raise Misfit("found a DOCTYPE, expected none", parser.CurrentLineNumber + lines_before)

    def take_root(name: str, _: Any) -> None:
        parser.StartElementHandler = None
        if root is not None and name != root:
            shown = cut_text(name, EXCERPT_CHARACTERS)
            raise Misfit(f"found the root <{shown}>, expected <{root}>", parser.CurrentLineNumber + lines_before)

    parser.StartDoctypeDeclHandler, parser.StartElementHandler = refuse_doctype, take_root
    try:
        parser.Parse(body.encode(), True)
    except expat.ExpatError as error:
        column = error.offset + 1 + (indent if error.lineno == 1 else 0)
        raise Misfit(expat.ErrorString(error.code), error.lineno + lines_before, column) from None


class YamlSettings(SyntaxSettings):
    """Required kind of YAML."""

    kind: Literal["mapping", "list", "any"] = "mapping"
    """type of the top-level value; `any` accepts a bare value too, and so nearly every sentence"""
    has_unique_keys: bool = True
    """refuse a mapping with a repeated key"""


@register_check(
    "yaml_valid",
    YamlSettings,
    cost="heavy",
    examples=(
        Example("ticket: 7\ntags: [new, paid]\n", True),
        Example("ticket: 7\nticket: 8\n", False),
        Example("Your ticket is on its way.", False),
    ),
)
def yaml_valid(shard: pa.Table, settings: YamlSettings) -> CheckVerdicts:
    """The whole output is one YAML document, bare or in a code fence, with a mapping at its top.

    Refused are a second document, an alias without its anchor, and tags other than YAML's own. Aliases are not
    expanded, so an alias bomb is harmless. The form of a value is not checked: 2025-99-99 passes. Keys that are lists
    or mappings may repeat. More than 200,000 characters or 100 levels of nesting stay unscored. The evidence gives the
    place and the reason.
    """
    return judge_syntax(shard, settings, "YAML", MOST_YAML, lambda text: _read_yaml(text, settings))


@dataclass(slots=True)
class _Level:
    """Open list or mapping. keys: keys of the mapping so far; None for a list."""

    keys: set[tuple[str, str]] | None
    is_key_next: bool = True


@dataclass(slots=True)
class _YamlReading:
    settings: YamlSettings
    levels: list[_Level] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)
    document_count: int = 0


def _read_yaml(text: str, settings: YamlSettings) -> None:
    if text.count("%TAG") > MOST_YAML_TAG_LINES:
        raise CannotTell(f"found more than {MOST_YAML_TAG_LINES} %TAG lines, expected fewer")
    reading = _YamlReading(settings)
    try:
        for event in yaml.parse(text, Loader=LOADER):
            _take(event, reading)
    except yaml.MarkedYAMLError as error:
        reason = ", ".join(part for part in (error.context, error.problem) if part)
        raise _misfit(error.problem_mark or error.context_mark, reason) from None
    except yaml.reader.ReaderError as error:
        raise Misfit(f"found the character {chr(error.character)!r}, expected printable text") from None
    if not reading.document_count:
        raise Misfit("found no value, expected YAML")


def _take(event: yaml.Event, reading: _YamlReading) -> None:
    if isinstance(event, yaml.DocumentStartEvent):
        reading.document_count += 1
        if reading.document_count > 1:
            raise _misfit(event.start_mark, "found a second document, expected one")
    elif isinstance(event, yaml.CollectionEndEvent):
        reading.levels.pop()
    elif isinstance(event, yaml.NodeEvent):
        _take_node(event, reading)


def _take_node(event: yaml.NodeEvent, reading: _YamlReading) -> None:
    if isinstance(event, yaml.AliasEvent):
        if event.anchor not in reading.anchors:
            raise _misfit(event.start_mark, f"found the alias *{event.anchor}, expected its anchor before it")
    else:
        _refuse_tag(event)
        if event.anchor:
            reading.anchors.add(event.anchor)
    if reading.levels:
        _take_place(event, reading.levels[-1], reading.settings)
    else:
        _refuse_top(event, reading.settings.kind)
    if isinstance(event, yaml.CollectionStartEvent):
        reading.levels.append(_Level(set() if isinstance(event, yaml.MappingStartEvent) else None))
        if len(reading.levels) > MOST_YAML_LEVELS:
            raise CannotTell(f"nested too deeply to parse, at most {MOST_YAML_LEVELS} levels are read")


def _take_place(event: yaml.NodeEvent, around: _Level, settings: YamlSettings) -> None:
    """Check a node inside a collection. Keys and values alternate in a mapping."""
    if around.keys is None:
        return
    if around.is_key_next and isinstance(event, yaml.ScalarEvent) and settings.has_unique_keys:
        key = (_type_of(event), event.value)
        if key in around.keys:
            shown = cut_text(event.value, EXCERPT_CHARACTERS)
            raise _misfit(event.start_mark, f"found the key '{shown}' again, expected each key once")
        around.keys.add(key)
    around.is_key_next = not around.is_key_next


def _type_of(event: yaml.ScalarEvent) -> str:
    """Type tag of a key, which distinguishes 1 from "1"."""
    if event.tag is not None or not event.implicit[0] or len(event.value) > LONGEST_TYPED_KEY:
        return event.tag or TAG + "str"
    return str(RESOLVER.resolve(yaml.ScalarNode, event.value, (True, False)))


def _refuse_tag(event: Any) -> None:
    tag = event.tag
    if tag and tag != "!" and not (tag.startswith(TAG) and tag.removeprefix(TAG) in KNOWN_TAGS):
        raise _misfit(
            event.start_mark, f"found the tag {cut_text(tag, EXCERPT_CHARACTERS)}, expected one of YAML's own"
        )


def _refuse_top(event: yaml.NodeEvent, kind: str) -> None:
    kinds: dict[str, tuple[type[yaml.Event], str]] = {
        "mapping": (yaml.MappingStartEvent, "a mapping"),
        "list": (yaml.SequenceStartEvent, "a list"),
    }
    if kind in kinds and not isinstance(event, kinds[kind][0]):
        found = next((name for of_kind, name in kinds.values() if isinstance(event, of_kind)), "a single value")
        raise _misfit(event.start_mark, f"found {found} at the top, expected {kinds[kind][1]}")


def _misfit(mark: Any, reason: str) -> Misfit:
    return Misfit(reason) if mark is None else Misfit(reason, mark.line + 1, mark.column + 1)
