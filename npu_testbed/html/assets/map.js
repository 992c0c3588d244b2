// The arena over time: every tensor's live bytes, rolling buffers and staged weights, with their names.
const KINDS = {
  "input of the network": ["input"],
  "output of the network": ["output"],
  "tensor between layers, rows that are alive": ["first", "second", "third", "fourth"],
  "rolling buffer": ["rolling", "rolling-second"],
  "staged weights": ["staged"],
};

function showMap(map) {
  const HEIGHT = 446, TOP = 12, BOTTOM = HEIGHT - AXIS;
  const most = Math.max(map.bytes, map.budget || 0, 1) * 1.04;
  const toY = (bytes) => BOTTOM - (bytes / most) * (BOTTOM - TOP);

  // A line at a number of bytes; the legend names it, so that no words lie on what is drawn.
  function limit(context, width, bytes, name) {
    context.strokeStyle = colour(name);
    context.lineWidth = 2;
    context.setLineDash([8, 4]);
    context.beginPath();
    context.moveTo(LEFT, toY(bytes));
    context.lineTo(width - RIGHT, toY(bytes));
    context.stroke();
    context.setLineDash([]);
  }

  function drawArea(context, width, area, index) {
    const fills = KINDS[area.kind];
    context.fillStyle = colour(fills[index % fills.length]);
    context.strokeStyle = colour("ground");
    context.lineWidth = 0.5;
    const seen = [];
    for (const [start, end, low, high] of area.slabs) {
      if (end <= time.from || start >= time.to) continue;
      const left = Math.max(timeToX(start, width), LEFT), right = Math.min(timeToX(end, width), width - RIGHT);
      context.fillRect(left, toY(high), Math.max(right - left, 0.4), toY(low) - toY(high));
      if (right - left > 3) context.strokeRect(left, toY(high), right - left, toY(low) - toY(high));
      seen.push([left, right, toY(high), toY(low)]);
    }
    return roomOf(seen);
  }

  // The widest box, high enough for a line of text, that lies in slabs that follow each other.
  function roomOf(boxes) {
    let best = null;
    for (let first = 0; first < boxes.length; first++) {
      let [left, right, top, bottom] = boxes[first];
      for (let next = first; next < Math.min(first + 24, boxes.length); next++) {
        const box = boxes[next];
        if (next > first && box[0] - right > 1) break;
        [right, top, bottom] = [box[1], Math.max(top, box[2]), Math.min(bottom, box[3])];
        if (bottom - top < 13) break;
        if (!best || right - left > best[1] - best[0]) best = [left, right, top, bottom];
      }
    }
    return best;
  }

  // A name on its area's colour, which hides the borders of slabs below it.
  function name(context, area, index, room) {
    const [left, right, top, bottom] = room, fills = KINDS[area.kind];
    const fitting = [area.name.split(";")[0], area.short, area.short.split("/")[0]].find((one) => context.measureText(one).width < right - left - 4);
    if (!fitting) return;
    const wide = context.measureText(fitting).width;
    context.fillStyle = colour(fills[index % fills.length]);
    context.fillRect((left + right - wide) / 2 - 2, (top + bottom) / 2 - 6, wide + 4, 12);
    context.fillStyle = colour("ink");
    context.textAlign = "center";
    context.fillText(fitting, (left + right) / 2, (top + bottom) / 2);
  }

  function draw(context, width) {
    timeAxis(context, width, TOP, BOTTOM);
    context.textAlign = "right";
    for (const value of ticks(0, most / 1024, 8)) {
      context.fillStyle = colour("faint");
      context.fillText(value.toLocaleString("en-US") + " KiB", LEFT - 8, toY(value * 1024));
    }
    const rooms = map.areas.map((area, index) => drawArea(context, width, area, index));
    rooms.forEach((room, index) => room && name(context, map.areas[index], index, room));
    limit(context, width, map.bytes, "limit");
    if (map.budget && map.budget !== map.bytes) limit(context, width, map.budget, "budget");
  }

  function tell(x, y) {
    const cycle = xToTime(x, canvas.clientWidth), bytes = ((BOTTOM - y) / (BOTTOM - TOP)) * most;
    for (const area of map.areas) {
      const slab = area.slabs.find(([start, end, low, high]) => start <= cycle && cycle < end && low <= bytes && bytes < high);
      if (slab) return `${area.name}\n${area.kind}\nbytes ${number(slab[2])} to ${number(slab[3])}, cycles ${number(slab[0])} to ${number(slab[1])}`;
    }
    return "";
  }

  const canvas = zoomable(canvasOf(HEIGHT, "SRAM over the cycles", draw), tell);
  canvas.id = "map";
  const limits = [["dashed limit", `end of the arena: ${number(map.bytes)} bytes`]];
  if (map.budget && map.budget !== map.bytes) limits.push(["dashed budget", `budget: ${number(map.budget)} bytes`]);
  section("SRAM over time", "Addresses over NPU cycles. The wheel zooms, dragging moves, a double click shows all.", canvas,
    legend([...limits, ["input", "input"], ["output", "output"], [KINDS["tensor between layers, rows that are alive"], "tensor"], [KINDS["rolling buffer"], "rolling buffer"], ["staged", "staged weights"]]));
}
