// The extra tables of a replay: our answers to Vela's schedules, and a measurement layer by layer.
const ratio = (value) => (value === null ? "-" : value.toFixed(3));
const counted = (value) => (value === null ? "none" : number(value));

function showAnswers(answers) {
  const columns = [
    ["condition", "ours", (row) => row.condition], ["bytes", "bytes", (row) => counted(row.bytes)], ["cycles", "cycles", (row) => counted(row.cycles)],
    ["memory_ratio", "bytes / Vela's", (row) => ratio(row.memory_ratio)], ["cycles_ratio", "cycles / Vela's", (row) => ratio(row.cycles_ratio)],
  ];
  if (answers.energy) columns.push(["energy_ratio", "energy / Vela's", (row) => ratio(row.energy_ratio)]);
  if (answers.rows.some((row) => row.verdict)) columns.push(["verdict", "under other timings", (row) => row.verdict || "-"]);
  section("Ours and Vela's", answers.energy || "", sortable("answers", answers.rows, columns));
}

function showMeasured(measured) {
  const { rows, note } = measured;
  const sum = (key) => rows.reduce((total, row) => total + row[key], 0);
  const all = sum("measured"), largest = Math.max(...rows.map((row) => Math.abs(row.difference)), 1);
  const signed = (value, text) => (value > 0 ? "+" : "") + text;
  const percent = (value) => (value === null ? "-" : signed(value, (100 * value).toFixed(2)) + " %");
  const columns = [
    ["layer", "layer", (row) => row.layer], ["operator", "operator", (row) => row.operator], ["kernels", "kernels", (row) => row.kernels || "-"],
    ["measured", "measured", (row) => number(row.measured)],
    ...(rows.some((row) => row.margin !== null) ? [["margin", "+/-", (row) => number(row.margin)]] : []),
    ["replayed", "replayed", (row) => number(row.replayed)],
    ["difference", "difference", (row) => signed(row.difference, number(row.difference)), (row) => Math.abs(row.difference) / largest],
    ["error", "error", (row) => percent(row.error)],
  ];
  const whole = `Together ${number(all)} cycles measured and ${number(sum("replayed"))} replayed` + (all ? ` (${percent(sum("replayed") / all - 1)}).` : ".");
  section("Measured and replayed", `The largest difference first. ${note} ${whole}`, sortable("measured", rows, columns));
}
