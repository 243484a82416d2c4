"""Secrets in texts about unforeseen errors."""

import pytest

from gradebook.tasks.system.secret_values import without_secret_values
from tests.support.law_over import law_over

SECRET = "canary-0123456789"


@law_over(
    ("name", "value"),
    [
        ("OPENAI_API_KEY", SECRET),
        ("HF_TOKEN", f"{SECRET}\n"),
        ("aws_secret_access_key", SECRET),
        ("PGPASSWORD", SECRET),
        ("PREFECT_API_AUTH_STRING", SECRET),
        ("HTTPS_PROXY", f"http://ann:{SECRET}@proxy:3128"),
        ("DATABASE_URL", f"postgresql://ann:{SECRET}@db/x"),
    ],
)
def test_values_of_secret_variables_and_passwords_of_addresses_are_taken_out(name, value):
    told = f"OSError: b'Bearer {SECRET}' at http://ann:{SECRET}@proxy"
    assert SECRET not in without_secret_values(told, {name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [("HOME", SECRET), ("GRADEBOOK_ALLOW_KEYS", SECRET), ("MY_KEY", "short"), ("SITE", "http://[half")],
)
def test_other_values_stay(name, value):
    assert without_secret_values(f"{SECRET} short", {name: value}) == f"{SECRET} short"
