// The arena over time: every tensor's live bytes, rolling buffers and staged weights, with their names.
const KINDS = {
  "input of the network": ["input"],
  "output of the network": ["output"],
  "tensor between layers, rows that are alive": ["first", "second", "third", "fourth"],
  "rolling buffer": ["rolling", "rolling-second"],
  "staged weights": ["staged"],
};

function showMap(map) {
  const HEIGHT = 420, TOP = 12, BOTTOM = HEIGHT - 26;
  const most = Math.max(map.bytes, map.budget || 0, 1) * 1.04;
  const toY = (bytes) => BOTTOM - (bytes / most) * (BOTTOM - TOP);

  // A line at a number of bytes with words at one end, `lines` of text lower than beside it.
  function limit(context, width, bytes, words, side, lines = 0) {
    context.strokeStyle = context.fillStyle = colour("limit");
    context.setLineDash([8, 4]);
    context.beginPath();
    context.moveTo(LEFT, toY(bytes));
    context.lineTo(width - RIGHT, toY(bytes));
    context.stroke();
    context.setLineDash([]);
    const x = side === "right" ? width - RIGHT - 4 : LEFT + 4, y = (toY(bytes) - 8 < 6 ? toY(bytes) + 9 : toY(bytes) - 8) + 15 * lines;
    if (lines) {
      // Below its line the label lies on what is drawn there.
      const wide = context.measureText(words).width;
      context.fillStyle = colour("ground");
      context.globalAlpha = 0.8;
      context.fillRect(side === "right" ? x - wide - 2 : x - 2, y - 7, wide + 4, 14);
      context.globalAlpha = 1;
      context.fillStyle = colour("limit");
    }
    context.textAlign = side;
    context.fillText(words, x, y);
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

  function name(context, area, room) {
    const [left, right, top, bottom] = room;
    const fitting = [area.name.split(";")[0], area.short, area.short.split("/")[0]].find((one) => context.measureText(one).width < right - left - 4);
    if (!fitting) return;
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
    rooms.forEach((room, index) => room && name(context, map.areas[index], room));
    const end = `end of the arena: ${number(map.bytes)} bytes`, budget = `budget: ${number(map.budget || 0)} bytes`;
    const apart = Math.abs(toY(map.budget || 0) - toY(map.bytes));
    // A budget just above would be a line through the label, or its label would meet this one.
    const meet = (apart > 0.5 && apart < 16) || (context.measureText(end + budget).width > width - LEFT - RIGHT - 16 && apart < 28);
    limit(context, width, map.bytes, end, "right", meet ? 1 : 0);
    if (map.budget && map.budget !== map.bytes) limit(context, width, map.budget, budget, "left");
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
  section("SRAM over time", "Addresses over NPU cycles. The wheel zooms, dragging moves, a double click shows all.", canvas,
    legend([["input", "input"], ["output", "output"], [KINDS["tensor between layers, rows that are alive"], "tensor"], [KINDS["rolling buffer"], "rolling buffer"], ["staged", "staged weights"]]));
}
