"""Reader of the value of `--judge` or `--endpoint`: a model, a settings file, or recorded replies."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

import yaml
from pydantic import BaseModel, Field, ValidationError
from pydantic_core import ErrorDetails

from gradebook.rubrics.model.errors import JudgeSettingsError
from gradebook.rubrics.model.json_values import digest_of
from gradebook.rubrics.prompts.combine_opinions import Aggregate
from gradebook.rubrics.text.named_files import UnreadableFile, read_below, read_whole
from gradebook.tasks.judging.settings.judge import (
    REPLAY_PREFIX,
    CascadeSettings,
    Judge,
    JudgeSettings,
    PanelSettings,
    PlainJudge,
    ReplaySettings,
    When,
    identity_digest,
)
from gradebook.tasks.judging.settings.model import (
    ADDRESS_VARIABLE,
    DECISION_FORMS,
    FORMS,
    Fallback,
    FrozenSettings,
    ModelSettings,
    Prices,
)
from gradebook.tasks.judging.settings.providers import with_provider

Read = TypeVar("Read", bound=BaseModel)
SUFFIXES, PATH_STARTS = (".yaml", ".yml"), ("/", "./", "../")
MOST_CHARACTERS, DEEPEST = 100_000, 50  # of a judge file
MOST_REPLAY_BYTES = 1_000_000_000  # of recorded replies
_LOADER: type[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # PyYAML's Python loader is slow on nested brackets
_STARTS = (
    yaml.FlowSequenceStartToken,
    yaml.FlowMappingStartToken,
    yaml.BlockSequenceStartToken,
    yaml.BlockMappingStartToken,
)
_ENDS = (yaml.FlowSequenceEndToken, yaml.FlowMappingEndToken, yaml.BlockEndToken)
_COMPOSED = ("panel", "cascade")
KEY_FORMS = "env:VARIABLE, secret:BLOCK or command:PROGRAM"
MAYBE_SECRET = ("extra_body", "headers", "query")  # settings that messages do not show


class PanelFile(FrozenSettings):
    """Panel as written in a judge file."""

    panel: Annotated[tuple[str, ...], Field(min_length=2, max_length=32)]
    aggregate: Aggregate = "mean"


class Steps(FrozenSettings):
    """The two judges of a cascade as written in a judge file."""

    first: str
    then: str
    when: When = When()


class CascadeFile(FrozenSettings):
    """Cascade as written in a judge file."""

    cascade: Steps


def read_judge(judge: str, environ: Mapping[str, str]) -> Judge:
    """Read the value of `--judge`: `replay:FILE`, a judge file, or else a model's name.

    Raises `JudgeSettingsError` that names the file, the setting, what was found and what is expected.
    """
    if not judge.startswith(REPLAY_PREFIX) and is_settings_file(judge, Path()):
        path = Path(judge)
        written = read_settings_file(path, "a judge file")
        if any(name in written for name in _COMPOSED):
            return _read_composed(path, written, environ)
        return validate_settings(JudgeSettings, written, environ, source=judge)
    return _read_named(judge, environ, "--judge")


def _read_named(judge: str, environ: Mapping[str, str], source: str) -> PlainJudge:
    if judge.startswith(REPLAY_PREFIX):
        return _replay_settings(Path(judge.removeprefix(REPLAY_PREFIX)))
    form, mark, address = judge.partition(":")
    if mark and form in DECISION_FORMS:
        return validate_settings(JudgeSettings, _addressed(form, address), environ, source=source)
    return validate_settings(JudgeSettings, {"model": judge}, environ, source=source)


def _addressed(form: str, address: str) -> dict[str, Any]:
    """Settings of `systemone:URL` or `decisions:URL`; `URL#MODEL` names the model, else the host does.

    An address without a path is that of a server, whose API begins at `/v1`.
    """
    base_url, _, model = address.partition("#")
    base_url = base_url.rstrip("/").removesuffix(f"/{form}")
    host = base_url.partition("://")[2]
    return {"form": form, "base_url": base_url if "/" in host else f"{base_url}/v1", "model": model or host or address}


def is_path_to_settings(name: str) -> bool:
    """Whether a name denotes a settings file, and not a model: it ends in .yaml or .yml, or begins as a path does."""
    return name.endswith(SUFFIXES) or name.startswith(PATH_STARTS)


def is_settings_file(name: str, folder: Path) -> bool:
    """Whether a name is that of a settings file, as `is_path_to_settings`.

    folder: start of relative paths. Raises `JudgeSettingsError` for a model's name with a slash, such as
    `meta-llama/Llama-3`, if there is a file of this name.
    """
    if is_path_to_settings(name):
        return True
    if "/" in name and os.path.isfile(folder / name):  # noqa: PTH113 - Path raises for long names
        raise JudgeSettingsError(name, "a file of this name, without .yaml", f"./{name}, or a model of another name")
    return False


def _read_composed(path: Path, written: dict[str, Any], environ: Mapping[str, str]) -> Judge:
    """Panel or cascade, with the judges that it names."""
    if "cascade" in written:
        steps = _read_as(CascadeFile, path, written).cascade
        first, then = _read_members(path, (steps.first, steps.then), environ)
        return CascadeSettings(first, then, steps.when)
    panel = _read_as(PanelFile, path, written)
    return PanelSettings(_read_members(path, panel.panel, environ), panel.aggregate)


def _read_members(path: Path, names: tuple[str, ...], environ: Mapping[str, str]) -> tuple[PlainJudge, ...]:
    members = tuple(_read_member(path, name, environ) for name in names)
    digests = [member.judge_digest for member in members]
    for name, digest in zip(names, digests, strict=True):
        if digests.count(digest) > 1:
            expected = "expected judges that differ; `replicates` asks one several times"
            raise JudgeSettingsError(f"{path}: {name}: found the same judge twice, {expected}")
    return members


def _read_member(path: Path, name: str, environ: Mapping[str, str]) -> PlainJudge:
    """Judge of a panel or cascade; file names are relative to the panel's folder, and lead to files below it."""
    if name.startswith(REPLAY_PREFIX):
        file = name.removeprefix(REPLAY_PREFIX)
        return ReplaySettings(path.parent / file, digest_of(_content_below(path, file, MOST_REPLAY_BYTES)))
    member_path = path.parent / name
    if not is_settings_file(name, path.parent):
        return _read_named(name, environ, str(path))
    written = _parse_settings(member_path, _content_below(path, name, 4 * MOST_CHARACTERS), "a judge file")
    if any(key in written for key in _COMPOSED):
        raise JudgeSettingsError(f"{path}: {name}", "a panel or a cascade", "a single judge")
    member = validate_settings(JudgeSettings, written, environ, source=str(member_path))
    if member.mode == "batch":
        raise JudgeSettingsError(f"{member_path}: mode", "batch in a panel or a cascade", "reply or logprobs")
    return member


