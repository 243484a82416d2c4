// What is alive on a page: runs in progress, as the server sends them. Without this script a page is as it was drawn.
(() => {
  const box = document.getElementById("progress");
  if (!box || !window.EventSource) return;
  const source = new EventSource("/alive");
  let runs = box.dataset.runs || "";
  source.addEventListener("progress", (event) => {
    box.innerHTML = event.data;
    const now = box.querySelector("[data-runs]")?.dataset.runs ?? "";
    if (runs && now !== runs) document.getElementById("stale")?.removeAttribute("hidden");
    runs = now;
  });
  window.addEventListener("pagehide", () => source.close());
})();
