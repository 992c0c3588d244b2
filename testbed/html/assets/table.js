// The layers as a table that a click on a heading sorts.
function showTable(layers) {
  const columns = [
    ["layer", "layer", (row) => row.layer], ["operator", "operator", (row) => row.operator],
    ["cycles", "cycles", (row) => number(row.cycles)], ["share", "%", (row) => (100 * row.share).toFixed(1)],
    ["binding", "bound by", (row) => row.binding], ["axi0_read_bytes", "AXI0 read", (row) => number(row.axi0_read_bytes)],
    ["axi0_write_bytes", "AXI0 write", (row) => number(row.axi0_write_bytes)], ["axi1_read_bytes", "AXI1 read", (row) => number(row.axi1_read_bytes)],
    ["mac_utilisation", "MAC %", (row) => (100 * row.mac_utilisation).toFixed(1)],
  ];
  const body = element("tbody"), headings = [];
  let sorted = null, falling = false;

  function fill() {
    const rows = [...layers];
    if (sorted) {
      const way = falling ? -1 : 1;
      rows.sort((one, other) => way * (typeof one[sorted] === "number" ? one[sorted] - other[sorted] : one[sorted].localeCompare(other[sorted])));
    }
    body.replaceChildren(...rows.map((row) => element("tr", {}, ...columns.map(([key, , text]) => {
      const cell = element("td", typeof row[key] === "number" ? {} : { class: "text" }, text(row));
      if (key === "share") cell.style.background = `linear-gradient(to left, var(--bar) ${100 * row.share}%, transparent 0)`;
      return cell;
    }))));
    headings.forEach((heading, index) => {
      if (columns[index][0] === sorted) heading.setAttribute("aria-sort", falling ? "descending" : "ascending");
      else heading.removeAttribute("aria-sort");
    });
  }

  function sort(key) {
    falling = sorted === key ? !falling : typeof layers[0]?.[key] === "number";
    sorted = key;
    fill();
  }

  for (const [key, title] of columns) {
    headings.push(element("th", typeof layers[0]?.[key] === "number" ? {} : { class: "text" }, element("button", { onclick: () => sort(key) }, title)));
  }
  fill();
  section("Layers", "A click on a heading sorts.", element("div", { class: "scroll" },
    element("table", { id: "layers" }, element("thead", {}, element("tr", {}, ...headings)), body)));
}
