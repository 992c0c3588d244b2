// A plot on two logarithmic axes: its frame with grid lines, and the places of values.
function logPlot(id, label, xValues, yValues, xAxis, yAxis) {
  const WIDTH = Math.max(320, Math.min(820, main.clientWidth)), HEIGHT = 440, left = WIDTH < 600 ? 64 : 84, right = WIDTH - 20, top = 16, bottom = HEIGHT - 48;
  const range = (values) => {
    const low = Math.min(...values), high = Math.max(...values), air = Math.max(Math.sqrt(high / low), 1.2) ** 0.2;
    return [low / air, high * air];
  };
  const xRange = range(xValues), yRange = range(yValues);
  const place = (value, [low, high], start, end) => start + (Math.log(value / low) / Math.log(high / low)) * (end - start);
  const x = (value) => place(value, xRange, left, right), y = (value) => place(value, yRange, bottom, top);
  const svg = element("svg", { id, viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: WIDTH, role: "img", "aria-label": label });

  function grid([low, high], unit, draw) {
    const powers = Array.from({ length: 22 }, (_, power) => 10 ** (power - 6));
    const values = [1, 1.5, 2, 3, 5, 7].flatMap((factor) => powers.map((power) => factor * power)).filter((value) => low <= value * unit && value * unit <= high);
    const few = values.filter((value) => "125".includes(String(Number(value.toPrecision(1))).replace(/[0.e+-]/g, "")[0]));
    const shown = values.length > 12 ? few : values.length > 2 ? values : ticks(low / unit, high / unit, 6);
    for (const value of shown) draw(value * unit, Number(value.toPrecision(6)).toLocaleString("en-US", { maximumFractionDigits: 6 }));
  }
  grid(xRange, xAxis.unit, (value, words) => svg.append(
    element("line", { x1: x(value), x2: x(value), y1: top, y2: bottom, stroke: "var(--line)" }),
    element("text", { x: x(value), y: bottom + 18, "text-anchor": "middle", class: "faint" }, words)));
  grid(yRange, yAxis.unit, (value, words) => svg.append(
    element("line", { x1: left, x2: right, y1: y(value), y2: y(value), stroke: "var(--line)" }),
    element("text", { x: left - 8, y: y(value) + 4, "text-anchor": "end", class: "faint" }, words)));
  svg.append(element("text", { x: (left + right) / 2, y: HEIGHT - 10, "text-anchor": "middle" }, `${xAxis.name}, logarithmic`),
    element("text", { transform: `translate(18 ${(top + bottom) / 2}) rotate(-90)`, "text-anchor": "middle" }, `${yAxis.name}, logarithmic`));
  return { svg, x, y, xRange, yRange, left, right, top, bottom };
}

// Marks that say something when they are clicked, one at a time.
function chooser(svg, list) {
  function facts(rows) {
    list.replaceChildren(...rows.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));
  }
  function clickable(mark, rows) {
    mark.choose = () => {
      svg.querySelector(".chosen")?.classList.remove("chosen");
      mark.classList.add("chosen");
      facts(rows);
    };
    mark.addEventListener("click", mark.choose);
    mark.addEventListener("keydown", (event) => event.key === "Enter" && mark.choose());
    svg.append(mark);
    return mark;
  }
  return { facts, clickable };
}
