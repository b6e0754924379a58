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

// The point of the drawing at `x` (pixels from the left of the plot) stays where it is.
function zoomTo(wanted, x) {
  const point = (plot.scrollLeft + x) / plot.scrollWidth;
  zoom = Math.min(Math.max(wanted, 1), 64);
  drawing.setAttribute("width", `${zoom * 100}%`);
  plot.scrollLeft = point * plot.scrollWidth - x;
  follow();
}

plot.addEventListener("wheel", (event) => {
  const wanted = zoom * 1.2 ** -Math.sign(event.deltaY);
  if (!event.deltaY || event.shiftKey || (zoom === 1 && wanted < 1)) return; // the page scrolls
  event.preventDefault();
  zoomTo(wanted, event.clientX - plot.getBoundingClientRect().left);
}, { passive: false });

// The buttons zoom at the chosen chunk, else at the first failure, else in the middle.
for (const button of document.querySelectorAll(".tools button")) {
  button.addEventListener("click", () => {
    const mark = drawing.querySelector(".chosen") ?? drawing.querySelector("use.fail[data-c]") ?? plot;
    const middle = () => {
      const { left, width } = mark.getBoundingClientRect();
      return left + width / 2 - plot.getBoundingClientRect().left;
    };
    zoomTo({ in: zoom * 2, out: zoom / 2, all: 1 }[button.value], middle());
    plot.scrollLeft += middle() - plot.clientWidth / 2;
  });
}