def _content_below(path: Path, name: str, most_bytes: int) -> bytes:
    """Content of a file that a panel or cascade names."""
    try:
        return read_below(name, path.parent, most_bytes, "panel")
    except UnreadableFile as error:
        raise JudgeSettingsError(f"{path}: {error}") from None


def _read_as(model: type[Read], path: Path, written: dict[str, Any]) -> Read:
    try:
        return model.model_validate(written)
    except ValidationError as error:
        expected = "panel and aggregate" if model is PanelFile else "cascade: first, then, when"
        faults = [_composed_fault(fault, str(path), expected) for fault in error.errors()]
        raise JudgeSettingsError("\n".join(faults)) from None


def _composed_fault(fault: ErrorDetails, source: str, expected: str) -> str:
    setting = ".".join(str(step) for step in fault["loc"])
    if fault["type"] == "extra_forbidden":
        return f"{source}: {setting}: found an unknown setting, expected {expected}"
    if fault["type"] == "missing":
        return f"{source}: {setting}: found nothing, expected a value"
    return f"{source}: {setting}: found {fault['input']!r}, expected otherwise: {fault['msg']}"


def _replay_settings(path: Path) -> ReplaySettings:
    try:
        return ReplaySettings(path, digest_of(read_whole(path, MOST_REPLAY_BYTES)))
    except (OSError, ValueError) as error:  # a NUL in a name raises ValueError
        reason = error.strerror if isinstance(error, OSError) else error
        raise JudgeSettingsError(f"{path}: can't be read ({reason}), expected a file of recorded replies") from None


