// Movable threshold: the line in the picture, the sentence and the table follow the slider. The sentence is worded as in
// meeting_words of tasks/reporting/sections/spread/grids.py, a share as in share_words of rubrics/text/wording.py.
(() => {
  const figure = document.getElementById("threshold");
  if (!figure) return;
  const { thresholds, meetings } = JSON.parse(document.getElementById("threshold-counts").textContent);
  const slider = figure.querySelector("input");
  const line = figure.querySelector("line.threshold");
  const sentence = figure.querySelector("[role=status]");
  const rows = figure.querySelectorAll("tr[data-meeting]");

  const share = (count, n) => {
    if (!n) return "–";
    const whole = Math.floor((1000 * count) / n);
    const rest = 1000 * count - whole * n;
    const permille = whole + (2 * rest > n || (2 * rest === n && whole % 2 === 1) ? 1 : 0);
    if (permille === 0 && count > 0) return "<0.1%";
    if (permille === 1000 && count < n) return ">99.9%";
    return `${permille % 10 === 0 ? permille / 10 : (permille / 10).toFixed(1)}%`;
  };

  const wordsAt = (place) => {
    const scored = meetings.filter((meeting) => meeting.n);
    const own = scored.filter((meeting) => !meeting.isBaseline);
    const met = (meeting) => meeting.counts[place] / meeting.n;
    const bestFirst = [...own].sort((a, b) => met(b) - met(a));
    const [best, other] = own.length > 1 ? bestFirst : [...own, ...scored.filter((meeting) => meeting.isBaseline)];
    const words = `${share(best.counts[place], best.n)} of the outputs of ${best.name} meet ${thresholds[place]}`;
    return other ? `${words}, ${share(other.counts[place], other.n)} of those of ${other.name}.` : `${words}.`;
  };

  const move = () => {
    const [low, high, step] = [slider.min, slider.max, slider.step].map(Number);
    const place = Math.min(Math.round((Number(slider.value) - low) / step), thresholds.length - 1);
    const at = Number(line.dataset.left) + (Number(line.dataset.width) * place) / (thresholds.length - 1);
    line.setAttribute("x1", at);
    line.setAttribute("x2", at);
    figure.querySelector("output").textContent = thresholds[place];
    if (sentence.textContent !== wordsAt(place)) sentence.textContent = wordsAt(place); // a screen reader repeats a changed sentence
    for (const row of rows) {
      const { n, counts } = meetings[Number(row.dataset.meeting)];
      row.cells[1].textContent = share(counts[place], n);
      row.cells[2].textContent = `${counts[place].toLocaleString("en")} of ${n.toLocaleString("en")}`;
    }
  };

  slider.addEventListener("input", move);
  figure.querySelector(".controls").hidden = false;
  move();
})();
