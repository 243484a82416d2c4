"""What the operator allows, in the environment and in a settings file of his own."""

from pathlib import Path

import pytest

from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.system.operator_settings import allowing, read_operator_settings, settings_path
from tests.support.law_over import law_over

ALLOW = "GRADEBOOK_ALLOW_KEYS"


def write(folder: Path, text: str) -> dict[str, str]:
    """The environment of a user with this settings file."""
    path = folder / "config" / "gradebook" / "settings.toml"
    path.parent.mkdir(parents=True, mode=0o700)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)
    return {"XDG_CONFIG_HOME": str(folder / "config")}


@law_over(
    ("entry", "address", "is_allowed"),
    [
        ("MINE@api.example.com", "https://api.example.com/v1", True),
        ("MINE@api.example.com", "https://API.example.com:8443/v1", True),
        ("MINE@api.example.com:8443", "https://api.example.com/v1", False),
        ("MINE@api.example.com:443", "https://api.example.com/v1", True),
        ("MINE@example.com", "https://api.example.com/v1", False),
        ("MINE@api.example.com", "https://api.example.com.evil.net/v1", False),
        ("OTHER@api.example.com", "https://api.example.com/v1", False),
        ("MINE@api.example.com", "http://api.example.com/v1", False),
        ("MINE@http://api.example.com", "http://api.example.com/v1", True),
        ("MINE@127.0.0.1", "http://127.0.0.1:8000/v1", True),
        ("MINE@localhost:8000", "http://localhost:8000/v1", True),
        ("MINE@[::1]:8000", "http://[::1]:8000/v1", True),
        ("MINE@10.0.0.5", "http://10.0.0.5:8000/v1", False),
    ],
)
def test_a_key_may_go_to_the_host_that_is_named(entry, address, is_allowed):
    assert read_operator_settings({ALLOW: entry}).allows_key("MINE", address) is is_allowed


@law_over(
    "address",
    [
        "https://a.example.com/v1",
        "http://a.example.com:80/v1",
        "http://127.0.0.1:8000/v1",
        "https://[2001:db8::1]:7/v1",
    ],
)
@law_over("name", ["MINE", "secret:judge-key"])
def test_the_entry_that_is_told_allows_the_pair(name, address):
    assert read_operator_settings({ALLOW: f"X@y {allowing(name, address)}"}).allows_key(name, address)


def test_the_settings_file_and_the_environment_add_up(tmp_path):
    text = '[keys]\nallow = ["A@one.example"]\n[functions]\nallow = ["mine"]\n[folders]\nallow = ["/data"]\n'
    more = {ALLOW: "B@two.example", "GRADEBOOK_ALLOW_FUNCTIONS": "more,other", "GRADEBOOK_ALLOW_FOLDERS": "/a:/b"}
    allowed = read_operator_settings(write(tmp_path, text) | more)
    assert allowed.allows_key("A", "https://one.example") and allowed.allows_key("B", "https://two.example")
    assert (allowed.functions, allowed.folders) == (("more", "other", "mine"), (Path("/a"), Path("/b"), Path("/data")))


def test_the_file_is_the_user_s_wherever_the_command_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert settings_path({"HOME": "/home/ann"}) == Path("/home/ann/.config/gradebook/settings.toml")
    assert settings_path({"HOME": "/home/ann", "XDG_CONFIG_HOME": "."}) == settings_path({"HOME": "/home/ann"})
    assert settings_path({}) is None


@pytest.mark.parametrize("name", ["settings.toml", "."])
@pytest.mark.parametrize("mode", [0o020, 0o002])
def test_a_settings_file_that_others_can_write_is_refused(tmp_path, name, mode):
    environ = write(tmp_path, '[keys]\nallow = ["A@one.example"]\n')
    path = tmp_path / "config" / "gradebook" / name
    path.chmod(path.stat().st_mode | mode)
    with pytest.raises(InputError, match="found a file or folder that others can write"):
        read_operator_settings(environ)


@pytest.mark.parametrize("text", ["[keys\n", "[keys]\nallow = 3\n", "[key]\n", "[keys]\nallow = ['sk-secret']\n"])
def test_what_cant_be_read_is_told_without_its_words(tmp_path, text):
    with pytest.raises(InputError) as caught:
        read_operator_settings(write(tmp_path, text))
    assert "settings.toml" in str(caught.value) and "sk-secret" not in str(caught.value)


@law_over("entry", ["sk-secret", "A@", "@host", "A@https://host/v1", "A@host:port", "A=@x", "A@b@c"])
def test_an_entry_that_is_none_is_told_without_its_words(entry):
    with pytest.raises(InputError, match="GRADEBOOK_ALLOW_KEYS: found something else in entry 2"):
        read_operator_settings({ALLOW: f"A@b {entry}"})
