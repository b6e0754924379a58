// The run in a notebook: view.js stands before this. One snapshot a widget, drawn by all of its views.
//
// A short run comes whole, as the state of the widget, so that nothing can be lost while the widget is
// being loaded. A long one goes on in numbered patches; where one is missing, all of it is asked for.

export default () => {
  const displays = new Set();
  let snapshot = null;
  let number = 0;

  function take(whole, from) {
    [snapshot, number] = [whole, from];
    displays.forEach((display) => display.show(snapshot));
  }

  function initialize({ model }) {
    const takeState = () => take(model.get("snapshot"), model.get("number"));
    takeState();
    model.on("change:number", takeState);
    model.on("msg:custom", (message) => {
      if (message.number === number + 1) take(patched(snapshot, message.patch), message.number);
      else if (message.number > number) model.send({ missing: number });
    });
  }

  function render({ el }) {
    const display = new Display(el);
    displays.add(display);
    display.show(snapshot);
    // The picture that takes its place has this line: without it, the page would jump.
    const times = document.createElement("details");
    times.append(Object.assign(document.createElement("summary"), { textContent: "Where its time went" }));
    times.append("Shown when the run is over.");
    el.append(times);
    return () => {
      display.wait(false);
      displays.delete(display);
    };
  }

  return { initialize, render };
};
