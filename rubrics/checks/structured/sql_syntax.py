"""Check that an output is SQL."""

import re
from collections.abc import Iterator
from functools import lru_cache, partial
from typing import Annotated, Any, Literal

import pyarrow as pa
from pydantic import Field, field_validator

from gradebook.rubrics.check_kit.check import CheckVerdicts, Example, register_check
from gradebook.rubrics.check_kit.evidence import EXCERPT_CHARACTERS, cut_text, quote_words
from gradebook.rubrics.check_kit.stack import on_a_full_stack
from gradebook.rubrics.checks.structured.fences import CannotTell, Misfit, SyntaxSettings, judge_syntax

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

        known = sorted(each.value for each in Dialects if each.value)
        if dialect is not None and dialect not in known:
            raise ValueError(f"found {dialect!r}, expected one of {', '.join(known)}")
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


class _Unread(Exception):
    """Statement that sqlglot stores as text."""


def _read_sql(text: str, settings: SqlSettings) -> None:
    statements = _parse(text, settings)
    if not statements:
        raise Misfit("found no statement, expected SQL")
    if settings.statements is not None and len(statements) > settings.statements:
        raise Misfit(f"found {len(statements)} statements, expected at most {settings.statements}")
    for statement in statements:
        kind = _kind_of(statement)
        if kind is None:
            shown = cut_text(statement.sql(), EXCERPT_CHARACTERS)
            raise Misfit(f"found the expression '{shown}', expected a statement")
        for each in (kind, *_kinds_within(statement)):
            if settings.kinds is not None and each not in settings.kinds:
                raise Misfit(f"found the kind '{each}', expected {quote_words(settings.kinds)}")


def _parse(text: str, settings: SqlSettings) -> list[Any]:
    from sqlglot.errors import ParseError, SqlglotError, TokenError

    try:
        return on_a_full_stack(partial(_statements, text, settings.dialect))
    except _Unread as unread:
        if settings.kinds is not None and "other" not in settings.kinds:
            raise Misfit(f"found a statement with {unread}, expected {quote_words(settings.kinds)}") from None
        raise CannotTell(f"found a statement that can't be read: {unread}") from None
    except ParseError as error:
        first: dict[str, Any] = error.errors[0] if error.errors else {"description": str(error)}
        words = CLASS_NAME.sub(r"\1", TOKEN_TEXT.sub(r"\1", str(first["description"])))
        raise Misfit(words, first.get("line"), first.get("col")) from None
    except TokenError as error:
        raise _token_misfit(error) from None
    except RecursionError:
        raise CannotTell("nested too deeply to parse") from None
    except (SqlglotError, ValueError, TypeError, AttributeError, LookupError) as error:
        raise CannotTell(f"the parser gave up: {type(error).__name__}: {error}") from None


def _token_misfit(error: Exception) -> Misfit:
    reason = str(error.__cause__ or error)
    place = TOKEN_PLACE.search(reason)
    return Misfit(reason) if place is None else Misfit(reason[: place.start()], int(place[1]), int(place[2]))


def _statements(text: str, dialect: str | None) -> list[Any]:
    language, parser_class = _quiet(dialect)
    tokens = language.tokenize(text)
    return [each for each in parser_class(dialect=language).parse(tokens, text) if each is not None]


@lru_cache
def _quiet(dialect: str | None) -> tuple[Any, Any]:
    """Dialect and parser without log messages about statements stored as text."""
    from sqlglot.dialects.dialect import Dialect

    language: Any = Dialect.get_or_raise(dialect)
    language.to_json_path = lambda path: path

    def stop(parser: Any) -> None:
        raise _Unread(repr(parser._prev.text.upper()))

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
