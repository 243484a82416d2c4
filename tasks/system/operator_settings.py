"""Permissions of the operator: keys at hosts, packages with functions, folders and buckets, programs.

Sources are the environment and the user's own settings file, never the current folder, which may be another user's.
"""

import glob
import ipaddress
import os
import re
import stat
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gradebook.rubrics.model.errors import InputError

KEYS, FUNCTIONS, FOLDERS = "GRADEBOOK_ALLOW_KEYS", "GRADEBOOK_ALLOW_FUNCTIONS", "GRADEBOOK_ALLOW_FOLDERS"
PROGRAMS = "GRADEBOOK_ALLOW_PROGRAMS"
BUCKET_PREFIX = "s3://"
MOST_BYTES = 100_000
_WRITABLE = stat.S_IWGRP | stat.S_IWOTH
_BETWEEN_FOLDERS = re.compile(rf"{os.pathsep}(?!//)")  # the colon of s3:// is no separator
_PORTS = {"https": 443, "http": 80, "postgresql": 5432}

Origin = tuple[str, str | None, int | None]  # scheme, host and port of an address
_ENTRY = re.compile(
    r"(?P<name>[A-Za-z_][A-Za-z0-9_]*|secret:[a-z0-9][a-z0-9-]*)@(?P<plain>http://)?(?P<place>[^@/\s]+)"
)

Texts = tuple[Annotated[str, Field(min_length=1)], ...]


