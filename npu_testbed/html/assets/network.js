// The network: layers from top to bottom in the order in which they first run, their edges, and cascades as frames.
function showNetwork(graph) {
  const ROW = 24, NAME = 44, WIDTH = 900, NODE = 560, right = NAME + NODE;
  const y = (layer) => 16 + layer * ROW;
  const share = new Map(data.replay.layers.map((row) => [row.layer, row]));
  const svg = element("svg", { width: WIDTH, height: 24 + graph.layers.length * ROW, role: "img", "aria-label": "The network and its cascades" });
  for (const [first, last] of graph.cascades) {
    if (first === last) continue;
    const frame = { x: 8, y: y(first) - 3, width: right, height: (last - first + 1) * ROW, rx: 6, fill: "none", stroke: "var(--rolling)", "stroke-width": 2, class: "cascade" };
    const words = `a cascade of ${last - first + 1} layers, whose stripes interleave`;
    svg.append(element("rect", { ...frame, onpointermove: (event) => showTip(event, words), onpointerleave: (event) => showTip(event, "") }));
  }
  for (const [from, to] of graph.edges) {
    const span = Math.abs(to - from);
    const path = span === 1
      ? `M${NAME - 12} ${y(from) + 10}L${NAME - 12} ${y(to) + 10}`
      : `M${right} ${y(from) + 10}C${right + 24 + 9 * Math.min(span, 24)} ${y(from) + 10} ${right + 24 + 9 * Math.min(span, 24)} ${y(to) + 10} ${right} ${y(to) + 10}`;
    svg.append(element("path", { d: path, fill: "none", stroke: "var(--faint)", "stroke-width": 1.5 }));
  }
  graph.layers.forEach(([name, operations, short], layer) => {
    const row = share.get(name), part = row ? row.share : 0;
    const stripes = operations === 1 ? "whole" : `${operations} kernels`;
    const bound = row ? `${number(row.cycles)} cycles, ${row.binding}` : "";
    svg.append(element("g", { class: "layer", onpointermove: (event) => showTip(event, `${name}\n${stripes}\n${bound}`), onpointerleave: (event) => showTip(event, "") },
      element("rect", { x: NAME - 24, y: y(layer), width: NODE + 16, height: ROW - 6, rx: 4, fill: "var(--panel)", stroke: "var(--line)" }),
      element("rect", { x: NAME - 24, y: y(layer), width: Math.max(0, part * (NODE + 16)), height: ROW - 6, rx: 4, fill: "var(--bar)" }),
      element("text", { x: NAME - 14, y: y(layer) + 13 }, short),
      element("text", { x: right - 16, y: y(layer) + 13, "text-anchor": "end", class: "faint" }, `${stripes}  ${bound}`)));
  });
  const count = graph.cascades.filter(([first, last]) => first !== last).length;
  section("Network", `A frame is a cascade: the stripes of its layers interleave. This schedule has ${count || "none"}. Lines at the right skip layers.`, element("div", { class: "scroll" }, svg));
}
