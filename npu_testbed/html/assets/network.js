// The network: layers from top to bottom in the order in which they first run, their edges, and cascades as frames. It is as wide as the page.
function showNetwork(graph) {
  const ROW = 30, NAME = 34;
  const y = (layer) => 12 + layer * ROW;
  const rows = new Map(data.replay.layers.map((row) => [row.layer, row]));
  const largest = Math.max(1e-9, ...data.replay.layers.map((row) => row.share));
  const measure = document.createElement("canvas").getContext("2d");
  measure.font = "12px system-ui, sans-serif";
  const wide = (words) => measure.measureText(words).width;
  // The end of a name tells layers apart: what does not fit is cut in front.
  const fitted = (name, room) => {
    let at = 0;
    while (at < name.length && wide((at ? "\u2026" : "") + name.slice(at)) > room) at++;
    return (at ? "\u2026" : "") + name.slice(at);
  };
  const skips = graph.edges.filter(([from, to]) => Math.abs(to - from) !== 1);
  const svg = element("svg", { id: "network", height: 20 + graph.layers.length * ROW, role: "img", "aria-label": "The network and its cascades" });
  const hover = (words) => ({ onpointermove: (event) => showTip(event, words), onpointerleave: (event) => showTip(event, "") });

  function draw() {
    const WIDTH = Math.max(240, box.clientWidth), curve = skips.length ? Math.min(90, WIDTH / 8) : 6, right = WIDTH - curve - 12;
    svg.setAttribute("width", WIDTH);
    svg.replaceChildren();
    for (const [first, last] of graph.cascades) {
      if (first === last) continue;
      const frame = { x: 6, y: y(first) - 4, width: right, height: (last - first + 1) * ROW, rx: 6, fill: "none", stroke: "var(--rolling)", "stroke-width": 2, class: "cascade" };
      svg.append(element("rect", { ...frame, ...hover(`a cascade of ${last - first + 1} layers, whose stripes interleave`) }));
    }
    for (const [from, to] of graph.edges) {
      const span = Math.abs(to - from), out = right + 6 + curve * Math.min(1, 0.4 + span / 24) * 1.3;
      const path = span === 1
        ? `M${NAME - 12} ${y(from) + 14}L${NAME - 12} ${y(to) + 8}`
        : `M${right} ${y(from) + 11}C${out} ${y(from) + 11} ${out} ${y(to) + 11} ${right} ${y(to) + 11}`;
      svg.append(element("path", { d: path, fill: "none", stroke: "var(--faint)", "stroke-width": 1.5 }));
    }
    graph.layers.forEach(([name, operations, short], layer) => {
      const row = rows.get(name), share = row ? row.share : 0;
      const kernels = operations === 1 ? "1 kernel" : `${operations} kernels`, room = right - NAME - 8;
      const cycles = row ? `${number(row.cycles)} cycles` : "", bound = row && row.binding ? `bound by ${row.binding}` : "";
      const facts = [[kernels, cycles, bound], [cycles, bound], [cycles], []].map((some) => some.filter(Boolean).join(", "))
        .find((words) => wide(words) < room - Math.min(wide(short), Math.max(110, 0.4 * room)) - 12);
      svg.append(element("g", { class: "layer", ...hover([name, kernels, cycles, bound].filter(Boolean).join("\n")) },
        element("rect", { x: NAME - 6, y: y(layer), width: right - NAME, height: ROW - 8, rx: 3, fill: "var(--panel)" }),
        element("circle", { cx: NAME - 12, cy: y(layer) + 11, r: 3, fill: "var(--faint)" }),
        element("text", { x: NAME, y: y(layer) + 12 }, fitted(short, room - wide(facts) - 12)),
        element("text", { x: right - 10, y: y(layer) + 12, "text-anchor": "end", class: "faint" }, facts),
        element("rect", { x: NAME, y: y(layer) + 17, width: right - NAME - 10, height: 4, rx: 2, fill: "var(--line)" }),
        element("rect", { x: NAME, y: y(layer) + 17, width: (share / largest) * (right - NAME - 10), height: 4, rx: 2, fill: "var(--busy)" })));
    });
  }
  const count = graph.cascades.filter(([first, last]) => first !== last).length, box = element("div", { class: "scroll" }, svg);
  redraws.push(draw);
  section("Network", `A bar is a layer's share of the cycles, relative to the largest. A frame is a cascade: the stripes of its layers interleave. This schedule has ${count || "none"}. Lines at the right skip layers.`, box);
}
