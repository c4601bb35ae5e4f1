"use strict";
// Updates the page on changes, sends the forms, switches the theme. All content is made by the server: this script only
// fetches the page again and replaces the parts that are marked with data-live.
(() => {
  const root = document.documentElement;
  const one = (selector, within = document) => within.querySelector(selector);
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const parse = (text) => new DOMParser().parseFromString(text, "text/html");
  const take = (nodes) => nodes.map((n) => document.importNode(n, true));

  // The theme is the system's, until the user chooses one.
  const themes = ["", "light", "dark"], names = { "": "Auto", light: "Light", dark: "Dark" };
  const stored = () => { try { return localStorage.getItem("vmcp-theme") || ""; } catch { return ""; } };
  function setTheme(theme) {
    if (!themes.includes(theme)) theme = "";
    if (theme) root.dataset.theme = theme; else delete root.dataset.theme;
    const button = one("[data-theme-switch]");
    if (!button) return;
    button.hidden = false;
    button.textContent = names[theme];
    button.setAttribute("aria-label", "Theme: " + names[theme] + ". Switch");
    button.onclick = () => {
      const next = themes[(themes.indexOf(theme) + 1) % themes.length];
      try { localStorage.setItem("vmcp-theme", next); } catch { /* it applies to this page only */ }
      setTheme(next);
    };
  }
  setTheme(stored());

  // refresh fetches the page again. A part in which the user types, has opened something or selects text is not replaced.
  let due, fetching = false, again = false;
  function later() { clearTimeout(due); due = setTimeout(refresh, 150); }
  const busy = (part) => {
    const at = document.activeElement, selection = getSelection();
    return (part.contains(at) && at.matches("input, textarea, select")) || one("details[open]", part) || one("[data-sent]", part) ||
      all("input, textarea", part).some((f) => f.type === "checkbox" ? f.checked !== f.defaultChecked : f.value !== f.defaultValue) ||
      (selection && !selection.isCollapsed && selection.containsNode(part, true));
  };
  async function refresh() {
    if (fetching) { again = true; return; }
    fetching = true;
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" }, cache: "no-store" });
      if (answer.status === 401) { location.reload(); return; }
      if (answer.ok) place(parse(await answer.text()));
    } catch { /* the connection is lost: the event stream reports when it is back */ } finally {
      fetching = false;
      if (again) { again = false; later(); }
    }
  }
  function place(fresh) {
    for (const part of all("[data-live]")) {
      const next = one(`[data-live="${part.dataset.live}"]`, fresh);
      if (!next || busy(part) || next.isEqualNode(part)) continue;
      const focused = part.contains(document.activeElement) && document.activeElement;
      const href = focused && focused.getAttribute("href"), top = part.scrollTop;
      const [node] = take([next]);
      part.replaceWith(node);
      node.scrollTop = top;
      if (href) all("a", node).find((a) => a.getAttribute("href") === href)?.focus({ preventScroll: true });
      ready(node);
    }
    filter();
  }

  // One stream of events per page: browsers have six connections to a host.
  const connection = one("[data-connection]");
  function follow() {
    const events = new EventSource("/api/v1/events");
    events.onopen = () => { connection.hidden = false; connection.dataset.connection = "open"; connection.lastElementChild.textContent = "live"; };
    events.onerror = () => { connection.hidden = false; connection.dataset.connection = "lost"; connection.lastElementChild.textContent = "reconnecting";
      if (events.readyState === EventSource.CLOSED) setTimeout(follow, 5000); };
    const on = () => { if (document.body.hasAttribute("data-follow")) later(); };
    for (const kind of ["backend", "catalog", "run", "config"]) events.addEventListener(kind, on);
    addEventListener("pagehide", () => events.close());
    addEventListener("pageshow", (e) => { if (e.persisted) location.reload(); });
  }
  if (connection) follow();
  // Ages of what is in progress change without an event.
  setInterval(() => { if (document.body.hasAttribute("data-follow") && !document.hidden && one('[data-run][data-state="running"], [data-running]')) later(); }, 2000);

  // valueOf is the JSON text of a field; numbers are unchanged. undefined: the field is left out.
  function valueOf(field) {
    const input = one("input, select, textarea", field), text = input.value, always = field.hasAttribute("data-always");
    switch (field.dataset.kind) {
      case "boolean": return input.checked ? "true" : always ? "false" : undefined;
      case "choice": return text || undefined;
      case "string": case "text": return text || always ? JSON.stringify(text) : undefined;
      case "number":
        if (!text.trim()) return undefined;
        if (!/^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/.test(text.trim())) throw wrong(input, "want a number, such as 12 or 0.5");
        return text.trim();
      default: return text.trim() ? checked(input) : undefined;
    }
  }
  function checked(input) {
    try { JSON.parse(input.value); } catch (e) { throw wrong(input, "invalid JSON: " + e.message); }
    return input.value.trim();
  }
  function wrong(input, text) {
    input.setCustomValidity(text);
    input.reportValidity();
    input.addEventListener("input", () => input.setCustomValidity(""), { once: true });
    return new Error(text);
  }
  function objectOf(form) {
    const raw = one("[data-raw]", form);
    if (raw && raw.value.trim()) return checked(raw);
    const members = [];
    for (const field of all(".field", form)) {
      const value = valueOf(field);
      if (value !== undefined) members.push(JSON.stringify(one("input, select, textarea", field).name) + ":" + value);
    }
    return "{" + members.join(",") + "}";
  }

  // post sends JSON and shows the fragment of HTML in the response.
  async function post(url, body, place, signal) {
    let nodes;
    try {
      const answer = await fetch(url, { method: "POST", headers: { "Content-Type": "application/json", Accept: "text/html" }, body, signal, cache: "no-store" });
      if (answer.status === 401) location.reload();
      nodes = take([...parse(await answer.text()).body.childNodes]);
    } catch (e) {
      const p = document.createElement("p");
      p.className = "notice bad";
      p.textContent = e.name === "AbortError" ? "Cancelled: the page no longer waits for the result." : "The endpoint does not answer: " + e.message;
      nodes = [p];
    }
    place.replaceChildren(...nodes);
    place.scrollIntoView({ block: "nearest" });
  }

  // A call: from its form, and again with the answers while the result is input_required.
  function call(form) {
    const place = form.parentElement.querySelector("[data-result]"), send = one("[data-send]", form), stop = one("[data-abort]", form), took = one("[data-took]", form);
    async function run(more) {
      const control = new AbortController(), began = performance.now();
      const clock = setInterval(() => { took.textContent = Math.round((performance.now() - began) / 1000) + " s"; }, 1000);
      stop.onclick = () => control.abort();
      stop.hidden = false;
      send.disabled = true;
      took.textContent = "calling…";
      place.setAttribute("aria-busy", "true");
      await post(form.dataset.url, "{\"arguments\":" + form.sent + more + "}", place, control.signal);
      clearInterval(clock);
      place.removeAttribute("aria-busy");
      stop.hidden = true;
      send.disabled = false;
      took.textContent = "took " + Math.round(performance.now() - began) + " ms";
      for (const ask of all("form[data-continue]", place)) {
        one("input, select, textarea, button", ask)?.focus();
        ask.addEventListener("submit", (e) => {
          e.preventDefault();
          try { run(answers(ask, e.submitter)); } catch { /* shown at the field */ }
        });
      }
    }
    send.disabled = false;
    form.addEventListener("submit", (e) => {
      e.preventDefault();
      if (send.disabled) return;
      try { form.sent = objectOf(form); run(""); } catch { /* shown at the field */ }
    });
    form.addEventListener("keydown", (e) => { if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) form.requestSubmit(send); });
  }
  function answers(form, button) {
    const members = all("fieldset[data-question]", form).map((set) => {
      const action = set.contains(button) || form.children.length === 1 ? button?.value || "accept" : "accept";
      return JSON.stringify(set.dataset.question) + ":" + elicited(set, action);
    });
    return ",\"requestState\":" + JSON.stringify(form.dataset.requestState) + (members.length ? ",\"inputResponses\":{" + members.join(",") + "}" : "");
  }
  const elicited = (set, action) => "{\"action\":" + JSON.stringify(action) + (action === "accept" ? ",\"content\":" + objectOf(set) : "") + "}";

  // An answer to a question of a kept run.
  function answer(form) {
    form.addEventListener("submit", async (e) => {
      e.preventDefault();
      const set = one("fieldset", form), action = e.submitter?.value || "accept";
      let body;
      try { body = "{\"key\":" + JSON.stringify(set.dataset.question) + ",\"action\":" + JSON.stringify(action) + (action === "accept" ? ",\"content\":" + objectOf(set) : "") + "}"; } catch { return; }
      form.dataset.sent = "";
      await post(form.dataset.url, body, one("[data-result]", form));
      delete form.dataset.sent;
      if (one('[data-look="done"]', form)) { form.reset(); document.activeElement?.blur(); later(); }
    });
  }

  // filter hides the tools that lack one of the words.
  const query = one("[data-filter]");
  let touched = false;
  function filter() {
    if (!touched) return;
    const words = query.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const group of all("[data-group]")) {
      let shown = 0;
      for (const tool of all("[data-tool]", group)) {
        const text = (tool.textContent + " " + one("h2", group).textContent).toLowerCase();
        tool.hidden = !words.every((w) => text.includes(w));
        if (!tool.hidden) shown++;
      }
      group.hidden = !shown;
    }
  }
  query?.addEventListener("input", () => { touched = true; filter(); });

  function ready(within) {
    all("form[data-call]", within).forEach(call);
    all("form[data-answer]", within).forEach(answer);
  }
  ready(document);
})();
