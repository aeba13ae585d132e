/* Where the rows lie, which of them are selected, and what they are coloured by. */
// Selection ----------------------------------------------------------------------------------

const data = page.rows;
const count = data ? data.rows.length : 0;
const state = { x: 0, y: 1, colour: 0, selected: new Set(), from: "", at: 0, sort: null };
let scores = null;
let differences = null;

function select(rows, from) {
  state.selected = rows;
  state.from = rows.size ? from : "";
  state.at = 0;
  describe();
  table();
  mark();
  compare();
  for (const chip of document.querySelectorAll("#legend button")) {
    const pressed = from === "group" && chip.dataset.level === state.group && rows.size > 0;
    chip.setAttribute("aria-pressed", String(pressed));
  }
}

const status = (i) => (state.selected.size === 0 ? 0 : state.selected.has(i) ? 1 : 2);

function whole(n) {
  return n < 10000 ? String(n) : String(n).replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

function describe() {
  const n = state.selected.size;
  const share = (100 * n) / count;
  $("selected").textContent = n
    ? `${whole(n)} of ${whole(count)} rows selected (${share < 10 ? share.toFixed(1) : share.toFixed(0)} %).`
    : "No rows selected.";
  $("clear").disabled = n === 0;
}

// Scores -------------------------------------------------------------------------------------

const SHAPES = page.shapes;
const GLYPHS = page.glyphs;
const kinds = page.kinds; // CSS colours of the categories

function colour() {
  return data.options[state.colour];
}

function valueOf(option, i) {
  if (option.feature !== undefined) return data.features[option.feature].values[i];
  return option.values ? option.values[i] : option.levels[option.codes[i]];
}

// Ends of a scale of colours: a few outliers must not make all others look alike.
function ends(option) {
  const known = option.values.filter((v) => v !== null).sort((a, b) => a - b);
  if (!known.length) return { low: 0, high: 1, cut: false };
  const [first, last] = [known[0], known[known.length - 1]];
  const at = (share) => known[Math.round(share * (known.length - 1))];
  let [low, high] = [at(0.01), at(0.99)];
  if (!(low < high)) [low, high] = [first, last];
  return { low, high, cut: first < low || last > high };
}

const DAY = 86400000;
function dated(days) {
  return new Date(Math.round(days * DAY)).toISOString().slice(0, days % 1 ? 16 : 10).replace("T", " ");
}

function points() {
  const option = colour();
  const found = [];
  for (let i = 0; i < count; i++) {
    const x = data.scores[state.x][i];
    const y = data.scores.length > 1 ? data.scores[state.y][i] : data.jitter[i];
    const c = option ? valueOf(option, i) : "";
    const said = option && option.dates && c !== null ? dated(c) : c;
    found.push({ i, row: data.names[i], x, y, c, said, s: status(i) });
  }
  return found;
}

// 95 % regions: of the selected rows, or of those of which least is known.
function ellipses() {
  if (!data.cov || data.scores.length < 2) return [];
  const [a, b] = [state.x, state.y];
  const place = (k, l) => (k >= l ? (k * (k + 1)) / 2 + l : (l * (l + 1)) / 2 + k);
  const known = [];
  for (let i = 0; i < count; i++) if (data.cov.of[i] >= 0) known.push(i);
  const kind = (i) => data.cov.kinds[data.cov.of[i]];
  const size = (i) => kind(i)[place(a, a)] * kind(i)[place(b, b)] - kind(i)[place(a, b)] ** 2;
  // Of the selected rows, or of those that are incomplete: the ones of which least is known.
  const asked = state.selected.size ? (i) => state.selected.has(i) : (i) => data.missing[i] > 0;
  const shown = known
    .filter(asked)
    .sort((i, j) => size(j) - size(i) || i - j)
    .slice(0, page.ellipses);
  const radius = Math.sqrt(5.991464547107979);
  const found = [];
  for (const i of shown) {
    const v = kind(i);
    const l11 = Math.sqrt(Math.max(v[place(a, a)], 0));
    const l21 = l11 > 0 ? v[place(a, b)] / l11 : 0;
    const l22 = Math.sqrt(Math.max(v[place(b, b)] - l21 * l21, 0));
    for (let k = 0; k <= 32; k++) {
      const t = (2 * Math.PI * k) / 32;
      const [u, w] = [radius * Math.cos(t), radius * Math.sin(t)];
      found.push({
        e: i, k,
        x: data.scores[a][i] + l11 * u,
        y: data.scores[b][i] + l21 * u + l22 * w,
      });
    }
  }
  return found;
}

function domain(records, field) {
  let [low, high] = [Infinity, -Infinity];
  for (const record of records) {
    if (record[field] === null) continue;
    low = Math.min(low, record[field]);
    high = Math.max(high, record[field]);
  }
  if (!(low <= high)) return [0, 1];
  const room = low < high ? 0.03 * (high - low) : 1;
  return [low - room, high + room];
}

function scoresSpec(height) {
  const option = colour();
  const flat = data.scores.length < 2;
  const [places, regions] = [points(), ellipses()];
  const axis = (field, title) => ({
    field, type: "quantitative", title,
    scale: { domain: domain([...places, ...regions], field), nice: !flat, zero: false },
    axis: flat && field === "y" ? null : { grid: true, tickCount: 6 },
  });
  const position = {
    x: axis("x", data.axes[state.x]),
    y: axis("y", flat ? null : data.axes[state.y]),
  };
  const encoding = {
    ...position,
    opacity: { condition: { test: "datum.s === 2", value: 0.12 }, value: 0.75 },
    size: { condition: { test: "datum.s === 1", value: 60 }, value: count > 500 ? 24 : 38 },
    tooltip: [
      { field: "row", title: "row" },
      { field: "x", title: "across", format: ".3f" },
      ...(flat ? [] : [{ field: "y", title: "up", format: ".3f" }]),
      ...(option ? [{ field: "said", title: "colour" }] : []),
    ],
  };
  if (option && option.levels) {
    encoding.color = {
      field: "c", type: "nominal", legend: null,
      scale: { domain: option.levels, range: option.levels.map((_, k) => kinds[k % kinds.length]) },
    };
    encoding.shape = {
      field: "c", type: "nominal", legend: null,
      scale: { domain: option.levels, range: option.levels.map((_, k) => SHAPES[k % SHAPES.length]) },
    };
  } else if (option) {
    const { low, high } = ends(option);
    const form = high - low > 3 ? "%Y-%m-%d" : "%m-%d %H:%M";
    encoding.color = {
      condition: { test: "datum.c === null", value: "var(--soft)" },
      field: "c", type: "quantitative", title: option.name,
      scale: { range: page.ramp, interpolate: "rgb", domain: [low, high], nice: false, clamp: true },
      legend: {
        orient: "bottom", direction: "horizontal", gradientLength: 240, titleLimit: 260,
        ...(option.dates
          ? { values: [low, (low + high) / 2, high], labelExpr: `utcFormat(datum.value * ${DAY}, '${form}')` }
          : {}),
      },
    };
  } else {
    encoding.color = { value: "var(--main)" };
  }
  return {
    data: { name: "rows", values: places },
    width: "container",
    height,
    layer: [
      {
        data: { name: "regions", values: regions },
        mark: { type: "line", strokeWidth: 1, opacity: 0.55, color: "var(--muted)", clip: true },
        encoding: { ...position, detail: { field: "e" }, order: { field: "k" } },
      },
      {
        params: [{
          name: "brush",
          select: {
            type: "interval",
            encodings: flat ? ["x"] : ["x", "y"],
            mark: { fill: "var(--muted)", fillOpacity: 0.12, stroke: "var(--text)" },
          },
        }],
        mark: { type: "point", filled: true, strokeWidth: 0, clip: true, invalid: "show" },
        encoding,
      },
    ],
  };
}

function scoreNames() {
  const names = { across: data.axes[state.x], up: data.axes[state.y] || "" };
  return colour() ? { ...names, colour: colour().name } : names;
}

let waiting = 0;
function brushed(name, value) {
  cancelAnimationFrame(waiting);
  waiting = requestAnimationFrame(() => {
    const found = new Set();
    const inside = (range, v) => !range || (v >= Math.min(...range) && v <= Math.max(...range));
    if (value && (value.x || value.y)) {
      for (let i = 0; i < count; i++) {
        const x = data.scores[state.x][i];
        const y = data.scores.length > 1 ? data.scores[state.y][i] : 0;
        const across = data.scores.length < 2 || inside(value.y, y);
        if (inside(value.x, x) && across) found.add(i);
      }
    }
    if (found.size || state.from === "brush") select(found, "brush");
  });
}

async function drawScores() {
  if (scores) scores.finalize();
  const flat = data.scores.length < 2;
  const side = Math.round(Math.min(Math.max($("scores").clientWidth * 0.8, 280), 520));
  scores = await draw($("scores"), scoresSpec(flat ? 240 : side), scoreNames());
  scores.addSignalListener("brush", brushed);
  const option = colour();
  const axes = data.scores.length > 1 ? `${data.axes[state.x]} and ${data.axes[state.y]}` : data.axes[0];
  $("scores").setAttribute(
    "aria-label",
    `${whole(count)} rows by ${axes}` + (option ? `, coloured by ${option.name}` : "") + ". " + page.finding,
  );
  legend();
}

function mark() {
  if (!scores) return;
  scores.data("rows", points());
  scores.data("regions", ellipses());
  scores.runAsync();
}

function legend() {
  const box = $("legend");
  box.textContent = "";
  const option = colour();
  const cut = option && option.values && ends(option).cut;
  $("legend-note").textContent = cut
    ? `The colours of ${option.name} run from its 1 % to its 99 % quantile; values beyond have those of the ends.`
    : (option && option.note) || "";
  if (!option || !option.levels) return;
  const sizes = option.levels.map(() => 0);
  for (const code of option.codes) sizes[code] += 1;
  option.levels.forEach((level, k) => {
    const chip = document.createElement("button");
    chip.type = "button";
    chip.dataset.level = String(k);
    chip.setAttribute("aria-pressed", "false");
    const glyph = document.createElement("span");
    glyph.className = `glyph k${(k % kinds.length) + 1}`;
    glyph.setAttribute("aria-hidden", "true");
    glyph.textContent = GLYPHS[k % GLYPHS.length];
    const name = document.createElement("span");
    name.textContent = `${level} (${whole(sizes[k])})`;
    chip.append(glyph, name);
    chip.title = "Select these rows";
    chip.addEventListener("click", () => {
      const off = state.from === "group" && state.group === String(k);
      const rows = new Set();
      if (!off) option.codes.forEach((code, i) => code === k && rows.add(i));
      state.group = String(k);
      unbrush();
      select(rows, "group");
    });
    box.append(chip);
  });
}

function unbrush() {
  if (!scores) return;
  try {
    scores.data("brush_store", []).signal("brush_x", []);
    if (data.scores.length > 1) scores.signal("brush_y", []);
    scores.runAsync();
  } catch (error) {
    scores.runAsync();
  }
}
