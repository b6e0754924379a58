// The page of --watch: snapshots and patches over server-sent events, and the drawing once a second.
import { Display, patched } from "./view.js";

const connection = document.getElementById("connection");
const times = document.getElementById("times");
const display = new Display(document.getElementById("run"));
const source = new EventSource("events");
let run = null;

source.onopen = () => { connection.textContent = "connected"; };
source.addEventListener("snapshot", (event) => show(JSON.parse(event.data)));
source.addEventListener("patch", (event) => show(patched(run, JSON.parse(event.data))));
source.onerror = () => { connection.textContent = isOver() ? "the run is over" : "not connected; trying again …"; };

const isOver = () => run !== null && !["waiting", "running"].includes(run.state);

function show(snapshot) {
  run = snapshot;
  display.show(run);
  document.title = `${run.state}: ${run.model}`;
  if (isOver()) connection.textContent = "the run is over";
  drawSoon();
}

// The drawing is made by Python: one second after the last at the earliest, and once more in the end.
let drawing = false;
let drawn = null;
let pause = 1000;
function drawSoon() {
  if (drawing || drawn === run) return;
  drawing = true;
  setTimeout(async () => {
    const of = run;
    const began = performance.now();
    try {
      const answer = await fetch("marbles.svg");
      const parsed = new DOMParser().parseFromString(await answer.text(), "image/svg+xml");
      times.replaceChildren(document.importNode(parsed.documentElement, true));
      drawn = of;
    } catch {
      connection.textContent = "not connected";
      drawn = of;
    }
    drawing = false;
    pause = Math.max(1000, 10 * (performance.now() - began)); // a long run is drawn less often
    if (run !== of) drawSoon();
  }, isOver() ? 0 : pause);
}
