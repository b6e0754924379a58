// The page of a drawing: hovering, or the arrow keys, tell of a chunk what its row in the table says.
const plot = document.querySelector(".plot");
const drawing = plot.querySelector("svg");
const details = document.getElementById("details");
const rows = [...document.querySelectorAll("table.chunks tbody tr")];
const heads = [...document.querySelectorAll("table.chunks thead th")].map((th) => th.textContent);
let at = -1;

function choose(row) {
  if (!row) return;
  at = rows.indexOf(row);
  const cells = [...row.cells].map((cell, n) => [heads[n], cell.textContent]);
  details.textContent = cells.filter(([, said]) => said).map(([name, said]) => `${name}: ${said}`).join("\n");
  drawing.querySelectorAll(".chosen").forEach((mark) => mark.classList.remove("chosen"));
  drawing.querySelectorAll(`[data-c="${row.dataset.c}"]`).forEach((mark) => mark.classList.add("chosen"));
}

drawing.addEventListener("mouseover", (event) => {
  const mark = event.target.closest("[data-c]");
  if (mark) choose(rows.find((row) => row.dataset.c === mark.dataset.c));
});
plot.addEventListener("keydown", (event) => {
  const all = rows.length;
  const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20, Home: -all, End: all };
  const step = steps[event.key];
  if (step === undefined) return;
  event.preventDefault();
  choose(rows[Math.min(Math.max(at + step, 0), rows.length - 1)]);
  drawing.querySelector(".chosen")?.scrollIntoView({ block: "nearest", inline: "center" });
});

// The names of the rows stay in sight, wherever the drawing is scrolled to.
let zoom = 1;
const names = [...drawing.querySelectorAll(".side")];
const atLeft = names.map((name) => name.getAttribute("x"));
function follow() {
  names.forEach((name, n) => {
    const margin = (parseFloat(atLeft[n]) / 100) * plot.clientWidth;
    name.setAttribute("x", zoom === 1 ? atLeft[n] : plot.scrollLeft + margin);
  });
}
plot.addEventListener("scroll", follow);
window.addEventListener("resize", follow);
for (const button of document.querySelectorAll(".tools button")) {
  button.addEventListener("click", () => {
    const middle = (plot.scrollLeft + plot.clientWidth / 2) / plot.scrollWidth;
    zoom = { in: Math.min(zoom * 2, 64), out: Math.max(zoom / 2, 1), all: 1 }[button.value];
    drawing.setAttribute("width", `${zoom * 100}%`);
    plot.scrollLeft = middle * plot.scrollWidth - plot.clientWidth / 2;
    follow();
  });
}
