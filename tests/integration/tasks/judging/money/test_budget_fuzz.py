"""The budget under fuzz: whatever the endpoint does, its bill stays below, and the books say what it billed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.budget_fuzz import BillingEndpoint, fuzz_budget
from tests.support.nightly import matrix


@pytest.fixture(scope="module")
def endpoint() -> Iterator[BillingEndpoint]:
    with BillingEndpoint() as serving:
        yield serving


@pytest.mark.parametrize("seed", [*range(8), *matrix(range(8, 24))])
def test_the_bill_stays_below_the_budget_and_is_what_the_books_say(
    endpoint: BillingEndpoint, seed: int, tmp_path: Path
):
    assert fuzz_budget(endpoint, seed, tmp_path).faults == []
