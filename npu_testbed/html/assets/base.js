// What all parts of the page share: elements, numbers, colours of the theme and the tip beside the pointer.
const data = JSON.parse(document.getElementById("data").textContent);
const main = document.querySelector("main");
const number = (value) => Math.round(value).toLocaleString("en-US");
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();

function element(tag, attributes = {}, ...children) {
  const svg = ["svg", "g", "rect", "path", "circle", "line", "text"].includes(tag);
  const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value);
  }
  made.append(...children); // text is never read as HTML
  return made;
}

function section(title, hint, ...children) {
  const parts = [element("h2", {}, title)];
  if (hint) parts.push(element("p", { class: "hint" }, hint));
  const made = element("section", {}, ...parts, ...children);
  main.append(made);
  return made;
}

// A legend of [colour, words]: "dashed NAME" is a line, and what is drawn in several colours by turns has all of them.
function legend(entries) {
  const looks = (name) => (name.startsWith("dashed ") ? `border: 0; border-top: 2px dashed var(--${name.slice(7)}); height: 0; vertical-align: 4px` : `background: var(--${name})`);
  const keys = (names) => [names].flat().map((name, at) => element("span", { class: at ? "key more" : "key", style: looks(name) }));
  return element("p", { class: "hint" }, ...entries.map(([names, text]) => element("span", { class: "entry" }, ...keys(names), text)));
}

const tip = element("div", { id: "tip", role: "tooltip" });
document.body.append(tip);
function showTip(event, text) {
  tip.style.display = text ? "block" : "none";
  tip.textContent = text || "";
  const right = event.clientX + 16 + tip.offsetWidth > innerWidth;
  tip.style.left = (right ? event.clientX - 16 - tip.offsetWidth : event.clientX + 16) + "px";
  tip.style.top = Math.max(0, Math.min(event.clientY + 16, innerHeight - tip.offsetHeight)) + "px";
}

// Round values inside a range, 1, 2 or 5 times a power of ten apart.
function ticks(low, high, most) {
  const power = 10 ** Math.floor(Math.log10(Math.max(high - low, 1e-9) / most));
  const step = [1, 2, 5, 10, 20].map((factor) => factor * power).find((one) => (high - low) / one <= most);
  const found = [];
  for (let value = Math.ceil(low / step) * step; value <= high + step * 1e-9; value += step) found.push(value);
  return found;
}

const redraws = [];
const redraw = () => redraws.forEach((draw) => draw());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
addEventListener("resize", redraw);

// A canvas as wide as the page that `draw(context, width, height)` fills, in the pixels of the screen.
function canvasOf(height, label, draw) {
  const canvas = element("canvas", { role: "img", "aria-label": label, style: `height: ${height}px` });
  redraws.push(() => {
    const scale = devicePixelRatio || 1, width = canvas.clientWidth;
    canvas.width = width * scale;
    canvas.height = height * scale;
    const context = canvas.getContext("2d");
    context.scale(scale, scale);
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    draw(context, width, height);
  });
  return canvas;
}
