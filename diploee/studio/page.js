"use strict";
(() => {
  const token = location.pathname.split("/")[1], page = crypto.randomUUID();
  const at = (id) => document.getElementById(id);
  const REST_MS = 2500, TYPING_MS = 200, PAUSE_MS = 2000, past = [];
  let draft, known = null, asked = 0, running = null, resting = 0, typing = 0, searching = 0;
  let ran = "";                      // hash and week of what was run last
  // The one state of results: of which site and days each frame is, and the last answer of each span.
  const shown = { picture: null, report: null }, answers = { week: null, year: null };

  async function post(name, body, signal) {
    const answer = await fetch(name, {
      method: "POST", signal, body: JSON.stringify({ page, ...body }),
      headers: { "Content-Type": "application/json", "X-Studio": token },
    });
    if (!answer.ok) {
      const refusal = await answer.json().catch(() => null);
      throw Object.assign(new Error(words(refusal) || "the studio refused this; is it still open?"), refusal);
    }
    return answer;
  }
  const json = async (name, body) => (await post(name, body)).json();
  const words = (found) => found && found.problems.map((p) => p.message || p).join("; ");

  function element(name, properties = {}, ...inner) {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...inner);
    return made;
  }
  function say(text) { at("status").textContent = text; }

  // --- fields

  const value = (key) => { const edit = draft.edits.find(([name]) => name === key); return edit && edit[1]; };

  // Keep the draft for Undo; what is typed into one field without a pause is one step.
  function remember(key) {
    if (past.key !== key || Date.now() - past.at > PAUSE_MS) past.push(JSON.stringify(draft));
    if (past.length > 200) past.shift();
    past.key = key;
    past.at = Date.now();
  }

  function edit(key, text) {
    remember(key);
    const edits = draft.edits.filter(([name]) => name !== key);
    draft = { ...draft, edits: text === null ? edits : [...edits, [key, text]] };
    changed();
  }

  function field(of, place) {
    const id = place + "-" + of.key.replace(/[^\w]/g, "_"), old = at(id);
    const row = old ? old.closest(".field") : element("div", { className: "field" });
    const edited = value(of.key), shown = edited !== undefined ? edited : of.given ? of.value : "";
    row.classList.toggle("edited", edited !== undefined);
    if (!old) {
      const is = of.closed ? "select" : "input";
      const input = element(is, { id, name: of.key });
      input.setAttribute("aria-describedby", id + "-hint " + id + "-error");
      if (is === "input" && /number/.test(of.type)) input.inputMode = "decimal";
      input.addEventListener(is === "input" ? "input" : "change", () => edit(of.key, input.value));
      const label = element("label", { htmlFor: id }, of.label + (of.unit ? " [" + of.unit + "] " : " "));
      if (of.assumed) label.append(element("span", { className: "assumed", textContent: "assumed" }));
      const reset = element("button", { type: "button", className: "reset", textContent: "\u21ba", title: "As it was" });
      reset.setAttribute("aria-label", "As it was: " + of.label);
      reset.addEventListener("click", () => { edit(of.key, null); input.focus(); });
      row.append(label, input, reset, element("p", { id: id + "-hint", className: "hint" }), element("p", { id: id + "-error", className: "error" }));
      row.classList.toggle("wide", place === "k");
      at(place === "f" ? "fields" : "found").append(row);
    }
    const input = at(id), [low, high] = of.range || [];
    row.querySelector(".reset").style.visibility = edited === undefined ? "hidden" : "visible";
    if (of.closed) {
      const choices = of.choices.includes(shown) ? of.choices : [shown, ...of.choices], words = (c) => of.key === "limits" ? c.replace(/^\[(.*)\]$/, "$1") : c.replace(/_/g, " ");
      input.replaceChildren(...choices.map((c) => element("option", { value: c, textContent: words(c) || (of.key.startsWith("facility.stages.") ? "(not there)" : of.default ? of.default + " (default)" : "none") })));
    }
    if ((of.closed || document.activeElement !== input || edited === undefined) && input.value !== shown) {
      input.value = shown;
      if (document.activeElement === input && !of.closed) input.select();  // what is typed next replaces it
    }
    if (!of.closed) input.placeholder = of.given ? "" : of.default || (of.value === "" ? "none" : of.value);
    at(id + "-hint").textContent = [of.text, of.type && !of.closed && "Takes a " + of.type + (of.allowed ? ", " + of.allowed : "") + ".",
      of.default && "Default " + of.default + ".", of.range && !/range/i.test(of.text) && "Range " + low + " to " + high + "."].filter(Boolean).join(" ");
  }

  function fields(found, place) {
    const home = at(place === "f" ? "fields" : "found");
    const same = home.dataset.keys === found.map((f) => f.key).join();
    if (!same) home.replaceChildren();
    home.dataset.keys = found.map((f) => f.key).join();
    for (const of of found) field(of, place);
  }

  function problems(found) {
    for (const input of document.querySelectorAll(".field input, .field select")) {
      const own = found.filter((p) => p.field === input.name);
      input.setAttribute("aria-invalid", String(own.length > 0));
      at(input.id + "-error").textContent = own.map((p) => p.message).join("; ");
    }
    const shown = new Set([...document.querySelectorAll(".field input, .field select")].map((i) => i.name));
    at("problems").replaceChildren(...found.filter((p) => !shown.has(p.field)).map((p) =>
      element("p", { textContent: (p.key ? p.key + ": " : "") + p.message })));
  }

  // --- the state of the draft

  function changed(soon = TYPING_MS) {
    sessionStorage.setItem("draft-" + token, JSON.stringify(draft));
    at("undo").disabled = !past.length;
    clearTimeout(typing);
    typing = setTimeout(check, soon);
  }

  async function check() {
    const mine = ++asked;
    let found;
    try { found = await json("state", { draft }); } catch (error) { found = { problems: [{ message: error.message }] }; }
    if (mine !== asked) return;
    if (found.fields) fields(found.fields, "f");
    if (found.text !== undefined && document.activeElement !== at("yaml")) at("yaml").value = found.text;
    problems(found.problems);
    known = found.problems.length ? null : found;
    at("save").disabled = at("year").disabled = !known;
    for (const button of document.querySelectorAll("[data-copy]")) button.disabled = !known;
    mark();
    if (!known) { stop(); return say("Mend what is marked first."); }
    at("name").textContent = known.name;
    at("command").textContent = known.command;
    at("python").textContent = known.python;
    if (at("year").dataset.hash !== known.hash) {
      at("year").dataset.hash = known.hash;
      patient(0);
    }
    if (at("from").dataset.start !== known.start) at("from").value = at("from").dataset.start = known.start;
    line(known.line);
    if (at("search").value) search();
    go();
  }

  function line(of) {
    const box = (part) => {
      const button = element("button", { type: "button", title: "Show its keys" }, part.name, element("small", { textContent: [part.text, ...(part.loads || [])].filter(Boolean).join("; ") }));
      button.addEventListener("click", () => { at("search").value = part.key; search(); at("search").focus(); });
      return button;
    };
    at("line").replaceChildren(element("li", {}, ...of.pools.map(box)), ...of.stages.map((s) => element("li", {}, box(s))),
      element("li", {}, element("span", { className: "meter", textContent: "meter" })));
  }

  async function search() {
    const mine = ++searching, text = at("search").value.trim();
    const found = text ? (await json("state", { draft, words: text }).catch(() => ({ fields: [] }))).fields : [];
    if (mine !== searching) return;
    fields(found, "k");
    at("count").textContent = text ? (found.length >= 40 ? "The first 40 keys; more words find fewer." : found.length + (found.length === 1 ? " key" : " keys")) : "";
  }

  // --- runs

  // The day that the week starts on; that of the scenario where the field holds no date.
  function from() {
    const input = at("from"), is = input.value && input.checkValidity();
    input.setAttribute("aria-invalid", String(!is));
    at("from-error").textContent = is ? "" : "Not a date from 1900 to 2199; the week from " + known.start + " is shown.";
    return is ? input.value : known.start;
  }
  const week = () => known.hash + from();

  // Label the button that runs all; a run longer than allowed is run when it is pressed again.
  function patient(seconds) {
    at("year").dataset.patient = seconds ? "yes" : "";
    at("year").textContent = seconds ? "Run it all the same (" + minutes(seconds) + ")" : known.days > 360 && known.days < 370 ? "Run the year" : "Run all (" + known.duration + ")";
  }
  const minutes = (seconds) => seconds < 90 ? Math.ceil(seconds) + " s" : Math.ceil(seconds / 60) + " min";

  // Grey and name each frame that is not of the site in the form.
  function mark() {
    const is = (of) => of && (of.span === "look" || known && (of.hash === known.hash && (of.span === "year" || of.from === from())));
    for (const kind of ["picture", "report"]) {
      const of = shown[kind], label = at(kind + "-kind");
      label.hidden = !of;
      if (!of) continue;
      at(kind).classList.toggle("ghost", !is(of));
      label.className = "kind " + (is(of) ? of.span : "stale");
      const days = of.span === "week" ? "a week from " + of.from : of.span === "year" ? of.duration + " from " + of.start : "";
      label.textContent = !is(of) ? "Not the site in the form: " + of.title + ", " + days + "." : of.span === "week" ? "Preliminary, this week only. Verdicts are those of the whole run." : of.span === "year" ? "The whole run: " + days + "." : "Runs of the folder.";
    }
    const taken = is(answers.year);
    for (const button of document.querySelectorAll("[data-take], #format")) button.disabled = !taken;
    at("differences").hidden = !is(shown.picture);
  }

  function go() {
    if (ran === week()) return;
    ran = week();
    clearTimeout(resting);
    run(known.days > 8 ? "week" : "year", true);
  }

  function stop() {
    clearTimeout(resting);
    if (running) running.abort();
    running = null;
    at("cancel").disabled = true;
    at("progress").hidden = true;
  }

  async function run(span, automatic) {
    stop();
    const mine = running = new AbortController();
    mine.of = { hash: known.hash, title: known.title, start: known.start, duration: known.duration, from: from(), span };
    at("cancel").disabled = false;
    at("warnings").replaceChildren();
    at("warnings").hidden = true;
    at("forecast").textContent = "";
    mark();
    at("progress").removeAttribute("value");
    at("progress").hidden = false;
    say(span === "week" ? "Running a week" : "Running the year");
    const start = span === "week" && from() !== known.start ? from() : "", last = answers[span];
    const body = { draft, span, automatic, start, before: last ? last.id : "", patient: !automatic && at("year").dataset.patient === "yes" };
    await follow("run", body, mine, span);
    if (running !== mine) return;
    stop();
    if (span === "week" && mine.done) resting = setTimeout(() => run("year", true), REST_MS);
    else if (span === "year") refresh();
  }

  async function follow(name, body, mine, span) {
    try {
      const reader = (await post(name, body, mine.signal)).body.pipeThrough(new TextDecoderStream()).getReader();
      for (let rest = ""; ;) {
        const { done, value: more } = await reader.read();
        if (done) return;
        const lines = (rest + more).split("\n");
        rest = lines.pop();
        for (const text of lines) if (running === mine) heard(JSON.parse(text), mine, span);
      }
    } catch (error) {
      if (running === mine) say(error.message);
    }
  }

  function heard(message, mine, span) {
    if (message.waiting) say("Waiting: " + message.waiting + ".");
    if (message.forecast) at("forecast").textContent = (span === "week" ? "The week: " : "The year: ") + message.forecast + ".";
    if (message.stage) {
      if (message.fraction) at("progress").value = message.fraction;
      const text = (span === "week" ? "Week: " : span === "year" ? "Year: " : "") + message.stage;
      if (!at("status").textContent.startsWith(text)) say(text);
    }
    if (message.warning) { at("warnings").append(element("p", { textContent: "Warning: " + message.warning })); at("warnings").hidden = false; }
    if (message.frame) show(message.kind, message.frame, mine.of);
    if (message.run) {
      answers[span] = { ...mine.of, id: message.id };
      at("differences").replaceChildren(...(message.differences || []).map((text) => element("li", { textContent: text })));
      mark();
    }
    if (message.end) {
      mine.done = !message.problems.length;
      const long = message.too_long_s, whole = span === "week" ? "A week" : "The whole run";
      if (long && span === "year") patient(long);
      say(long ? whole + " is forecast to take " + minutes(long) + (span === "year" ? "; press the button to run it." : "; a coarser step is faster.") :
        !mine.done ? message.problems.join("; ") : span === "week" ? "The week is done; the year follows when you rest." : "Done.");
    }
  }

  // A new page takes the place of the one before once it is there.
  function show(kind, address, of) {
    const home = at(kind), old = [...home.children];
    const frame = element("iframe", { src: address, title: kind === "report" ? "Report" : "Power", className: old.length ? "coming" : "" });
    frame.addEventListener("load", () => {
      frame.className = "";
      for (const each of old) each.remove();
      home.dataset.shown = address;
      shown[kind] = of;
      mark();
    });
    home.append(frame);
    at("empty").hidden = true;
  }

  // --- what is taken away

  function copy(text, what) {
    navigator.clipboard.writeText(text).then(() => { at("taken").textContent = what + " copied."; },
      () => { at("taken").textContent = "The browser does not copy; the text is below."; });
  }

  async function take(what) {
    at("taken").textContent = "Making " + what + " ...";
    try {
      const answer = await post("take", { draft, runs: [answers.year.id], what });
      const name = /filename="?([^";]+)/.exec(answer.headers.get("content-disposition") || "") || ["", what];
      const link = element("a", { href: URL.createObjectURL(await answer.blob()), download: name[1] });
      link.click();
      URL.revokeObjectURL(link.href);
      at("taken").textContent = name[1] + " is among your downloads.";
    } catch (error) { at("taken").textContent = error.message; }
  }

  async function save(force = false) {
    try { at("taken").textContent = (await json("save", { draft, force })).saved + " saved."; } catch (error) {
      if (error.exists && confirm(known.name + ".yaml is in the folder already. Replace it?")) return save(true);
      at("taken").textContent = error.exists ? "Not saved: " + known.name + ".yaml is in the folder already." : error.message;
    }
    return refresh();
  }

  function chosen() { return [...document.querySelectorAll("#runs input:checked")].map((box) => box.value); }

  async function look() {
    stop();
    const mine = running = new AbortController();
    mine.of = { span: "look" };
    at("cancel").disabled = false;
    say("Opening");
    await follow("run", { draft, runs: chosen() }, mine, "look");
    if (running === mine) { stop(); ran = ""; at("picture").replaceChildren(); shown.picture = null; mark(); }
  }

  async function refresh() {
    const found = await json("start", {});
    const option = (name, kind) => element("option", { value: kind + ":" + name, textContent: name });
    const group = (label, names, kind) => element("optgroup", { label }, ...names.map((name) => option(name, kind)));
    at("start").replaceChildren(element("option", { value: "template:", textContent: "the template" }), group("In the folder", found.files, "file"), group("Shipped", found.shipped, "file"),
      ...(draft && draft.start === "text" ? [element("option", { value: "text:", textContent: "typed text" })] : []));
    if (draft) at("start").value = draft.start + ":" + (draft.file || "");
    at("format").replaceChildren(element("option", { value: "", textContent: "as ..." }), ...Object.entries(found.formats).map(([name, text]) => element("option", { value: name, textContent: name, title: text })));
    at("folder").textContent = found.folder + "/runs";
    const checked = chosen();
    at("runs").replaceChildren(...found.runs.map((name) => element("li", {}, element("label", {}, element("input", { type: "checkbox", value: name, checked: checked.includes(name) }), " " + name))));
    if (!found.runs.length) at("runs").append(element("li", { className: "muted", textContent: "None yet." }));
    return found;
  }

  // --- the page

  at("form").addEventListener("submit", (event) => event.preventDefault());
  at("search").addEventListener("input", () => { clearTimeout(at("search").timer); at("search").timer = setTimeout(search, TYPING_MS); });
  at("yaml").addEventListener("input", () => {
    remember("yaml");
    draft = { start: "text", file: draft.file, text: at("yaml").value, edits: [] };
    changed(600);
  });
  at("start").addEventListener("change", () => {
    const [start, ...rest] = at("start").value.split(":");
    remember("start");
    draft = { start, file: rest.join(":"), edits: [] };
    changed(0);
  });
  at("undo").addEventListener("click", () => {
    draft = JSON.parse(past.pop());
    past.key = "";
    for (const input of document.querySelectorAll(".field input, .field select")) {
      if (value(input.name) !== undefined) input.value = value(input.name);
    }
    at("start").value = draft.start + ":" + (draft.file || "");
    changed(0);
  });
  at("from").addEventListener("change", () => known && go());
  at("year").addEventListener("click", () => known && run("year", false));
  at("cancel").addEventListener("click", () => { stop(); say("Cancelled; nothing of it was kept."); });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape" && running) at("cancel").click(); });
  at("save").addEventListener("click", () => save());
  at("look").addEventListener("click", look);
  at("runs").addEventListener("change", () => { at("look").disabled = !chosen().length; at("look").textContent = chosen().length > 1 ? "Compare" : "Open"; });
  at("format").addEventListener("change", () => { if (at("format").value) take(at("format").value); at("format").value = ""; });
  for (const button of document.querySelectorAll("[data-copy]")) button.addEventListener("click", () => known && copy(known[button.dataset.copy], button.textContent.replace("Copy ", "")));
  for (const button of document.querySelectorAll("[data-take]")) button.addEventListener("click", () => take(button.dataset.take));

  refresh().then((found) => {
    draft = JSON.parse(sessionStorage.getItem("draft-" + token) || "null") || found.draft;
    at("start").value = draft.start + ":" + (draft.file || "");
    return check();
  }).catch((error) => say(error.message));
})();
