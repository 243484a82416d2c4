"""Checks that an output is XML, YAML, SQL or Python.

The text may be wrapped in one Markdown code fence.
"""

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Annotated, Any, Literal, NamedTuple, NoReturn
from xml.parsers import expat

import pyarrow as pa
import yaml
from pydantic import Field, field_validator

from gradebook.rubrics.check_kit.check import (
    CheckSettings,
    CheckVerdicts,
    Example,
    RowFinding,
    gather_rows,
    register_check,
)
from gradebook.rubrics.check_kit.columns import EXCERPT_CHARACTERS, cut_text, quote_words, text_column
from gradebook.rubrics.check_kit.stack import on_a_full_stack

Fence = Literal["optional", "required", "never"]

OPENING = re.compile(r"(?:[ \t\r]*\n)* {0,3}(`{3,}(?=[^`\n]*(?:\n|\Z))|~{3,})[^\n]*\n?")
CLOSING = re.compile(r"^ {0,3}(`{3,}|~{3,})[ \t\r]*$", re.MULTILINE)


class SyntaxSettings(CheckSettings):
    """Settings shared by the syntax checks."""

    fence: Fence = "optional"
    """whether one Markdown code fence encloses the whole text: `optional`, `required` or `never`"""


class Misfit(Exception):
    """The text does not have the expected syntax.

    line: from 1, within the text that was read; None if the fault has no line.
    """

    def __init__(self, reason: str, line: int | None = None, column: int | None = None) -> None:
        super().__init__(reason, line, column)
        self.reason = reason
        self.line = line
        self.column = column


class CannotTell(Exception):
    """The text cannot be read far enough to decide."""


class _Body(NamedTuple):
    text: str
    lines_before: int


def judge_syntax(
    shard: pa.Table, settings: SyntaxSettings, name: str, most: int, read: Callable[[str], None]
) -> CheckVerdicts:
    """Check the syntax of each output, inside its code fence.

    name: expected format, e.g. "XML". most: number of characters above which an output stays unscored. read: raises
    `Misfit` or `CannotTell`; never called with a blank text.
    """
    texts = text_column(shard, "output").to_pylist()
    return gather_rows(_finding(text, settings.fence, name, most, read) for text in texts)


def _finding(text: str, fence: Fence, name: str, most: int, read: Callable[[str], None]) -> RowFinding:
    lines_before = 0
    try:
        body, lines_before = _unfenced(text, fence)
        if not body or body.isspace():
            raise Misfit(f"empty, expected {name}")
        if len(body) > most:
            raise CannotTell(f"too long to parse: found {len(body):,} characters, at most {most:,} are read")
        read(body)
    except Misfit as misfit:
        return RowFinding(False, _location(misfit, lines_before) + misfit.reason)
    except CannotTell as error:
        return RowFinding(None, reason=str(error))
    return RowFinding(True)


def _location(misfit: Misfit, lines_before: int) -> str:
    if misfit.line is None:
        return ""
    column = "" if misfit.column is None else f" column {misfit.column}"
    return f"line {misfit.line + lines_before}{column}: "


def _unfenced(text: str, fence: Fence) -> _Body:
    """Content of the fence, or the text itself without one. Raises `Misfit` if `fence` is violated."""
    opening = OPENING.match(text)
    if opening is None:
        if fence == "required":
            raise Misfit("found no code fence around the text, expected one")
        return _Body(text, 0)
    if fence == "never":
        raise Misfit("found a code fence, expected none")
    marks = opening[1]
    closings = (mark for mark in CLOSING.finditer(text, opening.end()) if _closes(mark[1], marks))
    closing = next(closings, None)
    if closing is None:
        raise Misfit("found a code fence that is not closed, expected it closed")
    if text[closing.end() :].strip():
        raise Misfit("found text after the code fence, expected nothing there")
    return _Body(text[opening.end() : closing.start()], text.count("\n", 0, opening.end()))


def _closes(marks: str, opening: str) -> bool:
    return marks[0] == opening[0] and len(marks) >= len(opening)


MOST_XML = 10_000_000
MOST_YAML = 200_000
MOST_YAML_LEVELS = 100
MOST_YAML_TAG_LINES = 20  # tag lines: each is compared with all earlier ones
LONGEST_TYPED_KEY = 100  # characters of a key; a longer key counts as text
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
            excerpt = cut_text(name, EXCERPT_CHARACTERS)
            raise Misfit(f"found the root <{excerpt}>, expected <{root}>", parser.CurrentLineNumber + lines_before)

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
class _YamlState:
    settings: YamlSettings
    levels: list[_Level] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)
    document_count: int = 0