def read_settings_file(path: Path, expected: str) -> dict[str, Any]:
    """Settings of a YAML file, by name. Raises `JudgeSettingsError`; expected: kind of file, for the message."""
    try:
        content = read_whole(path, 4 * MOST_CHARACTERS)
    except (OSError, ValueError) as error:  # a NUL in a name raises ValueError
        reason = error.strerror if isinstance(error, OSError) else error
        raise JudgeSettingsError(f"{path}: can't be read ({reason}), expected {expected}") from None
    return _parse_settings(path, content, expected)


def _parse_settings(path: Path, content: bytes, expected: str) -> dict[str, Any]:
    try:
        written = yaml.safe_load(_without_aliases(path, content.decode("utf-8")))
    except (
        yaml.YAMLError,
        ValueError,
        RecursionError,
    ) as error:  # PyYAML lets the errors of bad dates and numbers through
        raise JudgeSettingsError(f"{path}", "no YAML", f"{expected}: {_place(error)}") from None
    if not isinstance(written, dict) or not all(isinstance(name, str) for name in written):
        kinds = {type(None): "an empty file", list: "list", dict: "a setting whose name is no text"}
        kind = kinds.get(type(written), "a single value")
        raise JudgeSettingsError(f"{path}", f"{kind}", "settings such as `model: NAME`")
    return written


def _without_aliases(path: Path, text: str) -> str:
    """Text of a judge file without aliases: ten lines of them can expand to 10^9 settings in a message."""
    if len(text) > MOST_CHARACTERS:
        raise JudgeSettingsError(f"{path}", f"{len(text):,} characters", f"at most {MOST_CHARACTERS:,}")
    depth = 0
    for token in yaml.scan(text, Loader=_LOADER):
        depth += isinstance(token, _STARTS) - isinstance(token, _ENDS)
        if depth > DEEPEST:
            raise RecursionError
        if isinstance(token, yaml.AliasToken):
            location = f"{path}:{token.start_mark.line + 1}"
            raise JudgeSettingsError(location, f"the alias *{token.value}", "the value itself")
    return text


def _place(error: Exception) -> str:
    """Place where a YAML file is broken, without its text, which may contain a key."""
    mark = getattr(error, "problem_mark", None)
    if mark is not None:
        return f"line {mark.line + 1}"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    is_text = not isinstance(error, UnicodeDecodeError | yaml.reader.ReaderError)
    return "a date or a number of it is none" if is_text else "it is not printable text in UTF-8"


def validate_settings(model: type[Read], written: dict[str, Any], environ: Mapping[str, str], source: str) -> Read:
    """Validated settings, at the address of the model's provider if they name none. Raises `JudgeSettingsError`."""
    settings = with_provider(written, environ, source)
    if model is not JudgeSettings and settings.get("form") in DECISION_FORMS:
        raise JudgeSettingsError(
            source, f"form: {settings['form']}, as of a decision model", "a model that writes text"
        )
    is_from_environment = "base_url" not in written and settings.get("base_url") == environ.get(ADDRESS_VARIABLE)
    accepted = written.keys() | model.model_fields.keys()  # an embedder has no form of a reply
    try:
        return model.model_validate({name: value for name, value in settings.items() if name in accepted})
    except ValidationError as error:
        faults = [_fault(fault, model, source, is_from_environment) for fault in error.errors()]
        raise JudgeSettingsError("\n".join(faults)) from None


