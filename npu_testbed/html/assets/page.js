// The page: its sections in the order in which a stranger asks.
function showSummary(replay) {
  section("Summary", "", element("dl", {}, ...replay.facts.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)])));
  if (replay.hazards.length) {
    const found = replay.hazards.map((text) => element("li", {}, text));
    section("Hazards", "By these the NPU may compute other bytes than in stream order.", element("ol", { id: "hazards" }, ...found));
  }
  if (!replay.findings) return;
  const list = replay.findings.map((text) => element("li", {}, text));
  section("Findings", list.length ? "Each from a replay with that one thing changed." : "No single change that is tried saves a per cent.", element("ol", { id: "findings" }, ...list));
}

if (data.sweep) showSweep(data.sweep);
if (data.frontier) showFrontier(data.frontier);
if (data.answers) showAnswers(data.answers);
if (data.replay) {
  startTime(data.replay.map.cycles);
  showSummary(data.replay);
  showMap(data.replay.map);
  showTimeline(data.replay.timeline);
  showNetwork(data.replay.graph);
  if (data.replay.measured) showMeasured(data.replay.measured);
  showTable(data.replay.rows, data.replay.steps);
}
redraw();