def _read_yaml(text: str, settings: YamlSettings) -> None:
    if text.count("%TAG") > MOST_YAML_TAG_LINES:
        raise CannotTell(f"found more than {MOST_YAML_TAG_LINES} %TAG lines, expected fewer")
    state = _YamlState(settings)
    try:
        for event in yaml.parse(text, Loader=LOADER):
            _handle_event(event, state)
    except yaml.MarkedYAMLError as error:
        reason = ", ".join(part for part in (error.context, error.problem) if part)
        raise _misfit(error.problem_mark or error.context_mark, reason) from None
    except yaml.reader.ReaderError as error:
        raise Misfit(f"found the character {chr(error.character)!r}, expected printable text") from None
    if not state.document_count:
        raise Misfit("found no value, expected YAML")


def _handle_event(event: yaml.Event, state: _YamlState) -> None:
    if isinstance(event, yaml.DocumentStartEvent):
        state.document_count += 1
        if state.document_count > 1:
            raise _misfit(event.start_mark, "found a second document, expected one")
    elif isinstance(event, yaml.CollectionEndEvent):
        state.levels.pop()
    elif isinstance(event, yaml.NodeEvent):
        _handle_node(event, state)


def _handle_node(event: yaml.NodeEvent, state: _YamlState) -> None:
    if isinstance(event, yaml.AliasEvent):
        if event.anchor not in state.anchors:
            raise _misfit(event.start_mark, f"found the alias *{event.anchor}, expected its anchor before it")
    else:
        _refuse_tag(event)
        if event.anchor:
            state.anchors.add(event.anchor)
    if state.levels:
        _check_entry(event, state.levels[-1], state.settings)
    else:
        _refuse_top(event, state.settings.kind)
    if isinstance(event, yaml.CollectionStartEvent):
        state.levels.append(_Level(set() if isinstance(event, yaml.MappingStartEvent) else None))
        if len(state.levels) > MOST_YAML_LEVELS:
            raise CannotTell(f"nested too deeply to parse, at most {MOST_YAML_LEVELS} levels are read")


def _check_entry(event: yaml.NodeEvent, parent: _Level, settings: YamlSettings) -> None:
    """Check a node inside a collection. Keys and values alternate in a mapping."""
    if parent.keys is None:
        return
    if parent.is_key_next and isinstance(event, yaml.ScalarEvent) and settings.has_unique_keys:
        key = (_type_of(event), event.value)
        if key in parent.keys:
            excerpt = cut_text(event.value, EXCERPT_CHARACTERS)
            raise _misfit(event.start_mark, f"found the key '{excerpt}' again, expected each key once")
        parent.keys.add(key)
    parent.is_key_next = not parent.is_key_next


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
        top_kind = next((name for of_kind, name in kinds.values() if isinstance(event, of_kind)), "a single value")
        raise _misfit(event.start_mark, f"found {top_kind} at the top, expected {kinds[kind][1]}")


def _misfit(mark: Any, reason: str) -> Misfit:
    return Misfit(reason) if mark is None else Misfit(reason, mark.line + 1, mark.column + 1)


MOST_SQL = 10_000
Kind = Literal["select", "insert", "update", "delete", "merge", "create", "alter", "drop", "truncate", "other"]
KIND_OF_CLASS: dict[str, Kind] = {
    "Insert": "insert",
    "Update": "update",
    "Delete": "delete",
    "Merge": "merge",
    "Create": "create",
    "Alter": "alter",
    "Drop": "drop",
    "TruncateTable": "truncate",
    "Values": "select",
    "Query": "select",
}
NO_STATEMENTS = ("Condition", "Alias", "Aliases", "Tuple", "Paren", "Identifier", "Star", "Ordered")
TOKEN_PLACE = re.compile(r" from ([0-9]+):([0-9]+)")
TOKEN_TEXT = re.compile(r"<Token token_type: TokenType\.(\w+),.*", re.DOTALL)  # a token in sqlglot's messages
CLASS_NAME = re.compile(r"<class '(?:\w+\.)*(\w+)'>")  # of a part of a statement, in sqlglot's messages


class SqlSettings(SyntaxSettings):
    """Dialect, and limits on the statements."""

    dialect: str | None = None
    """SQL dialect: `duckdb`, `postgres`, `mysql`, `sqlite`, `bigquery`, `snowflake`, `spark`, `tsql`, ...; none: the
    common parts of most of them, and more"""
    statements: Annotated[int, Field(ge=1, strict=True)] | None = None
    """maximum number of statements"""
    kinds: Annotated[tuple[Kind, ...], Field(min_length=1)] | None = None
    """allowed kinds of statement: `select`, `insert`, `update`, `delete`, `merge`, `create`, `alter`, `drop`,
    `truncate`, `other`; default: all"""

    @field_validator("dialect")
    @classmethod
    def _dialect_is_known(cls, dialect: str | None) -> str | None:
        from sqlglot.dialects.dialect import Dialects  # here: slow to import

        known_dialects = sorted(member.value for member in Dialects if member.value)
        if dialect is not None and dialect not in known_dialects:
            raise ValueError(f"found {dialect!r}, expected one of {', '.join(known_dialects)}")
        return dialect


