// The frontier: bytes and cycles of our schedules and of Vela's, on logarithmic axes; a click says all of a point.
function showFrontier(frontier) {
  const all = [...frontier.points, ...frontier.vela], million = Math.max(...all.map((point) => point.cycles)) >= 2e6;
  const plot = logPlot("frontier", "Schedules by bytes and cycles", [...all.map((point) => point.bytes), Math.max(frontier.bound, 1)],
    all.map((point) => point.cycles), { unit: 1024, name: "arena [KiB]" },
    million ? { unit: 1e6, name: "NPU cycles [million]" } : { unit: 1e3, name: "NPU cycles [thousand]" });
  const { svg, x, y, xRange: [bytesLow, bytesHigh], right, top, bottom } = plot;
  const say = element("dl", { id: "chosen" });
  svg.append(element("line", { x1: x(frontier.bound), x2: x(frontier.bound), y1: top, y2: bottom, stroke: "var(--faint)", "stroke-dasharray": "6 4" }));

  const steps = frontier.points.map((point, index) => (index ? `L${x(point.bytes)} ${y(frontier.points[index - 1].cycles)}` : "") + `${index ? "L" : "M"}${x(point.bytes)} ${y(point.cycles)}`);
  svg.append(element("path", { d: `${steps.join("")}L${right} ${y(frontier.points.at(-1).cycles)}`, fill: "none", stroke: "var(--accent)", "stroke-width": 2 }));
  const limit = element("line", { y1: top, y2: bottom, stroke: "var(--limit)", "stroke-width": 2, visibility: "hidden", id: "limit" });
  svg.append(limit);

  const { facts, clickable } = chooser(svg, say);
  const theirs = frontier.vela.map((point) => {
    const fill = point.swept ? "swept" : point.name.startsWith("Vela Size") ? "vela-size" : "vela";
    const size = point.swept ? 4 : 6, at = x(point.bytes), to = y(point.cycles);
    const d = point.core === "C++" ? `M${at - size} ${to - size}h${2 * size}v${2 * size}h${-2 * size}Z` : `M${at} ${to - size * 1.2}L${at + size * 1.1} ${to + size}L${at - size * 1.1} ${to + size}Z`;
    const mark = element("path", { d, fill: point.overflows ? "var(--panel)" : `var(--${fill})`, stroke: `var(--${fill})`, class: "point", tabindex: 0 });
    return clickable(mark, [["schedule", point.name], ["arena", `${number(point.bytes)} bytes`], ["NPU cycles", number(point.cycles)], ...(point.overflows ? [["arena cache size", "overflows"]] : [])]);
  });
  // Green: MACs done again; hollow: tensors outside the arena.
  const looks = (kind) => {
    const stroke = `var(--${kind & 1 ? "again" : "accent"})`;
    return { fill: kind & 2 ? "var(--panel)" : stroke, stroke, "stroke-width": 1.5 };
  };
  const marks = frontier.points.map((point) => {
    const mark = element("circle", { cx: x(point.bytes), cy: y(point.cycles), r: 5, ...looks(point.kind), class: "point ours", tabindex: 0 });
    const best = frontier.vela.filter((one) => one.bytes <= point.bytes && !one.overflows).sort((one, other) => one.cycles - other.cycles)[0];
    return clickable(mark, [["schedule", "npu-testbed"], ["arena", `${number(point.bytes)} bytes`], ["NPU cycles", number(point.cycles)],
      ["stripe jobs", number(point.jobs)], ["groups of layers", number(point.groups)], ["staged weights", `${number(point.staged)} bytes`],
      ["recomputed MACs", point.again], ...(point.homes.length ? [["outside the arena", point.homes.join(", ")]] : []), ["make it", `${frontier.command} --arena-cache-size ${point.bytes} -o schedule.json`],
      ...(best ? [["Vela in these bytes", `${number(best.cycles)} cycles (${best.name}): ours takes ${(point.cycles / best.cycles).toFixed(3)} of them`]] : [])]);
  });
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
  const kinds = [...new Set(frontier.points.map((point) => point.kind))].sort();
  const key = kinds.join() === "0" ? [] : kinds.flatMap((kind) => {
    const sample = element("svg", { class: "stroke", width: 14, height: 12 });
    sample.append(element("circle", { cx: 7, cy: 6, r: 5, ...looks(kind) }));
    return [sample, frontier.kinds[kind], element("br")];
  });
  section("Frontier", "Schedules that no other one beats in bytes and cycles. Click a point, or give a budget. The dashed line is the lower bound of the kinds of schedules that are searched.",
    element("div", { class: "row" }, element("div", {}, svg, legend(entries), element("p", { class: "hint" }, ...key)), element("aside", {}, element("p", {}, element("label", {}, "Budget: ", field)), say)));
  const known = data.budget || data.replay?.map.bytes;
  if (data.budget) { field.value = data.budget; budgetOf(field.value); }
  else (marks[frontier.points.findIndex((point) => point.bytes === known)] || marks.at(-1)).choose();
}
