// The cycles that are in view: one axis for the map and the timeline, so that what lies above each other happens together.
const LEFT = 138, RIGHT = 14, AXIS = 48;
const time = { from: 0, to: 1, whole: 1, clock: 1e9 };

function startTime(cycles, clock) {
  time.whole = time.to = Math.max(cycles, 1);
  time.clock = clock;
}

function look(from, to) {
  const span = Math.min(Math.max(to - from, 20), time.whole);
  time.from = Math.min(Math.max(from, 0), time.whole - span);
  time.to = time.from + span;
  redraw();
}

const timeToX = (cycle, width) => LEFT + ((cycle - time.from) / (time.to - time.from)) * (width - LEFT - RIGHT);
const xToTime = (x, width) => time.from + ((x - LEFT) / (width - LEFT - RIGHT)) * (time.to - time.from);

// Two scales below the drawing: cycles, with a line for each, and the time at the clock. Both take AXIS pixels.
function timeAxis(context, width, top, bottom) {
  const most = Math.max(2, Math.floor((width - LEFT) / 110)), micro = 1e6 / time.clock;
  const unit = (time.to - time.from) * micro >= 5000 ? ["ms", micro / 1000] : ["µs", micro];
  const words = (value) => Number(value.toPrecision(9)).toLocaleString("en-US", { maximumFractionDigits: 6 });
  function scale(name, factor, y, lines) {
    context.fillStyle = colour("faint");
    context.textAlign = "right";
    context.fillText(name, LEFT - 8, y);
    for (const value of ticks(time.from * factor, time.to * factor, most)) {
      const x = timeToX(value / factor, width), half = context.measureText(words(value)).width / 2;
      context.fillStyle = colour("line");
      if (lines) context.fillRect(x, top, 1, bottom - top);
      context.fillStyle = colour("faint");
      context.textAlign = "center";
      if (x - half > LEFT - 6 && x + half < width) context.fillText(words(value), x, y);
      else if (x - half <= LEFT - 6 && x + 2 * half < width) { context.textAlign = "left"; context.fillText(words(value), LEFT, y); }
    }
  }
  scale("cycles", 1, bottom + 17, true);
  scale(`${unit[0]} at ${number(time.clock / 1e6)} MHz`, unit[1], bottom + 35, false);
}

// The wheel zooms about the pointer, dragging moves, a double click shows all; `tell(x, y)` is what the tip says.
function zoomable(canvas, tell) {
  let dragged = null;
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const at = xToTime(event.offsetX, canvas.clientWidth), factor = Math.exp(event.deltaY * 0.002);
    look(at - (at - time.from) * factor, at + (time.to - at) * factor);
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => {
    dragged = { x: event.offsetX, from: time.from };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointerup", () => { dragged = null; });
  canvas.addEventListener("pointermove", (event) => {
    if (dragged) {
      const span = time.to - time.from, cycles = ((event.offsetX - dragged.x) / (canvas.clientWidth - LEFT - RIGHT)) * span;
      look(dragged.from - cycles, dragged.from - cycles + span);
    }
    showTip(event, tell(event.offsetX, event.offsetY));
  });
  canvas.addEventListener("pointerleave", (event) => showTip(event, ""));
  canvas.addEventListener("dblclick", () => look(0, time.whole));
  return canvas;
}