@register_check(
    "sql_valid",
    SqlSettings,
    cost="heavy",
    examples=(
        Example("```sql\nselect name from users where id = 7;\n```", True, {"kinds": ["select"], "statements": 1}),
        Example("select name frm users wher id = 7", False),
        Example("with gone as (delete from users returning *) select * from gone", False, {"kinds": ["select"]}),
        Example("call refresh_users()", None),
    ),
)
def sql_valid(shard: pa.Table, settings: SqlSettings) -> CheckVerdicts:
    """The whole output parses as SQL, bare or in a code fence: one or more statements, of the kinds allowed.

    Parsed by sqlglot, which is lenient: it accepts some statements that a database refuses. Tables and columns are not
    looked up. A bare expression is not a statement. A query is a `select`, whatever its first word; a statement that
    writes within a `with`, and `select ... into`, also count as the kind of what they write. A statement that sqlglot
    does not parse (`call`, `explain`, ...) is unscored, or fails if `kinds` are given without `other`. More than 10,000
    characters or too deep a nesting stay unscored.
    """
    return judge_syntax(shard, settings, "SQL", MOST_SQL, lambda text: _read_sql(text, settings))


class _Unparsed(Exception):
    """Statement that sqlglot stores as text."""


def _read_sql(text: str, settings: SqlSettings) -> None:
    statements = _parse_sql(text, settings)
    if not statements:
        raise Misfit("found no statement, expected SQL")
    if settings.statements is not None and len(statements) > settings.statements:
        raise Misfit(f"found {len(statements)} statements, expected at most {settings.statements}")
    for statement in statements:
        kind = _kind_of(statement)
        if kind is None:
            excerpt = cut_text(statement.sql(), EXCERPT_CHARACTERS)
            raise Misfit(f"found the expression '{excerpt}', expected a statement")
        for used_kind in (kind, *_kinds_within(statement)):
            if settings.kinds is not None and used_kind not in settings.kinds:
                raise Misfit(f"found the kind '{used_kind}', expected {quote_words(settings.kinds)}")


def _parse_sql(text: str, settings: SqlSettings) -> list[Any]:
    from sqlglot.errors import ParseError, SqlglotError, TokenError

    try:
        return on_a_full_stack(partial(_statements, text, settings.dialect))
    except _Unparsed as unread:
        if settings.kinds is not None and "other" not in settings.kinds:
            raise Misfit(f"found a statement with {unread}, expected {quote_words(settings.kinds)}") from None
        raise CannotTell(f"found a statement that can't be read: {unread}") from None
    except ParseError as error:
        first: dict[str, Any] = error.errors[0] if error.errors else {"description": str(error)}
        reason = CLASS_NAME.sub(r"\1", TOKEN_TEXT.sub(r"\1", str(first["description"])))
        raise Misfit(reason, first.get("line"), first.get("col")) from None
    except TokenError as error:
        raise _token_misfit(error) from None
    except RecursionError:
        raise CannotTell("nested too deeply to parse") from None
    except (SqlglotError, ValueError, TypeError, AttributeError, LookupError) as error:
        raise CannotTell(f"the parser gave up: {type(error).__name__}: {error}") from None


def _token_misfit(error: Exception) -> Misfit:
    reason = str(error.__cause__ or error)
    position = TOKEN_PLACE.search(reason)
    return (
        Misfit(reason) if position is None else Misfit(reason[: position.start()], int(position[1]), int(position[2]))
    )


def _statements(text: str, dialect: str | None) -> list[Any]:
    language, parser_class = _quiet_parser(dialect)
    tokens = language.tokenize(text)
    return [parsed for parsed in parser_class(dialect=language).parse(tokens, text) if parsed is not None]


@lru_cache
def _quiet_parser(dialect: str | None) -> tuple[Any, Any]:
    """Dialect and parser without log messages about statements stored as text."""
    from sqlglot.dialects.dialect import Dialect

    language: Any = Dialect.get_or_raise(dialect)
    language.to_json_path = lambda path: path

    def stop(parser: Any) -> None:
        raise _Unparsed(repr(parser._prev.text.upper()))

    parser_class: Any = type(language.parser_class)
    return language, parser_class("QuietParser", (language.parser_class,), {"_warn_unsupported": stop})


def _kind_of(statement: Any) -> Kind | None:
    """Kind of a statement; None for anything else."""
    from sqlglot import exp

    for name, kind in KIND_OF_CLASS.items():
        if isinstance(statement, getattr(exp, name)):
            return kind
    return None if isinstance(statement, tuple(getattr(exp, name) for name in NO_STATEMENTS)) else "other"


