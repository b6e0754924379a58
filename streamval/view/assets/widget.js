// The run in a notebook: view.js stands before this. The model keeps the snapshot, views draw it.
//
// A short run comes whole, as the state of the widget, so that nothing can be lost while the widget is
// being loaded. A long one goes on in numbered patches; where one is missing, all of it is asked for.

const runs = new WeakMap();

function initialize({ model }) {
  const run = { snapshot: model.get("snapshot"), number: model.get("number"), displays: new Set() };
  runs.set(model, run);
  const draw = () => run.displays.forEach((display) => display.show(run.snapshot));
  model.on("change:number", () => {
    [run.snapshot, run.number] = [model.get("snapshot"), model.get("number")];
    draw();
  });
  model.on("msg:custom", (message) => {
    if (message.number === run.number + 1) {
      run.snapshot = patched(run.snapshot, message.patch);
      run.number = message.number;
      draw();
    } else if (message.number > run.number) {
      model.send({ missing: run.number });
    }
  });
}

function render({ model, el }) {
  const run = runs.get(model);
  const display = new Display(el);
  run.displays.add(display);
  display.show(run.snapshot);
  return () => run.displays.delete(display);
}

export default { initialize, render };
