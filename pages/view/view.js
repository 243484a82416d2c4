// Keeps a page alive: the server sends the runs in progress, and says when one began, stopped or ended; the parts marked
// data-alive are then read again. Without this script a page is as it was drawn.
(() => {
  const box = document.getElementById("progress");
  if (!box || !window.EventSource) return;
  const states = box.querySelector("[data-states]")?.dataset.states ?? "";
  const source = new EventSource(`/alive?${new URLSearchParams({ states, run: box.dataset.run ?? "" })}`);
  source.addEventListener("progress", (event) => { box.innerHTML = event.data; });
  source.addEventListener("changed", async () => {
    const answer = await fetch(location.href);
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (!page.getElementById("progress")) return location.reload(); // a run that was in progress has its own page now
    for (const part of document.querySelectorAll("[data-alive]")) {
      const fresh = page.getElementById(part.id);
      if (!fresh || part.querySelector("input:checked")) continue;
      part.replaceWith(document.adoptNode(fresh));
      window.htmx?.process(fresh);
    }
  });
  window.addEventListener("pagehide", () => source.close());
})();
// Keys: j and k move through the rows of a grid or to a case's neighbours, Enter opens, Esc goes back.
(() => {
  const rows = [...document.querySelectorAll("#grid a.row")];
  const go = (id) => document.getElementById(id)?.click();
  const move = (step) => {
    const place = rows.indexOf(document.activeElement);
    rows[Math.min(rows.length - 1, Math.max(0, place + step))]?.focus();
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea")) return;
    if (event.key === "j") rows.length ? move(1) : go("following");
    else if (event.key === "k") rows.length ? move(-1) : go("previous");
    else if (event.key === "Escape") go("back");
  });
})();
// Editor: a finding leads to its line, and text that is not stored asks before it is left.
(() => {
  const form = document.getElementById("editor");
  if (!form) return;
  const text = () => document.getElementById("text");
  const stored = text().defaultValue;
  const isConflict = document.getElementById("other-heading") !== null;
  let isSent = false;
  document.addEventListener("click", (event) => {
    const line = Number(event.target.closest("[data-line]")?.dataset.line);
    if (!line) return;
    event.preventDefault();
    const lines = text().value.split("\n");
    const start = lines.slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
    text().focus();
    text().setSelectionRange(start, start + (lines[line - 1] ?? "").length);
    text().scrollTop = (line - 4) * parseFloat(getComputedStyle(text()).lineHeight);
  });
  for (const event of ["htmx:responseError", "htmx:sendError"]) {
    document.body.addEventListener(event, () => {
      document.getElementById("findings").textContent = "The server gave no answer: nothing here is of the text as it stands.";
    });
  }
  form.addEventListener("submit", () => { isSent = true; });
  window.addEventListener("beforeunload", (event) => {
    if (!isSent && (isConflict || text().value !== stored)) event.preventDefault();
  });
})();
