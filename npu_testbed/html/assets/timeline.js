// The timeline: layers, stripes, units with their waits, and the bytes of each port.
// What a unit waits for, by the cause of its wait; two causes are a full buffer for one unit and an empty one for the other.
const WAITS = {
  "wait-flash": "waits for weights, copies or commands",
  "wait-sram": "waits for input from the arena",
  "wait-mac": "waits for the MAC array",
  "wait-out": "waits for the output unit or the write-back",
  "wait-order": "waits for the kernel before it",
  "wait-queue": "is ahead: its queue is full",
};
const WAITED = {
  "command fetch": "wait-flash", "decoded weights": "wait-flash", "scales": "wait-flash", "DMA_WAIT": "wait-flash", "AXI1": "wait-flash",
  "AXI0": "wait-sram", "decoded-weight buffer full": "wait-mac", "output buffer": "wait-out",
  "KERNEL_WAIT": "wait-order", "BLOCKDEP": "wait-order", "SHRAM reconfiguration": "wait-order", "kernel start": "wait-order", "outstanding work at the end": "wait-order",
  "kernel queue full": "wait-queue", "DMA queue full": "wait-queue",
};
function waitColour(unit, cause) {
  if (cause === "input buffer") return unit === "MAC array" ? "wait-sram" : "wait-mac";
  if (cause === "accumulators") return unit === "MAC array" ? "wait-out" : "wait-mac";
  return WAITED[cause];
}