def _kinds_within(statement: Any) -> Iterator[Kind]:
    """Kinds of the writes inside a statement: a `with` that writes, and `select ... into`."""
    from sqlglot import exp

    for part in statement.find_all(exp.CTE, exp.Into):
        if isinstance(part, exp.Into):
            yield "create"
        else:
            yield _kind_of(part.this) or "other"


MOST_PYTHON = 100_000
HEAD_CHARACTERS = 400
FAR_FROM_THE_CUT = 100
STR_ESCAPES = frozenset("\\'\"\n\rabfnrtv01234567xNuU")
BYTES_ESCAPES = STR_ESCAPES - frozenset("NuU")
ESCAPE = re.compile(r"\\(?:[4-7][0-7]{2}|[\s\S])")
# Every quantifier is possessive or followed by something it cannot match, so a text is scanned once.
LITERAL = re.compile(
    r"""
    \#[^\n]*
    | (?P<prefix> (?<![A-Za-z0-9_]) [A-Za-z]{1,2} )?
      (?P<body> \"{3} (?: [^"\\]++ | \\[\s\S] | "(?!"") )*+ (?: \"{3} )?
              | '{3}  (?: [^'\\]++ | \\[\s\S] | '(?!'') )*+ (?: '{3} )?
              | "     (?: [^"\\\n]++ | \\[\s\S] )*+ "?
              | '     (?: [^'\\\n]++ | \\[\s\S] )*+ '? )
    | (?P<number> (?<![A-Za-z0-9_.]) [0-9] [A-Za-z0-9_.]*? (?= (?:and|else|for|if|in|is|not|or)\b ) )
    """,
    re.VERBOSE,
)


@register_check(
    "python_valid",
    SyntaxSettings,
    cost="heavy",
    examples=(
        Example("```python\nprint(1 + 1)\n```", True),
        Example("print(1 + 1", False),
        Example("print(1 + 1)", False, {"fence": "required"}),
    ),
)
def python_valid(shard: pa.Table, settings: SyntaxSettings) -> CheckVerdicts:
    """The whole output parses as a Python module, bare or in a code fence.

    The text is parsed by the Python that runs gradebook, and neither compiled nor run: a `return` outside a function
    and undefined names pass. A bare word is Python too. Code that only causes a warning, such as an unknown escape,
    passes. More than 100,000 characters, or nesting that is too deep for the parser, stay unscored. The evidence gives
    the place and the reason.
    """
    return judge_syntax(shard, settings, "Python", MOST_PYTHON, _read_python)


def _read_python(text: str) -> None:
    if "\x00" in text:
        raise Misfit("found a NUL character, expected none", text.count("\n", 0, text.index("\x00")) + 1)
    quiet = LITERAL.sub(_without_warnings, text)
    try:
        _parse_python(quiet)
    except (RecursionError, MemoryError):
        _refuse_early_fault(quiet)
        raise CannotTell("nested too deeply to parse") from None


def _parse_python(text: str) -> None:
    """Parse a text. Raises `Misfit`, and `RecursionError` or `MemoryError` if the parser gives up."""
    try:
        on_a_full_stack(partial(ast.parse, text))
    except SyntaxError as error:
        raise Misfit(error.msg, error.lineno, error.offset) from None
    except ValueError as error:
        raise Misfit(str(error)) from None


def _refuse_early_fault(text: str) -> None:
    """Raise `Misfit` if the beginning alone is clearly wrong: the parser gives up on a long line of prose."""
    head = text[:HEAD_CHARACTERS]
    try:
        _parse_python(head)
    except Misfit as misfit:
        lines = head.split("\n")
        position = sum(len(line) + 1 for line in lines[: (misfit.line or 1) - 1]) + (misfit.column or 0)
        if misfit.reason.startswith("invalid syntax") and position < len(head) - FAR_FROM_THE_CUT:
            raise
    except (RecursionError, MemoryError):
        return


def _without_warnings(match: re.Match[str]) -> str:
    """Replace a literal with one that parses the same without a warning.

    Warnings are configured for the whole process: one could become an error or appear on the screen.
    """
    if match["number"] is not None:
        return match[0] + " "  # "1if x else 2"
    prefix = (match["prefix"] or "").lower()
    if match["body"] is None or "r" in prefix:
        return match[0]
    escapes = BYTES_ESCAPES if "b" in prefix else STR_ESCAPES
    return ESCAPE.sub(lambda escape: escape[0] if _is_known(escape[0], escapes) else "_" * len(escape[0]), match[0])


def _is_known(escape: str, escapes: frozenset[str]) -> bool:
    return len(escape) == 2 and escape[1] in escapes
