// Shows a run: the snapshots of RunView, kept up to date by the patches of streamval.view.patch.

export function patched(old, change) {
  if (change === null || typeof change !== "object" || Array.isArray(change)) return change;
  if (Array.isArray(old)) return old.slice(0, change.keep).concat(change.add);
  if (typeof old === "string") return old + change.add;
  if (old === null || typeof old !== "object") return change;
  const now = { ...old };
  for (const [name, value] of Object.entries(change)) {
    now[name] = name in old ? patched(old[name], value) : value;
  }
  return now;
}

// Characters that steer, or turn the direction of what follows, as something to look at.
const visible = (text) =>
  text
    .replace(/[\u0000-\u0008\u000b-\u001f]/g, (c) => String.fromCharCode(0x2400 + c.charCodeAt(0)))
    .replace(/[\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g, "\ufffd");

// Whatever others wrote is put in as text, never as markup.
function element(tag, text = "", kind = "") {
  const made = document.createElement(tag);
  made.textContent = visible(text);
  made.className = kind;
  return made;
}

const MARKS = { pass: "✓", fail: "✗", unknown: "·", waiting: "·" };
const PROMPT = 2000; // characters that are shown
const KINDS = { pass: "good", fail: "bad" };
const WENT_ON = {
  continue: "went on from there",
  ask: "was asked to go on from there",
  restart: "began again",
};

export class Display {
  constructor(root) {
    root.classList.add("sv-run", "live");
    const part = (tag, kind, attributes = {}) => {
      const made = element(tag, "", kind);
      for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
      root.append(made);
      return made;
    };
    this.head = part("div", "head");
    this.prompt = part("div", "prompt", { "aria-label": "The prompt" });
    this.thought = part("details", "reasoning", { "aria-label": "The reasoning" });
    this.text = part("div", "text", { role: "log", "aria-label": "The text", tabindex: "0" });
    this.pending = element("span", "", "pending");
    this.calls = part("table", "calls", { "aria-label": "Calls of tools" });
    this.rows = part("table", "rows", { "aria-label": "Requirements" });
    this.attempts = part("table", "attempts", { "aria-label": "Attempts that failed" });
    this.outcome = part("div", "outcome", { role: "status" });
    this.error = part("div", "bad", { role: "status" });
    // Read by eyes only: a screen reader would say it each second.
    this.clock = part("span", "", { "aria-hidden": "true" });
    this.clear(null);
  }

  clear(runId) {
    this.runId = runId;
    this.segments = [];
    this.shown = {};
    this.text.replaceChildren(this.pending);
  }

  show(run) {
    if (run.run_id !== this.runId) this.clear(run.run_id);
    for (const segment of run.text.slice(this.segments.length)) {
      const text = "bytes" in segment ? `♪ ${segment.bytes} bytes ` : segment.text;
      this.segments.push(this.pending.parentNode.insertBefore(element("span", text), this.pending));
    }
    for (const attempt of run.attempts) {
      if (attempt.taken_back !== null) this.strike(...attempt.taken_back);
    }
    if (this.isNew("pending", run.pending)) this.pending.textContent = visible(run.pending);
    if (this.isNew("head", [run.model, run.chunking, run.stage])) {
      const stage = run.stage ? ` · stage ${run.stage}` : "";
      const chunking = run.chunking && ` · ${run.chunking} by ${run.chunking}`;
      this.head.textContent = visible(run.model + chunking + stage);
    }
    if (this.isNew("reasoning", [run.reasoning, run.thought])) this.think(run.reasoning, run.thought);
    if (this.isNew("called", run.called)) this.calls.replaceChildren(...run.called.map(callOf));
    if (this.isNew("rows", run.rows)) this.rows.replaceChildren(...run.rows.map(rowOf));
    if (this.isNew("attempts", run.attempts)) {
      this.attempts.replaceChildren(...run.attempts.slice(0, -1).map(attemptOf));
    }
    if (this.isNew("prompt", run.prompt)) this.prompt.textContent = visible(run.prompt.slice(0, PROMPT));
    if (this.isNew("outcome", run.outcome)) {
      this.outcome.replaceChildren(...run.outcome.map(([said, kind]) => element("span", said, kind)), this.clock);
    }
    if (this.isNew("error", run.error)) this.error.textContent = visible(run.error ?? "");
    this.wait(run.quiet);
  }

  // The time spent waiting for the first words of an attempt, counted here: no event says that nothing comes.
  wait(quiet) {
    if (quiet === (this.timer !== undefined)) return;
    clearInterval(this.timer);
    this.timer = undefined;
    this.clock.textContent = "";
    if (!quiet) return;
    const began = performance.now();
    const tell = () => {
      this.clock.textContent = ` · waiting for the model, ${Math.floor((performance.now() - began) / 1000)} s`;
    };
    tell();
    this.timer = setInterval(tell, 1000);
  }

  // What the model thinks, folded: the reader opens it.
  think({ text, pending, rejected }, said) {
    this.thought.hidden = !(text || pending || rejected);
    const parts = [element("summary", said), element("span", text)];
    if (rejected) parts.push(element("del", rejected));
    this.thought.replaceChildren(...parts, element("span", pending, "pending"));
  }

  isNew(name, value) {
    const json = JSON.stringify(value);
    const is = this.shown[name] !== json;
    this.shown[name] = json;
    return is;
  }

  strike(from, to) {
    for (let at = from; at < to; at++) {
      const was = this.segments[at];
      if (was.tagName === "DEL") continue;
      const struck = document.createElement("del");
      struck.textContent = was.textContent;
      was.replaceWith(struck);
      this.segments[at] = struck;
    }
  }
}

function duration(seconds) {
  const [value, unit] = seconds < 1 ? [seconds * 1000, "ms"] : [seconds, "s"];
  return `${Number(value.toPrecision(value < 1 ? 2 : 3))} ${unit}`;
}

function rowOf(row) {
  const made = document.createElement("tr");
  const took = row.seconds ? `, ${duration(row.seconds)}` : "";
  const judged = row.judged ? `${row.judged} judged${took}` : "";
  const kind = KINDS[row.state] ?? "";
  const mark = element("td", MARKS[row.state], kind);
  mark.setAttribute("aria-label", row.state);
  const failed = row.state === "fail";
  made.append(mark, element("td", row.name), element("td", failed ? row.reason : judged, failed ? "bad" : ""));
  return made;
}

function callOf([said, kind]) {
  const made = document.createElement("tr");
  const cell = document.createElement("td");
  cell.append(element(kind === "bad" ? "del" : "code", said));
  made.append(element("td", "→", kind), cell);
  return made;
}

function attemptOf(attempt) {
  const made = document.createElement("tr");
  const went = WENT_ON[attempt.mode] ?? "";
  made.append(
    element("td", "↻", "warning"),
    element("td", `attempt ${attempt.number} rejected`),
    element("td", attempt.reason, "bad"),
    element("td", went, "warning"),
  );
  return made;
}