function showTimeline(line) {
  const ROW = 24, TOP = 8;
  const rows = ["layers", "stripes", ...line.units, ...line.ports];
  const HEIGHT = TOP + rows.length * ROW + AXIS, firstPort = 2 + line.units.length;
  const colourOf = line.units.map((unit) => line.causes.map((cause) => waitColour(unit, cause)));
  const perUnit = line.units.map((_, unit) => line.events.filter((event) => event[0] === unit));
  const widest = Math.max(1e-9, ...line.operations.flatMap((one) => one[5].map((bytes) => bytes / Math.max(one[2], 1))));
  const runs = [];
  for (const [layer, start, length, , kernel] of line.operations) {
    const last = runs[runs.length - 1];
    if (!kernel) continue;
    if (last && last.layer === layer) last.end = start + length;
    else runs.push({ layer, start, end: start + length });
  }
  const layerColour = (layer) => colour(["first", "second", "third", "fourth"][layer % 4]);

  function band(context, width, row, start, end, fill, words) {
    if (end <= time.from || start >= time.to) return;
    const left = Math.max(timeToX(start, width), LEFT), right = Math.min(timeToX(end, width), width - RIGHT);
    context.fillStyle = fill;
    context.fillRect(left, TOP + row * ROW + 2, Math.max(right - left - (right - left > 3 ? 1 : 0), 0.3), ROW - 4);
    if (words && context.measureText(words).width < right - left - 6) {
      context.fillStyle = colour("ink");
      context.textAlign = "center";
      context.fillText(words, (left + right) / 2, TOP + row * ROW + ROW / 2);
    }
  }

  // What part of every column of pixels a unit was busy, or waited for what: bars of that height.
  function unitRow(context, width, unit) {
    const columns = Math.max(1, Math.floor(width - LEFT - RIGHT)), cycles = (time.to - time.from) / columns;
    const sums = {};
    for (const [, cause, start, length, , busy] of perUnit[unit]) {
      if (start + length <= time.from || start >= time.to) continue;
      const column = sums[cause < 0 ? "busy" : colourOf[unit][cause]] ||= new Float64Array(columns), density = busy === undefined ? 1 : busy / Math.max(length, 1);
      const first = Math.max(0, Math.floor((start - time.from) / cycles)), last = Math.min(columns - 1, Math.floor((start + length - time.from) / cycles));
      for (let at = first; at <= last; at++) {
        const low = time.from + at * cycles;
        column[at] += density * Math.max(0, Math.min(start + length, low + cycles) - Math.max(start, low)) / cycles;
      }
    }
    const heights = new Float64Array(columns), bottom = TOP + (2 + unit) * ROW + ROW - 2;
    for (const name of ["busy", ...Object.keys(WAITS)]) {
      if (!sums[name]) continue;
      context.fillStyle = colour(name);
      for (let at = 0; at < columns; at++) {
        const part = Math.min(sums[name][at], 1 - heights[at]) * (ROW - 4);
        if (part > 0.05) context.fillRect(LEFT + at, bottom - heights[at] * (ROW - 4) - part, 1, part);
        heights[at] = Math.min(1, heights[at] + sums[name][at]);
      }
    }
  }

  function draw(context, width) {
    timeAxis(context, width, TOP, HEIGHT - AXIS);
    rows.forEach((name, row) => {
      context.textAlign = "right";
      context.fillStyle = colour("faint");
      context.fillText(name, LEFT - 8, TOP + row * ROW + ROW / 2);
    });
    for (const run of runs) band(context, width, 0, run.start, run.end, layerColour(run.layer), line.short[run.layer]);
    for (const [layer, start, length, , kernel, moved] of line.operations) {
      if (kernel) band(context, width, 1, start, start + length, layerColour(layer), "");
      moved.forEach((bytes, port) => {
        if (!bytes || start + length <= time.from || start >= time.to) return;
        const left = Math.max(timeToX(start, width), LEFT), right = Math.min(timeToX(start + length, width), width - RIGHT);
        const high = (bytes / Math.max(length, 1) / widest) * (ROW - 4);
        context.fillStyle = colour("busy");
        context.fillRect(left, TOP + (firstPort + port + 1) * ROW - 2 - high, Math.max(right - left, 0.5), high);
      });
    }
    line.units.forEach((_, unit) => unitRow(context, width, unit));
  }

  const at = (list, cycle, from, length) => list.find((one) => one[from] <= cycle && cycle < one[from] + one[length]);
  function tell(x, y) {
    const cycle = xToTime(x, canvas.clientWidth), row = Math.floor((y - TOP) / ROW);
    if (x < LEFT || row < 0 || row >= rows.length) return "";
    if (row >= 2 && row < firstPort) {
      const event = at(perUnit[row - 2], cycle, 2, 3);
      if (!event) return `${rows[row]}: idle at cycle ${number(cycle)}`;
      const operation = line.operations[event[4]], does = event[1] < 0 ? "works" : `waits: ${line.causes[event[1]]}`;
      const said = operation ? `${line.layers[operation[0]]}\n${operation[3]}\n` : "";
      const spent = event[5] === undefined ? event[3] : event[5];
      return `${rows[row]} ${does}\n${said}${number(spent)} cycles from ${number(event[2])} to ${number(event[2] + event[3])}`;
    }
    const kernels = row < 2 ? line.operations.filter((one) => one[4]) : line.operations.filter((one) => one[5][row - firstPort]);
    const one = at(kernels, cycle, 1, 2);
    if (!one) return "";
    const bytes = row < 2 ? "" : `\n${number(one[5][row - firstPort])} bytes, ${(one[5][row - firstPort] / Math.max(one[2], 1)).toFixed(2)} a cycle`;
    return `${line.layers[one[0]]}\n${one[3]}\n${number(one[2])} cycles from ${number(one[1])}${bytes}`;
  }

  const canvas = zoomable(canvasOf(HEIGHT, "Units and ports over the cycles", draw), tell);
  canvas.id = "timeline";
  const detail = line.every_event ? "Every block of every kernel is there." : "What a unit did for one kernel is one bar: there are too many blocks to show each.";
  section("Timeline", `Units over the same cycles; a bar's height is the part of the time. ${detail} Ports show each operation's mean.`, canvas,
    legend([["busy", "works, or moves bytes"], ...Object.entries(WAITS)]));
}
