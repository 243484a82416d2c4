"""Heat map in a browser: its numbers are those of SQL, and each links to its examples."""

import pytest

from gradebook.rubrics.text.wording import rate_words, score_words
from gradebook.tasks.lake.user_queries import run_query
from tests.support.chromium import Visiting
from tests.support.nightly import matrix
from tests.support.page_runs import Reported

pytestmark = pytest.mark.browser
MEANS = r"""
() => [...document.querySelectorAll("#heat .scroll:first-of-type tbody tr:not(.heading)")].map((row) => [
  row.cells[0].firstChild.textContent.trim(),
  ...[...row.cells].slice(1).map((cell) => cell.innerText.split(/\s/)[0]),
])
"""
SHARES = """
() => [...document.querySelectorAll("#heat .scroll td.weight")].map((cell) =>
  [cell.parentElement.cells[0].firstChild.textContent.trim(), cell.innerText])
"""
CHOSEN = """
() => Object.fromEntries(new FormData(document.getElementById("examples-finder")).entries())
"""
ARRIVED = """
(address) => {
  const wanted = new URLSearchParams(address.split("?")[1]);
  const chosen = (name) => document.querySelector(`#examples-finder [name=${name}]`).value;
  return location.hash === address && ["criterion", "model"].every((name) => chosen(name) === wanted.get(name));
}
"""
MATCHING = """
([criterion, model]) => [...document.querySelectorAll(".example")].filter((each) =>
  each.dataset.model === model && each.querySelector(`tr[data-criterion="${criterion}"]`)).length
"""


def test_every_mean_of_the_map_equals_sql(visit: Visiting, reported: Reported):
    query = "select criterion_id, model, mean from criterion_scores where run_id = 'demo'"
    means = {(row["criterion_id"], row["model"]): row["mean"] for row in run_query(reported.lake, query).to_pylist()}
    with visit(reported.pages["demo"]) as seen:
        rows = seen.ask(MEANS)
        heads = seen.page.locator("#heat thead").first.locator("th").all_inner_texts()[1:]
    models = [head.partition(" @")[0] for head in heads]
    shown = {(row[0], model): words for row in rows for model, words in zip(models, row[1:], strict=True)}
    assert shown == {key: score_words(mean) for key, mean in means.items()}


def test_every_weight_of_the_map_equals_sql(visit: Visiting, reported: Reported):
    query = "select criterion_id, effective_weight from criteria where rubric_id = 'support_replies' and not is_gate"
    weights = {row["criterion_id"]: row["effective_weight"] for row in run_query(reported.lake, query).to_pylist()}
    with visit(reported.pages["demo"]) as seen:
        shown = dict(seen.ask(SHARES))
    assert shown == {name: rate_words(weight) for name, weight in weights.items()}


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["hostile", *matrix(["demo"])])
def test_a_number_of_the_map_links_to_the_examples_of_its_criterion_and_model(
    visit: Visiting, reported: Reported, name: str
):
    with visit(reported.pages[name]) as seen:
        links = seen.page.locator("#heat a[href^='#examples?']")
        assert links.count() > 0
        for link in links.all():
            link.press("Enter")
            seen.page.wait_for_function(ARRIVED, arg=link.get_attribute("href"))
            chosen = seen.ask(CHOSEN)
            count = seen.ask(MATCHING, [chosen["criterion"], chosen["model"]])
            words = seen.page.locator("#examples-count").inner_text()
            assert chosen["criterion"] and chosen["model"] and words.startswith(f"{count} of ")
