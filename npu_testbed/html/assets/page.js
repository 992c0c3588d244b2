// The page: its sections in the order in which a stranger asks.
function showHeadline(replay) {
  const figures = replay.headline.map(({ value, words, state }) => element("div", { class: "figure" }, element("strong", { class: state }, value), element("span", {}, words)));
  const facts = element("dl", {}, ...replay.facts.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));
  main.append(element("section", { id: "headline" }, element("div", { class: "figures" }, ...figures),
    element("details", {}, element("summary", {}, "All figures of the replay"), facts)));
}

function showFindings(replay) {
  if (replay.hazards.length) {
    const found = replay.hazards.map((text) => element("li", {}, text));
    section("Hazards", "By these the NPU may compute other bytes than in stream order.", element("ol", { id: "hazards" }, ...found));
  }
  if (!replay.findings) return;
  const list = replay.findings.map((text) => element("li", {}, text));
  section("Findings", list.length ? "Each from a replay with that one thing changed." : replay.bounds, element("ol", { id: "findings" }, ...list));
}

if (data.replay) showHeadline(data.replay);
if (data.sweep) showSweep(data.sweep);
if (data.frontier) showFrontier(data.frontier);
if (data.answers) showAnswers(data.answers);
if (data.replay) {
  startTime(data.replay.map.cycles, data.replay.clock_hz);
  showFindings(data.replay);
  showMap(data.replay.map);
  showTimeline(data.replay.timeline);
  showNetwork(data.replay.graph);
  if (data.replay.measured) showMeasured(data.replay.measured);
  showTable(data.replay.rows, data.replay.steps);
}
redraw();
