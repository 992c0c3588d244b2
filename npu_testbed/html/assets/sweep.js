// A sweep: milliseconds over bytes, a line for each model, accelerator and memory system, and a deadline that is asked for.
function showSweep(points) {
  const made = points.filter((point) => !point.refused);
  // What all points share is said once, in place of a column and a part of each name.
  const TITLES = { model: "network", accelerator: "accelerator", memory: "memory system" };
  const shared = points.length > 1 ? Object.keys(TITLES).filter((key) => points.every((point) => point[key] === points[0][key])) : [];
  const common = shared.map((key) => `${TITLES[key]} ${points[0][key]}`).join(", ");
  const told = Object.keys(TITLES).filter((key) => !shared.includes(key));
  const nameOf = (point) => told.map((key) => point[key]).join(", ") || points[0].model;
  const names = [...new Set(made.map(nameOf))];
  const least = (key, other) => [...made].sort((one, two) => one[key] - two[key] || one[other] - two[other] || one.macs - two.macs)[0];
  const fastest = least("milliseconds", "arena_bytes"), smallest = least("arena_bytes", "milliseconds");
  const time = (point) => `${Number(point.milliseconds.toPrecision(3))} ms`, size = (point) => `${(Math.ceil(point.arena_bytes / 102.4) / 10).toFixed(1)} KiB`;
  const figures = made.length ? [[time(fastest), `the fastest: ${nameOf(fastest)}, ${size(fastest)}`], [size(smallest), `the smallest arena: ${nameOf(smallest)}, ${time(smallest)}`]] : [];
  figures.push([`${made.length} of ${points.length}`, "points have a schedule"]);
  main.append(element("section", { id: "headline" }, element("div", { class: "figures" },
    ...figures.map(([value, words]) => element("div", { class: "figure" }, element("strong", {}, value), element("span", {}, words))))));
  const hues = ["accent", "vela-size", "rolling-second", "vela", "swept", "wait-order", "faint"], dashes = ["", "8 4", "2 3", "10 3 2 3", "5 2"];
  const looks = (name) => {
    const index = names.indexOf(name);
    return { stroke: `var(--${hues[index % hues.length]})`, "stroke-dasharray": dashes[Math.floor(index / hues.length) % dashes.length] };
  };
  // A line as the plot has it: colours alone come again from the eighth name on.
  const stroke = (name) => {
    const sample = element("svg", { class: "stroke", width: 30, height: 8 });
    sample.append(element("line", { x1: 0, x2: 30, y1: 4, y2: 4, "stroke-width": 2, ...looks(name) }));
    return sample;
  };
  if (made.length) {
    const { svg, x, y, yRange, left, right } = logPlot("sweep", "Points by bytes and milliseconds", made.map((point) => point.arena_bytes), made.map((point) => point.milliseconds),
      { unit: 1024, name: "arena [KiB]" }, { unit: 1, name: "milliseconds" });
    const say = element("dl", { id: "chosen" }), { facts, clickable } = chooser(svg, say);
    const limit = element("line", { x1: left, x2: right, stroke: "var(--limit)", "stroke-width": 2, visibility: "hidden" });
    svg.append(limit);
    for (const name of names) {
      const line = made.filter((point) => nameOf(point) === name).sort((one, other) => one.arena_bytes - other.arena_bytes);
      svg.append(element("path", { d: line.map((point, index) => `${index ? "L" : "M"}${x(point.arena_bytes)} ${y(point.milliseconds)}`).join(""), fill: "none", "stroke-width": 2, ...looks(name) }));
    }
    const rowsOf = (point) => [["network", point.model], ["accelerator", point.accelerator], ["memory system", point.memory], ["budget", point.budget_bytes === null ? "none" : `${number(point.budget_bytes)} bytes`],
      ["arena", `${number(point.arena_bytes)} bytes`], ["NPU cycles", number(point.cycles)], ["time", `${point.milliseconds.toFixed(3)} ms`],
      ["AXI0, AXI1", `${number(point.axi0_bytes)} and ${number(point.axi1_bytes)} bytes`]];
    const marks = made.map((point) => {
      const mark = element("circle", { cx: x(point.arena_bytes), cy: y(point.milliseconds), r: 5, fill: looks(nameOf(point)).stroke, class: "point ours", tabindex: 0 });
      return clickable(mark, rowsOf(point));
    });
    function deadlineOf(text) {
      const time = Number(text);
      limit.setAttribute("visibility", time >= yRange[0] && time <= yRange[1] ? "visible" : "hidden");
      if (time > 0) ["y1", "y2"].forEach((key) => limit.setAttribute(key, y(time)));
      const meeting = made.filter((point) => point.milliseconds <= time);
      const few = meeting.filter((point) => !meeting.some((other) => other.model === point.model && other.memory === point.memory && other.macs <= point.macs
        && other.arena_bytes <= point.arena_bytes && (other.macs < point.macs || other.arena_bytes < point.arena_bytes)));
      marks.forEach((mark, index) => mark.classList.toggle("chosen", few.includes(made[index])));
      if (time > 0) facts(few.length ? few.map((point) => [`${point.macs} MACs, ${number(point.arena_bytes)} bytes`, `${point.milliseconds.toFixed(3)} ms, ${nameOf(point)}`]) : [["deadline", "no point meets it"]]);
    }
    const field = element("input", { id: "deadline", inputmode: "decimal", placeholder: "ms", oninput: (event) => deadlineOf(event.target.value) });
    const key = element("p", { class: "hint" }, ...names.flatMap((name) => [stroke(name), name, element("br")]));
    section("Time over SRAM", "Click a point, or give a deadline: the points that meet it with the fewest MACs and bytes are marked.",
      element("div", { class: "row" }, element("div", {}, svg, key), element("aside", {}, element("p", {}, element("label", {}, "Deadline: ", field)), say)));
    marks[made.indexOf(fastest)].choose();
    if (data.deadline) { field.value = data.deadline; deadlineOf(field.value); }
  }
  const figure = (key) => (row) => (row.refused ? "-" : number(row[key]));
  const refused = points.some((point) => point.refused) ? [["refused", "why not", (row) => row.refused]] : [];
  section("Points", `${common ? `All points: ${common}. ` : ""}A click on a heading sorts.`, sortable("points", points, [
    ...told.map((key) => [key, TITLES[key], (row) => row[key]]),
    ["budget_bytes", "budget bytes", (row) => (row.budget_bytes === null ? "none" : number(row.budget_bytes))],
    ["arena_bytes", "arena bytes", figure("arena_bytes")], ["cycles", "cycles", figure("cycles")],
    ["milliseconds", "ms", (row) => (row.refused ? "-" : row.milliseconds.toFixed(3))],
    ["axi0_bytes", "AXI0 bytes", figure("axi0_bytes")], ["axi1_bytes", "AXI1 bytes", figure("axi1_bytes")], ...refused,
  ]));
}