class _AllowList(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    allow: Texts = ()


class _SettingsFile(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    keys: _AllowList = _AllowList()
    functions: _AllowList = _AllowList()
    folders: _AllowList = _AllowList()
    programs: _AllowList = _AllowList()
    providers: dict[Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")], dict[str, Any]] = Field(
        default_factory=dict
    )


@dataclass(frozen=True, slots=True)
class AllowedKey:
    """Key that may be sent to a host. name: a variable, or secret:BLOCK. port: None for every port.

    is_plain: whether also without TLS; to this machine itself that is always allowed.
    """

    name: str
    host: str
    port: int | None
    is_plain: bool

    def allows(self, name: str, address: str) -> bool:
        """Whether the key of this name may go to an address, as https://HOST:PORT/PATH."""
        scheme, host, port = origin_of(address)
        is_there = host == self.host and self.port in (None, port)
        is_safe = scheme != "http" or self.is_plain or is_loopback(self.host)
        return name == self.name and is_there and is_safe


@dataclass(frozen=True, slots=True)
class OperatorSettings:
    """Everything that the operator allows."""

    keys: tuple[AllowedKey, ...] = ()
    functions: tuple[str, ...] = ()
    folders: tuple[Path, ...] = ()
    buckets: tuple[str, ...] = ()  # allowed folders of the form s3://BUCKET or s3://BUCKET/PREFIX
    programs: tuple[str, ...] = ()  # whole commands, literally
    providers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # sections [providers.NAME], as written

    def allows_key(self, name: str, address: str) -> bool:
        """Whether the key of this name may go to an address."""
        return any(key.allows(name, address) for key in self.keys)

    def allows_bucket(self, address: str) -> bool:
        """Whether s3://BUCKET/PREFIX lies in an allowed bucket, below its prefix."""
        return any(f"{address}/".startswith(f"{bucket.rstrip('/')}/") for bucket in self.buckets)


def read_operator_settings(environ: Mapping[str, str]) -> OperatorSettings:
    """Read the permissions of the environment and of the user's settings file. Raises `InputError`."""
    path = settings_path(environ)
    settings = _SettingsFile() if path is None else _read_file(path)
    keys = [
        *_allowed_keys(environ.get(KEYS, "").split(), KEYS),
        *_allowed_keys(settings.keys.allow, f"{path}: keys.allow"),
    ]
    packages = [name for name in re.split(r"[\s,]+", environ.get(FUNCTIONS, "")) if name]
    folder_names = [name for name in _BETWEEN_FOLDERS.split(environ.get(FOLDERS, "")) if name]
    folders = (*folder_names, *settings.folders.allow)
    programs = [line.strip() for line in environ.get(PROGRAMS, "").splitlines() if line.strip()]
    return OperatorSettings(
        tuple(keys),
        (*packages, *settings.functions.allow),
        tuple(Path(name) for name in folders if not name.startswith(BUCKET_PREFIX)),
        tuple(name for name in folders if name.startswith(BUCKET_PREFIX)),
        (*programs, *settings.programs.allow),
        settings.providers,
    )


def settings_path(environ: Mapping[str, str]) -> Path | None:
    """Path of the user's settings file; None where the environment names no home."""
    base = environ.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(base):  # noqa: PTH117 - the XDG specification: a relative one is ignored
        home = environ.get("HOME", "")
        if not home:
            return None
        base = f"{home}/.config"
    return Path(base) / "gradebook" / "settings.toml"


def origin_of(address: str) -> Origin:
    """Scheme, host and port of an address. Raises `ValueError` if it is none."""
    url = urlsplit(address)
    return url.scheme, url.hostname, url.port or _PORTS.get(url.scheme)


def allowing(name: str, address: str) -> str:
    """Entry that allows a key at an address, literally."""
    url = urlsplit(address)
    host = f"[{url.hostname}]" if ":" in (url.hostname or "") else url.hostname or ""
    scheme = "http://" if url.scheme == "http" and not is_loopback(url.hostname or "") else ""
    return f"{name}@{scheme}{host}" + (f":{url.port}" if url.port else "")


def where_to_allow(entry: str) -> str:
    """End of a sentence that says where the operator writes an entry for a key."""
    return f'{KEYS}="{entry}" in the environment, or {entry!r} under [keys] allow in ~/.config/gradebook/settings.toml'


def is_below(path: str, root: str, folder: Path = Path()) -> bool:
    """Whether a file, folder or glob lies below a resolved folder; the part before its first star is resolved.

    folder: base of a relative path.
    """
    if "\0" in path:  # no file name contains NUL
        return False
    path_parts = Path(path).parts
    plain = list(takewhile(lambda part: not glob.has_magic(part), path_parts))
    return (
        ".." not in path_parts[len(plain) :]
        and os.path.commonpath([root, os.path.realpath(folder.joinpath(*plain))]) == root
    )


def is_loopback(host: str) -> bool:
    """Whether a host is this machine itself, by name or number; nothing is looked up."""
    try:
        return host.lower() == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _allowed_keys(entries: Iterable[str], source: str) -> Iterable[AllowedKey]:
    for number, entry in enumerate(entries, start=1):
        match = _ENTRY.fullmatch(entry)
        try:
            url = urlsplit(f"//{match['place']}") if match else None
            if match is None or url is None or not url.hostname:
                raise ValueError
            yield AllowedKey(match["name"], url.hostname, url.port, is_plain=bool(match["plain"]))
        except ValueError:  # the entry is not shown: it may be a key
            expected = "NAME@HOST, NAME@HOST:PORT or NAME@http://HOST, NAME a variable or secret:BLOCK"
            raise InputError(source, f"something else in entry {number}", expected) from None


def _read_file(path: Path) -> _SettingsFile:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return _SettingsFile()
    except OSError as error:
        raise InputError(f"{path}", f"what can't be read ({error.strerror})", "TOML") from None
    try:
        _refuse_others(path, os.fstat(descriptor))
        _refuse_others(path, path.parent.stat())
        content = os.read(descriptor, MOST_BYTES)
    finally:
        os.close(descriptor)
    try:
        return _SettingsFile.model_validate(tomllib.loads(content.decode("utf-8-sig")))
    except ValidationError as error:
        key = ".".join(map(str, error.errors()[0]["loc"]))
        expected = "[keys], [functions], [folders], [programs], each with allow = [TEXT, ...], and [providers.NAME]"
        raise InputError(f"{path}: {key}", "something else", expected) from None
    except (ValueError, RecursionError):
        raise InputError(f"{path}", "no TOML", "TOML") from None


def _refuse_others(path: Path, state: os.stat_result) -> None:
    """Raise `InputError` if another user may write a file or folder."""
    if state.st_mode & _WRITABLE or state.st_uid not in (0, os.geteuid()):
        raise InputError(
            f"{path}",
            "a file or folder that others can write",
            "one that is the user's alone",
            f"chmod go-w {path.parent} {path}",
        )