def _fault(fault: ErrorDetails, model: type[BaseModel], source: str, is_from_environment: bool) -> str:
    """Message about one setting. Unknown settings and addresses may contain a secret, and are not shown."""
    setting = ".".join(str(step) for step in fault["loc"])
    last = fault["loc"][-1] if fault["loc"] else None
    if last == "key":
        return f"{source}: {setting}: found something else, expected {KEY_FORMS}, not the key itself"
    if last == "base_url":
        location = f"environment: {ADDRESS_VARIABLE}" if is_from_environment else f"{source}: {setting}"
        is_ours = fault["type"] == "value_error"
        expected = fault["msg"].removeprefix("Value error, ") if is_ours else "an address as text"
        return f"{location}: found something else, expected {expected}"
    if hidden := next((name for name in fault["loc"] if name in MAYBE_SECRET), None):
        return f"{source}: {hidden}: found something else, expected {fault['msg'].removeprefix('Value error, ')}"
    if fault["type"] == "extra_forbidden":
        expected_model = (
            Prices if "prices" in fault["loc"][:-1] else Fallback if "fallbacks" in fault["loc"][:-1] else model
        )
        return (
            f"{source}: {setting}: found an unknown setting, expected one of {', '.join(expected_model.model_fields)}"
        )
    if fault["type"] == "missing":
        return f"{source}: {setting}: found nothing, expected a value"
    expected = fault["msg"].removeprefix("Value error, ")
    message = f"{setting}: found {fault['input']!r}" if last else "settings: found some that don't fit"  # maybe secrets
    return f"{source}: {message}, expected otherwise: {expected}"


EXPECTED = "an endpoint file"


class EndpointSettings(ModelSettings):
    """Settings of the model under evaluation whose outputs are collected."""

    max_tokens: Annotated[int, Field(ge=1)] = 4096
    system: Annotated[str, Field(min_length=1)] | None = None

    @property
    def asking(self) -> JudgeSettings:
        """Same settings as `JudgeSettings`, the type that the client takes."""
        return JudgeSettings(**{name: getattr(self, name) for name in ModelSettings.model_fields})

    @property
    def identity(self) -> dict[str, Any]:
        """Settings that affect a reply, except `system`, which is part of the messages."""
        return {
            "kind": FORMS[self.form],
            "model": self.model,
            "temperature": self.temperature,
            "seed": self.seed,
            "max_tokens": self.max_tokens,
            "extra_body": self.extra_body,
            **self.extra_identity,
        }

    @property
    def digest(self) -> str:
        """Digest of the identity, 32 hex digits."""
        return identity_digest(self.identity)


def read_endpoint(endpoint: str, environ: Mapping[str, str]) -> EndpointSettings:
    """Read the value of `--endpoint`: an endpoint file, or else a model's name.

    Raises `JudgeSettingsError` that names the file, the setting, what was found and what is expected.
    """
    if endpoint.startswith(REPLAY_PREFIX):
        raise JudgeSettingsError("--endpoint", f"recorded replies, {endpoint!r}", f"{EXPECTED} or a model")
    if not is_settings_file(endpoint, Path()):
        return validate_settings(EndpointSettings, {"model": endpoint}, environ, source="--endpoint")
    written = read_settings_file(Path(endpoint), EXPECTED)
    endpoint_settings = EndpointSettings.model_fields
    judge_only = [name for name in written if name in JudgeSettings.model_fields and name not in endpoint_settings]
    if judge_only:
        raise JudgeSettingsError(
            f"{endpoint}: {', '.join(judge_only)}: found a setting of judges, which does not bear on outputs; expected "
            f"one of {', '.join(endpoint_settings)}"
        )
    return validate_settings(EndpointSettings, written, environ, source=endpoint)
