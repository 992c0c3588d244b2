// The cycles that are in view: one axis for the map and the timeline, so that what lies above each other happens together.
const LEFT = 138, RIGHT = 14;
const time = { from: 0, to: 1, whole: 1 };

function startTime(cycles) {
  time.whole = time.to = Math.max(cycles, 1);
}

function look(from, to) {
  const span = Math.min(Math.max(to - from, 20), time.whole);
  time.from = Math.min(Math.max(from, 0), time.whole - span);
  time.to = time.from + span;
  redraw();
}

const timeToX = (cycle, width) => LEFT + ((cycle - time.from) / (time.to - time.from)) * (width - LEFT - RIGHT);
const xToTime = (x, width) => time.from + ((x - LEFT) / (width - LEFT - RIGHT)) * (time.to - time.from);

function timeAxis(context, width, top, bottom) {
  context.textAlign = "center";
  for (const value of ticks(time.from, time.to, Math.max(2, Math.floor(width / 140)))) {
    const x = timeToX(value, width);
    context.fillStyle = colour("line");
    context.fillRect(x, top, 1, bottom - top);
    context.fillStyle = colour("faint");
    context.fillText(number(value), x, bottom + 10);
  }
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
