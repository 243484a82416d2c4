// Rating by keyboard, drafts and time spent. Without this script the form works as it is.
(() => {
  const form = document.getElementById("sheet");
  if (!form) return;
  const shown = Date.now();
  const rows = [...form.querySelectorAll("fieldset")];
  const status = document.getElementById("saved");
  const isSubmitted = !form.querySelector("[value=skip]");
  const undo = [];
  let active = 0;
  let waiting = 0;

  const say = (text) => { status.textContent = text; };
  const choicesOf = (row) => [...row.querySelectorAll("[name^='level.'][type=radio]")];
  const causesOf = (row) => [...row.querySelectorAll("[name^='cause.']")]; // on a lead's sheet alone
  const chosenOf = (row) => choicesOf(row).find((choice) => choice.checked);
  const numberOf = (row) => row.querySelector("input[type=number]");
  const isRated = (row) => numberOf(row)
    ? row.querySelector("[name^='none.']").checked || (numberOf(row).value !== "" && numberOf(row).checkValidity())
    : Boolean(chosenOf(row));
  const hasError = (row) => row.matches(".step") && chosenOf(row) && !chosenOf(row).matches("[data-right], [value='n/a']");
  const lacksCause = (row) => causesOf(row).length > 0 && !causesOf(row).some((cause) => cause.checked);
  const openErrors = (row) => hasError(row) ? [...row.querySelectorAll(".error select")].filter((field) => !field.value) : [];
  // First field that a chosen level asks for: a lead's cause, or the error of a step that is not right.
  const openField = (row) => lacksCause(row) ? causesOf(row)[0] : openErrors(row)[0];
  const isLeftOut = (row) => "optional" in row.dataset && !isRated(row);
  const lackOf = (row) => isLeftOut(row) ? "" : !isRated(row) ? "not rated yet" : lacksCause(row) ? "without a cause" : openErrors(row).length ? "without an error" : "";
  const isOpen = (row) => lackOf(row) !== "";

  function activate(place, isFocused = true) {
    active = Math.max(0, Math.min(place, rows.length - 1));
    rows.forEach((row, index) => row.classList.toggle("active", index === active));
    if (!isFocused) return;
    const open = isRated(rows[active]) ? openField(rows[active]) : undefined;
    (open ?? numberOf(rows[active]) ?? chosenOf(rows[active]) ?? choicesOf(rows[active])[0]).focus({preventScroll: true});
    rows[active].scrollIntoView({block: "nearest"});
  }

  function fields(action) {
    const sent = new URLSearchParams(new FormData(form));
    sent.set("action", action);
    return sent;
  }

  function saveSoon() {
    if (isSubmitted) return;
    clearTimeout(waiting);
    waiting = setTimeout(save, 400);
  }

  async function save() { // form.action would be the button of that name
    try {
      const answer = await fetch(form.getAttribute("action"), {method: "POST", body: fields("draft"), keepalive: true});
      say(answer.ok ? lacksTold() || "Draft saved" : "Not saved: load the page again");
    } catch {
      say("Not saved: the server does not answer");
    }
  }

  // choices: all of the question, of which one is chosen.
  function choose(row, choices, choice) {
    undo.push([row, choices, choices.find((each) => each.checked)]);
    choice.checked = true;
    choice.focus({preventScroll: true});
    showLack(row);
    showScores();
    saveSoon();
  }

  // Say what a row lacks, if it was said at all: after an attempt to submit.
  function showLack(row, isTold = row.classList.contains("missing")) {
    const lack = isTold ? lackOf(row) : "";
    row.classList.toggle("missing", lack !== "");
    row.querySelector(".lack").textContent = lack;
  }

  // What is lacking after an attempt to submit, in numbers; a saved draft does not wipe it out.
  function lacksTold() {
    const lacks = rows.map((row) => row.querySelector(".lack").textContent).filter(Boolean);
    return [...new Set(lacks)].map((lack) => `${lacks.filter((each) => each === lack).length} ${lack}`).join(", ");
  }

  // Running score of the steps: what the errors chosen so far leave of 100.
  function showScores() {
    form.querySelectorAll("[data-score-of]").forEach((shown) => {
      const steps = rows.filter((row) => row.dataset.group === shown.dataset.scoreOf);
      const penalties = JSON.parse(shown.dataset.penalties);
      const lost = steps.filter(hasError).map((row) => {
        const severity = row.querySelector("[name^='severity.']").value;
        const type = row.querySelector("[name^='error.']")?.value.split("/")[0];
        return penalties[`${type}/${severity}`] ?? penalties[severity] ?? 0;
      });
      shown.textContent = `${Math.max(0, 100 - lost.reduce((sum, points) => sum + points, 0))} of 100, ${steps.filter(isOpen).length} steps open`;
    });
  }

  function submit() {
    const gap = rows.findIndex(isOpen);
    if (gap >= 0) {
      rows.forEach((row) => showLack(row, true));
      say(lacksTold());
      activate(gap);
      return;
    }
    form.requestSubmit(form.querySelector("[value=submit]"));
  }

  // Marked words: a JSON list in the hidden field, shown as buttons that take a passage away.
  function showMarked(row) {
    const field = row.querySelector("[name^='evidence.']");
    const passages = JSON.parse(field.value || "[]");
    const list = row.querySelector(".marked");
    list.replaceChildren(...passages.map((passage, place) => {
      const item = document.createElement("li");
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = `“${passage}”`;
      button.title = "take this mark away";
      button.addEventListener("click", () => {
        field.value = JSON.stringify(passages.filter((_, other) => other !== place));
        showMarked(row);
        saveSoon();
      });
      item.append(button);
      return item;
    }));
    list.hidden = !passages.length;
  }

  function mark(row) {
    const selection = getSelection();
    const words = selection.toString().trim().slice(0, 1000);
    const texts = document.querySelector(".texts");
    if (!words || !texts.contains(selection.anchorNode)) { say("Select words of the output first"); return; }
    const field = row.querySelector("[name^='evidence.']");
    const passages = JSON.parse(field.value || "[]");
    if (passages.length >= 10 || passages.includes(words)) return;
    field.value = JSON.stringify([...passages, words]);
    showMarked(row);
    saveSoon();
  }

  const keys = {
    e: () => { if (rows[active].querySelector(".marking")) mark(rows[active]); },
    j: () => activate(active + 1),
    k: () => activate(active - 1),
    u: () => {
      const [row, choices, before] = undo.pop() ?? [];
      if (!row) return;
      choices.forEach((choice) => { choice.checked = choice === before; });
      activate(rows.indexOf(row));
      (before ?? choices[0]).focus({preventScroll: true});
      showLack(row);
      showScores();
      saveSoon();
    },
    c: () => {
      const confidence = rows[active].querySelector("[name^='confidence.']");
      if (!confidence) return;
      confidence.selectedIndex = (confidence.selectedIndex + 1) % confidence.options.length;
      say(`Confidence: ${confidence.value || "none"}`);
      saveSoon();
    },
    r: () => rows[active].querySelector("[name^='needs_rubric_update.']")?.click(),
    s: () => form.querySelector("[value=skip]")?.click(),
    b: () => form.querySelector("a[href^='/back/']").click(),
    Enter: submit,
  };

  document.addEventListener("keydown", (event) => {
    const isText = event.target.matches("textarea, select");
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      submit();
      return;
    }
    if (isText || event.ctrlKey || event.metaKey || event.altKey || !document.getElementById("keys").checked) return;
    if (event.key === "Enter" && event.target.matches("a, button, summary")) return;
    const row = rows[active];
    if (event.target.matches("input[type=number]")) { // digits and arrows are the field's own
      const open = isRated(row) ? openField(row) : undefined;
      if (event.key === "Enter" && (open || active + 1 < rows.length)) {
        event.preventDefault();
        if (open) open.focus();
        else activate(active + 1);
        return;
      }
      if (!/^[jkusbcr]$|^Enter$/.test(event.key)) return;
    }
    const isCause = event.target.matches("[name^='cause.']");
    const choices = isCause ? causesOf(row) : choicesOf(row);
    const choice = isCause ? choices[event.key - 1] : choices.find((each) => each.dataset.key === event.key);
    if (choice) { // the key that the level or the cause shows
      event.preventDefault();
      choose(row, choices, choice);
      const open = isRated(row) ? openField(row) : undefined;
      if (open) open.focus();
      else if (active + 1 < rows.length) activate(active + 1);
      return;
    }
    const act = keys[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });

  rows.forEach((row, index) => {
    const marking = row.querySelector(".marking"); // a lead's sheet has none
    if (marking) {
      marking.hidden = false;
      row.querySelector(".mark").addEventListener("mousedown", (event) => event.preventDefault()); // keeps the selection
      row.querySelector(".mark").addEventListener("click", () => mark(row));
      showMarked(row);
    }
    row.addEventListener("focusin", () => activate(index, false));
    row.addEventListener("change", (event) => {
      showLack(row);
      showScores();
      saveSoon();
    });
  });
  form.addEventListener("input", saveSoon);
  form.addEventListener("submit", () => {
    clearTimeout(waiting);
    form.elements.spent_s.value = ((Date.now() - shown) / 1000).toFixed(1);
  });
  const keysBox = document.getElementById("keys");
  try { keysBox.checked = localStorage.getItem("keys") !== "off"; } catch { /* no storage: keys stay on */ }
  keysBox.addEventListener("change", () => {
    try { localStorage.setItem("keys", keysBox.checked ? "on" : "off"); } catch { /* as above */ }
  });
  showScores();
  activate(rows.findIndex(isOpen), true);
})();
