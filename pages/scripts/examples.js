// Filters examples by text, kind, criterion, level and model. The address stores the filter after #examples?, so that a
// view can be shared; #o-… opens one output. Without this script the page shows all examples.
(() => {
  const form = document.getElementById("examples-finder");
  if (!form) return;
  const examples = [...document.querySelectorAll(".example")];
  const count = document.getElementById("examples-count");
  const fields = ["q", "kind", "criterion", "level", "model"];
  const field = (name) => form.elements.namedItem(name);
  const texts = new Map();
  const rows = new Map(examples.map((example) => [example, [...example.querySelectorAll("tr[data-criterion]")]]));

  const textOf = (example) => {
    if (!texts.has(example)) texts.set(example, example.textContent.toLowerCase());
    return texts.get(example);
  };

  const offer = (select, choices) => {
    select.replaceChildren(select.options[0], ...[...choices].map(([value, label]) => new Option(label, value)));
  };

  const offerLevels = () => {
    const criterion = field("criterion").value;
    const levels = new Map();
    for (const found of rows.values())
      for (const row of found)
        if (row.dataset.criterion === criterion) {
          const score = parseFloat(row.querySelector(".amount").textContent);
          const level = row.querySelector(".level").textContent;
          if (row.dataset.level) levels.set(`is ${row.dataset.level}`, { level, score: isNaN(score) ? -1 : score });
          if (row.classList.contains("differs")) levels.set("differs", { level: "differs from the paired answer", score: 2 });
        }
    const worstFirst = [...levels].sort(([, one], [, other]) => one.score - other.score);
    offer(field("level"), worstFirst.map(([value, { level }]) => [value, level]));
    field("level").disabled = levels.size === 0;
  };

  const isJudged = (example, criterion, level) =>
    !criterion || rows.get(example).some((row) => row.dataset.criterion === criterion &&
      (!level || (level === "differs" ? row.classList.contains("differs") : `is ${row.dataset.level}` === level)));

  const show = () => {
    const chosen = Object.fromEntries(fields.map((name) => [name, field(name).value]));
    const words = chosen.q.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const example of examples) {
      const isShown = (!chosen.kind || example.dataset.kinds.split(" ").includes(chosen.kind)) &&
        (!chosen.model || example.dataset.model === chosen.model) &&
        isJudged(example, chosen.criterion, chosen.level) &&
        words.every((word) => textOf(example).includes(word));
      example.hidden = !isShown;
      shown += isShown;
    }
    count.textContent = `${shown} of ${examples.length} shown`;
  };

  const storeInAddress = () => {
    const chosen = new URLSearchParams(fields.map((name) => [name, field(name).value]).filter(([, value]) => value));
    try { history.replaceState(null, "", chosen.size ? `#examples?${chosen}` : "#examples"); } catch { /* a frame without an address */ }
  };

  const choose = (wanted) => {
    for (const name of fields) {
      if (name === "level") offerLevels();
      field(name).value = wanted.get(name) ?? "";
      if (field(name).value !== (wanted.get(name) ?? "")) field(name).value = "";
    }
    show();
  };

  const follow = () => {
    const hash = location.hash;
    if (hash.startsWith("#examples?")) {
      choose(new URLSearchParams(hash.slice("#examples?".length)));
      document.getElementById("examples").scrollIntoView();
    } else if (hash.startsWith("#o-")) {
      const example = examples.find((one) => `#${one.id}` === hash);
      if (!example) return;
      if (example.hidden) choose(new URLSearchParams());
      example.open = true;
      example.scrollIntoView();
      example.querySelector("summary").focus({ preventScroll: true });
    }
  };

  const named = (row) => [row.dataset.criterion, row.querySelector("th bdi").textContent];
  offer(field("criterion"), new Map([...rows.values()].flat().map(named)));
  offer(field("model"), [...new Set(examples.map((example) => example.dataset.model))].sort().map((name) => [name, name]));
  form.hidden = false;
  show();
  follow();

  let waiting;
  form.addEventListener("input", (event) => {
    if (event.target.name === "criterion") { field("level").value = ""; offerLevels(); }
    clearTimeout(waiting);
    waiting = setTimeout(() => { show(); storeInAddress(); }, event.target.name === "q" ? 150 : 0);
  });
  form.addEventListener("reset", (event) => { event.preventDefault(); choose(new URLSearchParams()); storeInAddress(); });
  form.addEventListener("submit", (event) => event.preventDefault());
  addEventListener("hashchange", follow);
})();
