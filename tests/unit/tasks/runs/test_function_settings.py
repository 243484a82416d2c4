"""gradebook.toml and `--allow-functions`: allowed packages, and faults of the file."""

import pytest

from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.model.methods import FunctionMethod
from gradebook.tasks.runs.function_settings import FunctionSettings, read_function_settings


def test_without_a_file_or_an_option_nothing_is_allowed(tmp_path):
    assert read_function_settings(tmp_path, {}) == FunctionSettings()


def test_the_file_narrows_what_the_command_line_allows(tmp_path):
    text = '[functions]\nallow = ["my_checks", "third", "evil"]\ntime_limit_s = 5\nmemory_limit_mb = 512\n'
    (tmp_path / "gradebook.toml").write_text(text, encoding="utf-8")
    assert read_function_settings(tmp_path, {}, ["other, my_checks", "third.part"]) == FunctionSettings(
        allow=("my_checks", "third.part"), time_limit_s=5.0, memory_limit_mb=512
    )
    assert read_function_settings(tmp_path, {}).allow == ()


@pytest.mark.parametrize(
    ("allowed", "within", "found"),
    [
        (["a", "b"], ["b", "evil"], ("b",)),
        (["a"], ["a.part", "evil"], ("a.part",)),
        (["a.part"], ["a"], ("a.part",)),
        (["a"], [], ("a",)),
        ([], ["evil"], ()),
    ],
)
def test_a_suites_file_names_fewer_packages_and_never_more(tmp_path, allowed, within, found):
    environ = {"GRADEBOOK_ALLOW_FUNCTIONS": ",".join(allowed)}
    assert read_function_settings(tmp_path, environ, (), within).allow == found
    assert read_function_settings(tmp_path, {}, allowed, within).allow == found


def test_a_package_of_the_environment_is_a_name(tmp_path):
    with pytest.raises(InputError, match="GRADEBOOK_ALLOW_FUNCTIONS: found '../x', expected names of packages"):
        read_function_settings(tmp_path, {"GRADEBOOK_ALLOW_FUNCTIONS": "../x"})


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path):
    (tmp_path / "gradebook.toml").write_text("\ufeff[functions]\nallow = ['my_checks']\n", encoding="utf-8")
    assert read_function_settings(tmp_path, {}, ["my_checks"]).allow == ("my_checks",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "[functions]\nalow = []",
            "gradebook.toml:2: functions: found the unknown key 'alow', expected one of allow, ",
        ),
        ("[function]\nallow = []", "gradebook.toml:1: found the unknown key 'function', expected one of functions"),
        ("[functions]\n\nallow = 'a'", "gradebook.toml:3: functions.allow: found 'a', expected a list"),
        ('[functions]\nallow = ["a b"]', "gradebook.toml:2: functions.allow: found 'a b', expected the name of a pack"),
        ('[functions]\nallow = ["*"]', "gradebook.toml:2: functions.allow: found '*', expected the name of a package"),
        ("[functions]\nallow = [1]", "gradebook.toml:2: functions.allow[0]: found 1, expected text"),
        (
            "[functions]\ntime_limit_s = 0",
            "gradebook.toml:2: functions.time_limit_s: found 0, expected a number above 0",
        ),
        ("[functions]\ntime_limit_s = inf", "gradebook.toml:2: functions.time_limit_s: found inf, expected a"),
        ("[functions]\ntime_limit_s = true", "gradebook.toml:2: functions.time_limit_s: found true"),
        ("[functions]\nmemory_limit_mb = 10", "functions.memory_limit_mb: found 10, expected a number of at least 256"),
        ("functions = 3", "gradebook.toml:1: functions: found 3, expected a mapping of keys to values"),
        ("[functions]\nallow = [", "gradebook.toml"),
        ("[functions]\nallow = \n", "gradebook.toml:2: found no TOML (Invalid value), expected TOML"),
        ("allow = " + "[" * 5_000, "gradebook.toml: found no TOML (maximum recursion depth exceeded), expected TOML"),
        ("allow = " + "9" * 5_000, "gradebook.toml: found no TOML (Exceeds the limit"),
    ],
)
def test_a_file_that_is_wrong_is_refused_with_its_line(tmp_path, text, message):
    (tmp_path / "gradebook.toml").write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_function_settings(tmp_path, {})
    assert str(caught.value).startswith(message) or message in str(caught.value)


@pytest.mark.parametrize("content", [b"\xff", None], ids=["no text", "a folder"])
def test_a_file_that_can_not_be_read_is_refused(tmp_path, content):
    path = tmp_path / "gradebook.toml"
    path.mkdir() if content is None else path.write_bytes(content)
    with pytest.raises(InputError, match=r"gradebook\.toml: can't be read .*, expected TOML"):
        read_function_settings(tmp_path, {})


@pytest.mark.parametrize("words", ["", "a b", "a,,b", "a:b", "../x", "a/b"])
def test_an_invalid_package_name_is_refused(tmp_path, words):
    with pytest.raises(InputError, match="--allow-functions: found .*, expected names of packages"):
        read_function_settings(tmp_path, {}, [words])


def test_empty_settings_of_a_method_are_omitted():
    method = FunctionMethod(type="function", function="my_checks:act")
    assert method.model_dump(exclude_defaults=True) == {"type": "function", "function": "my_checks:act"}
