"""Where settings of Prefect are: its folder of this person, and the current folder, which may be of others."""

import os
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

from gradebook.rubrics.model.errors import InputError

MOST_BYTES = 1_000_000
NAMING = ("PREFECT_API_URL", "PREFECT_PROFILE")  # variables that may name a server
NAMES = ("prefect.toml", "pyproject.toml", ".env")


def prefect_home() -> Path:
    """Prefect's folder of this person. Raises `InputError` without a home."""
    try:
        return Path(os.environ.get("PREFECT_HOME") or "~/.prefect").expanduser()
    except RuntimeError:
        expected = "a folder that this user can write; default: .prefect in HOME"
        raise InputError("PREFECT_HOME", "no home folder of this user", expected) from None


def profiles_file() -> Path:
    """File of Prefect's profiles, which may not exist."""
    return Path(os.environ.get("PREFECT_PROFILES_PATH") or prefect_home() / "profiles.toml")


def may_name_server(environ: Mapping[str, str]) -> bool:
    """Whether a variable or a file that Prefect reads may name its server. Prefect knows, but its import is slow."""
    if any(name.upper() in NAMING for name in environ) or folder_settings():
        return True
    try:
        return b"api" in profiles_file().read_bytes().lower()
    except FileNotFoundError:
        return False
    except OSError:
        return True


def refuse_folder_settings(environ: Mapping[str, str]) -> None:
    """Raise `InputError` where Prefect would take settings from files of the current folder.

    They name the server that gets PREFECT_API_KEY, and modules that are imported. Call it before the first import of
    Prefect, which reads them; afterwards nothing is refused.
    """
    if "prefect" in sys.modules:
        return
    found = folder_settings()
    if not found:
        return
    from gradebook.tasks.system.operator_settings import FOLDERS, read_operator_settings  # with pydantic

    folder = Path.cwd()
    if not any(folder.is_relative_to(place.resolve()) for place in read_operator_settings(environ).folders):
        expected = f"them in the environment or a profile of Prefect, or {FOLDERS}={folder}, which allows them"
        raise InputError(" and ".join(found), "settings of Prefect in the current folder", expected)


def folder_settings() -> list[str]:
    """Names of the files of the current folder in which Prefect would find a setting."""
    return [name for name in NAMES if _has_settings(Path(name))]


def _has_settings(path: Path) -> bool:
    """Whether Prefect would find a setting of its own in a file; also if the file can't be read."""
    if not os.path.lexists(path):
        return False
    from gradebook.rubrics.text.named_files import read_whole  # with pydantic

    try:
        text = read_whole(path, MOST_BYTES).decode("utf-8", "replace")
        if path.name == ".env":
            return "prefect_" in text.lower()
        tables = tomllib.loads(text.removeprefix("\ufeff"))
    except (OSError, ValueError, RecursionError):
        return True
    tool = tables.get("tool") if path.name == "pyproject.toml" else {"prefect": tables}
    return isinstance(tool, dict) and bool(tool.get("prefect"))
