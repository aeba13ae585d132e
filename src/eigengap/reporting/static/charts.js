/* Draws a chart, and describes what the pointer rests on. The files of this folder are one script
   (page.py): everything that comes from a user's file is data in it, set by textContent, or a
   value of a chart. */
const page = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const views = new Map();

// Charts -----------------------------------------------------------------------------------

// Titles in a chart's tooltip become part of an expression: foreign names must never stand there.
// A chart calls its fields by fixed words, and `names` maps them to what is shown.
const tip = $("tip");
function showTip(names, event, value) {
  tip.textContent = "";
  if (value === null || value === undefined || value === "" || !event) {
    tip.hidden = true;
    return;
  }
  const pairs = typeof value === "object" ? Object.entries(value) : [["", value]];
  for (const [name, text] of pairs) {
    const line = document.createElement("div");
    const label = document.createElement("span");
    label.textContent = Object.hasOwn(names, name) ? names[name] : name;
    const shown = document.createElement("b");
    shown.textContent = String(text);
    line.append(label, shown);
    tip.append(line);
  }
  tip.hidden = false;
  const { clientWidth: width, clientHeight: height } = document.documentElement;
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(event.clientX + 12, width - box.width - 8)) + "px";
  const below = event.clientY + 14;
  tip.style.top = (below + box.height > height ? event.clientY - box.height - 10 : below) + "px";
}

// The interpreter (ast) runs expressions without eval, which the page's policy forbids.
async function draw(element, spec, names = {}) {
  const full = { $schema: page.schema, ...spec };
  const result = await vegaEmbed(element, full, {
    mode: "vega-lite",
    renderer: "svg",
    actions: false,
    ast: true,
    defaultStyle: false,
    config: page.config,
    formatLocale: page.locale,
    tooltip: (handler, event, item, value) => showTip(names, event, value),
  });
  const ratio = spec.usermeta && spec.usermeta.ratio; // where a unit is as long across as up
  if (ratio) {
    const fit = () => result.view.height(Math.round(result.view.width() * ratio)).runAsync();
    await fit();
    result.view.addSignalListener("width", () => setTimeout(fit, 0));
  }
  const svg = element.querySelector("svg");
  if (svg) svg.setAttribute("aria-hidden", "true"); // the element around it describes it
  views.set(element.id, result.view);
  return result.view;
}
