// The frontier: bytes and cycles of our schedules and of Vela's, on logarithmic axes; a click says all of a point.
function showFrontier(frontier) {
  const WIDTH = 820, HEIGHT = 440, left = 84, right = WIDTH - 20, top = 16, bottom = HEIGHT - 48;
  const all = [...frontier.points, ...frontier.vela];
  const range = (values) => {
    const low = Math.min(...values), high = Math.max(...values), air = Math.max(Math.sqrt(high / low), 1.2) ** 0.2;
    return [low / air, high * air];
  };
  const [bytesLow, bytesHigh] = range([...all.map((point) => point.bytes), Math.max(frontier.bound, 1)]);
  const [cyclesLow, cyclesHigh] = range(all.map((point) => point.cycles));
  const place = (value, low, high, start, end) => start + (Math.log(value / low) / Math.log(high / low)) * (end - start);
  const x = (bytes) => place(bytes, bytesLow, bytesHigh, left, right);
  const y = (cycles) => place(cycles, cyclesLow, cyclesHigh, bottom, top);
  const svg = element("svg", { id: "frontier", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: WIDTH, role: "img", "aria-label": "Schedules by bytes and cycles" });
  const say = element("dl", { id: "chosen" });

  function grid(low, high, unit, line, label) {
    const values = [1, 1.5, 2, 3, 5, 7].flatMap((factor) => Array.from({ length: 14 }, (_, power) => factor * 10 ** power)).filter((value) => low <= value * unit && value * unit <= high);
    const shown = values.length > 12 ? values.filter((value) => "125".includes(String(value)[0])) : values.length > 2 ? values : ticks(low / unit, high / unit, 6);
    for (const value of shown) { line(value * unit); label(value * unit, value.toLocaleString("en-US")); }
  }
  grid(bytesLow, bytesHigh, 1024,
    (value) => svg.append(element("line", { x1: x(value), x2: x(value), y1: top, y2: bottom, stroke: "var(--line)" })),
    (value, words) => svg.append(element("text", { x: x(value), y: bottom + 18, "text-anchor": "middle", class: "faint" }, words)));
  const unit = cyclesHigh >= 2e6 ? 1e6 : 1e3;
  grid(cyclesLow, cyclesHigh, unit,
    (value) => svg.append(element("line", { x1: left, x2: right, y1: y(value), y2: y(value), stroke: "var(--line)" })),
    (value, words) => svg.append(element("text", { x: left - 8, y: y(value) + 4, "text-anchor": "end", class: "faint" }, words)));
  svg.append(element("text", { x: (left + right) / 2, y: HEIGHT - 10, "text-anchor": "middle" }, "arena [KiB]"),
    element("text", { transform: `translate(18 ${(top + bottom) / 2}) rotate(-90)`, "text-anchor": "middle" }, unit === 1e6 ? "NPU cycles [million]" : "NPU cycles [thousand]"));
  svg.append(element("line", { x1: x(frontier.bound), x2: x(frontier.bound), y1: top, y2: bottom, stroke: "var(--faint)", "stroke-dasharray": "6 4" }));

  const steps = frontier.points.map((point, index) => (index ? `L${x(point.bytes)} ${y(frontier.points[index - 1].cycles)}` : "") + `${index ? "L" : "M"}${x(point.bytes)} ${y(point.cycles)}`);
  svg.append(element("path", { d: `${steps.join("")}L${right} ${y(frontier.points.at(-1).cycles)}`, fill: "none", stroke: "var(--accent)", "stroke-width": 2 }));
  const limit = element("line", { y1: top, y2: bottom, stroke: "var(--limit)", "stroke-width": 2, visibility: "hidden", id: "limit" });
  svg.append(limit);

  function facts(rows) {
    say.replaceChildren(...rows.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));
  }
  function choose(mark, rows) {
    svg.querySelector(".chosen")?.classList.remove("chosen");
    mark.classList.add("chosen");
    facts(rows);
  }
  const marks = frontier.points.map((point) => {
    const mark = element("circle", { cx: x(point.bytes), cy: y(point.cycles), r: 5, fill: "var(--accent)", class: "point ours", tabindex: 0 });
    const best = frontier.vela.filter((one) => one.bytes <= point.bytes && !one.overflows).sort((one, other) => one.cycles - other.cycles)[0];
    mark.choose = () => choose(mark, [["schedule", "npu-testbed"], ["arena", `${number(point.bytes)} bytes`], ["NPU cycles", number(point.cycles)],
      ["stripe jobs", number(point.jobs)], ["groups of layers", number(point.groups)], ["staged weights", `${number(point.staged)} bytes`],
      ["make it", `npu-testbed schedule MODEL --arena-cache-size ${point.bytes}`],
      ...(best ? [["Vela in these bytes", `${number(best.cycles)} cycles (${best.name}): ours takes ${(point.cycles / best.cycles).toFixed(3)} of them`]] : [])]);
    return mark;
  });
  const theirs = frontier.vela.map((point) => {
    const fill = point.swept ? "swept" : point.name.startsWith("Vela Size") ? "vela-size" : "vela";
    const size = point.swept ? 4 : 6, at = x(point.bytes), to = y(point.cycles);
    const d = point.core === "C++" ? `M${at - size} ${to - size}h${2 * size}v${2 * size}h${-2 * size}Z` : `M${at} ${to - size * 1.2}L${at + size * 1.1} ${to + size}L${at - size * 1.1} ${to + size}Z`;
    const mark = element("path", { d, fill: point.overflows ? "var(--panel)" : `var(--${fill})`, stroke: `var(--${fill})`, class: "point", tabindex: 0 });
    mark.choose = () => choose(mark, [["schedule", point.name], ["arena", `${number(point.bytes)} bytes`], ["NPU cycles", number(point.cycles)], ...(point.overflows ? [["arena cache size", "overflows"]] : [])]);
    return mark;
  });
  for (const mark of [...theirs, ...marks]) {
    mark.addEventListener("click", mark.choose);
    mark.addEventListener("keydown", (event) => event.key === "Enter" && mark.choose());
    svg.append(mark);
  }

  function budgetOf(text) {
    const bytes = Number(text.replace(/[ ,_]/g, ""));
    const fits = bytes > 0 && bytes >= bytesLow && bytes <= bytesHigh;
    limit.setAttribute("visibility", fits ? "visible" : "hidden");
    if (fits) { limit.setAttribute("x1", x(bytes)); limit.setAttribute("x2", x(bytes)); }
    const within = frontier.points.map((point, index) => [point, index]).filter(([point]) => point.bytes <= bytes);
    if (within.length) marks[within.at(-1)[1]].choose();
    else if (bytes > 0) facts([["budget", `none of ours fits ${number(bytes)} bytes: ${number(frontier.points[0].bytes)} are the smallest`]]);
  }
  const field = element("input", { id: "budget", inputmode: "numeric", placeholder: "bytes", oninput: (event) => budgetOf(event.target.value) });
  const entries = [["accent", "npu-testbed, every point replayed"]];
  if (frontier.vela.length) entries.push(["vela-size", "Vela Size"], ["vela", "Vela Performance"], ["swept", "Vela at other arena sizes"]);
  section("Frontier", "Schedules that no other one beats in bytes and cycles. Click a point, or give a budget. The dashed line is the lower bound of the kinds of schedules that are searched.",
    element("div", { class: "row" }, element("div", {}, svg, legend(entries)), element("aside", {}, element("p", {}, element("label", {}, "Budget: ", field)), say)));
  const known = data.budget || data.replay?.map.bytes;
  if (data.budget) { field.value = data.budget; budgetOf(field.value); }
  else (marks[frontier.points.findIndex((point) => point.bytes === known)] || marks.at(-1)).choose();
}
