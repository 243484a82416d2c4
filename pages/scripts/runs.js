// Filters of the list of runs on the home page. The address stores the filter, so that a view can be shared.
(() => {
  const form = document.getElementById("run-filters");
  if (!form) return;
  const runs = [...document.querySelectorAll("#run-list > tbody")];
  const shownCount = form.querySelector("output");
  const { q, rubric, verdict } = form.elements;
  const texts = runs.map((run) => run.textContent.toLowerCase());

  function show() {
    const words = q.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    runs.forEach((run, place) => {
      const isShown =
        (!rubric.value || run.dataset.rubric === rubric.value) &&
        (!verdict.value || run.dataset.verdict === verdict.value) &&
        words.every((word) => texts[place].includes(word));
      run.hidden = !isShown;
      count += isShown;
    });
    shownCount.textContent = `${count} of ${runs.length} shown`;
    const chosen = new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
    try {
      history.replaceState(null, "", chosen.size ? `#runs?${chosen}` : location.pathname + location.search);
    } catch {
      // A page inside another one may have no address of its own.
    }
  }

  for (const [name, value] of new URLSearchParams(location.hash.split("?")[1] ?? "")) {
    if (form.elements[name]) form.elements[name].value = value;
  }
  form.hidden = false;
  form.addEventListener("input", show);
  form.addEventListener("submit", (event) => event.preventDefault());
  if (location.hash.includes("?")) show();
  else shownCount.textContent = `${runs.length} of ${runs.length} shown`;
})();
