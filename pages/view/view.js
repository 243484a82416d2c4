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
