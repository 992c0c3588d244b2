// Rows as a table that a click on a heading sorts.
// A column is [key, title, text of a row, part of its cell that is filled (none if left out)].
function sortable(id, rows, columns) {
  const body = element("tbody"), headings = [];
  const numeric = (key) => rows.some((row) => typeof row[key] === "number");
  let sorted = null, falling = false;

  // Numbers before what is missing, text as people sort it.
  function compare(one, other) {
    if (!numeric(sorted)) return String(one[sorted]).localeCompare(String(other[sorted]), "en", { numeric: true });
    return (one[sorted] ?? Infinity) - (other[sorted] ?? Infinity) || 0;
  }

  function fill() {
    const ordered = [...rows];
    if (sorted) ordered.sort((one, other) => (falling ? -1 : 1) * compare(one, other));
    body.replaceChildren(...ordered.map((row) => element("tr", {}, ...columns.map(([key, , text, filled]) => {
      const cell = element("td", numeric(key) ? {} : { class: "text" }, text(row));
      if (key === "layer") cell.title = row.layer;
      if (filled) cell.style.minWidth = "96px";
      if (filled) cell.style.background = `linear-gradient(to right, var(--busy) ${100 * filled(row)}%, transparent 0) bottom / 100% 3px no-repeat`;
      return cell;
    }))));
    headings.forEach((heading, index) => {
      if (columns[index][0] === sorted) heading.setAttribute("aria-sort", falling ? "descending" : "ascending");
      else heading.removeAttribute("aria-sort");
    });
  }

  function sort(key) {
    falling = sorted === key ? !falling : numeric(key);
    sorted = key;
    fill();
  }

  for (const [key, title] of columns) {
    headings.push(element("th", numeric(key) ? {} : { class: "text" }, element("button", { onclick: () => sort(key) }, title)));
  }
  fill();
  return element("div", { class: "scroll" }, element("table", { id }, element("thead", {}, element("tr", {}, ...headings)), body));
}

function showTable(rows, steps) {
  const written = rows.some((row) => row.axi1_write_bytes) ? [["axi1_write_bytes", "AXI1 write", (row) => number(row.axi1_write_bytes)]] : [];
  section("Layers", ["A click on a heading sorts. Reads and writes are in bytes.", ...steps].join(" "), sortable("layers", rows, [
    ["layer", "layer", (row) => row.short], ["operator", "operator", (row) => row.operator],
    ["cycles", "cycles", (row) => number(row.cycles)], ["share", "%", (row) => (100 * row.share).toFixed(1), (row) => row.share],
    ["binding", "bound by", (row) => row.binding], ["axi0_read_bytes", "AXI0 read", (row) => number(row.axi0_read_bytes)],
    ["axi0_write_bytes", "AXI0 write", (row) => number(row.axi0_write_bytes)], ["axi1_read_bytes", "AXI1 read", (row) => number(row.axi1_read_bytes)],
    ...written, ["mac_utilisation", "MAC %", (row) => (100 * row.mac_utilisation).toFixed(1)],
  ]));
}
