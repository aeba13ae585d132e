/* Selected rows against the rest, and the table of rows. */
// Columns: the selected rows against the rest -------------------------------------------------

function meanOf(values, wanted) {
  let [sum, n] = [0, 0];
  for (let i = 0; i < count; i++) {
    if (values[i] !== null && state.selected.has(i) === wanted) {
      sum += values[i];
      n += 1;
    }
  }
  return n ? sum / n : null;
}

function differencesOf() {
  const found = [];
  for (const feature of data.features) {
    const [inside, outside] = [meanOf(feature.values, true), meanOf(feature.values, false)];
    if (inside === null || outside === null || !(feature.sd > 0)) continue;
    found.push({ column: feature.name, inside, outside, apart: (inside - outside) / feature.sd });
  }
  found.sort((a, b) => Math.abs(b.apart) - Math.abs(a.apart));
  return found.slice(0, 14).map((f, rank) => ({ ...f, rank }));
}

async function compare() {
  const found = state.selected.size && state.selected.size < count ? differencesOf() : [];
  $("difference").hidden = found.length === 0;
  $("no-difference").hidden = found.length > 0;
  if (!found.length) return;
  const signed = (v) => (v < 0 ? "\u2212" : "+") + Math.abs(v).toFixed(1);
  const largest = found.slice(0, 3).map((f) => `${f.column} (${signed(f.apart)})`).join(", ");
  const words = `The selected rows differ most from the rest in ${largest}, in standard deviations.`;
  $("difference-words").textContent = words;
  $("differences").setAttribute("aria-label", words);
  const spec = {
    data: { name: "columns", values: found },
    width: "container",
    height: 14 * 22,
    mark: { type: "bar", cornerRadiusEnd: 2 },
    encoding: {
      y: { field: "column", type: "nominal", sort: { field: "rank", op: "min" }, title: null },
      x: { field: "apart", type: "quantitative", title: "mean, selected less rest (standard deviations)" },
      color: { condition: { test: "datum.apart < 0", value: "var(--accent)" }, value: "var(--main)" },
      tooltip: [
        { field: "column", title: "column" },
        { field: "inside", title: "mean of the selected", format: ".4~g" },
        { field: "outside", title: "mean of the rest", format: ".4~g" },
        { field: "apart", title: "apart, in sd", format: ".2f" },
      ],
    },
  };
  if (!differences) {
    differences = draw($("differences"), spec);
    await differences;
  } else {
    const view = await differences;
    view.data("columns", found);
    await view.runAsync();
  }
}

// Rows ---------------------------------------------------------------------------------------

const PAGE = 15;
const columns = [];

// The rows at a glance: the same chart, small and still.
async function drawGlance() {
  const spec = scoresSpec(data.scores.length < 2 ? 180 : 300);
  const places = spec.layer[1];
  delete places.params;
  spec.layer = [places];
  places.encoding.size = { value: count > 500 ? 14 : 26 };
  for (const side of ["x", "y"]) {
    if (places.encoding[side].axis) places.encoding[side].axis.tickCount = 4;
  }
  const option = colour();
  if (option && option.levels) {
    places.encoding.color.legend = { title: option.name, orient: "top", columns: 3, symbolOpacity: 1 };
    places.encoding.shape.legend = places.encoding.color.legend;
    places.encoding.color.title = places.encoding.shape.title = option.name;
  }
  await draw($("glance-chart"), spec, scoreNames());
}

function makeColumns() {
  columns.push({ name: "row", value: (i) => data.rows[i], text: (i) => whole(data.rows[i]) });
  for (const label of data.labels) columns.push({ name: label.name, value: (i) => label.values[i] });
  data.scores.slice(0, 3).forEach((values, k) =>
    columns.push({ name: data.axes[k], value: (i) => values[i], digits: 2 }));
  const rare = (p) => (p === null ? null : p < 0.001 ? "< 0.001" : p.toFixed(3));
  if (data.p.length) columns.push({ name: "p", value: (i) => data.p[i], text: (i) => rare(data.p[i]) });
  if (data.missing.length) columns.push({ name: "missing", value: (i) => data.missing[i] });
  for (const feature of data.features.slice(0, 12)) {
    columns.push({ name: feature.name, value: (i) => feature.values[i] });
  }
  const head = $("rows-head");
  const all = document.createElement("th");
  all.scope = "col";
  all.textContent = "select";
  head.append(all);
  columns.forEach((column, k) => {
    const cell = document.createElement("th");
    cell.scope = "col";
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = column.name;
    button.addEventListener("click", () => {
      state.sort = { k, down: state.sort && state.sort.k === k ? !state.sort.down : false };
      state.at = 0;
      table();
    });
    cell.append(button);
    if (data.rows.some((_, i) => typeof column.value(i) === "number")) cell.className = "number";
    head.append(cell);
  });
}

function shownRows() {
  const filter = state.selected.size && (state.from !== "table" || $("only").checked);
  const found = [];
  for (let i = 0; i < count; i++) if (!filter || state.selected.has(i)) found.push(i);
  if (state.sort) {
    const value = columns[state.sort.k].value;
    const sign = state.sort.down ? -1 : 1;
    found.sort((i, j) => {
      const [a, b] = [value(i), value(j)];
      if (a === b) return i - j;
      if (a === null || a === "") return 1;
      if (b === null || b === "") return -1;
      return sign * (a < b ? -1 : 1);
    });
  }
  return found;
}

function shown(column, i) {
  if (column.text) return column.text(i);
  const value = column.value(i);
  if (value === null || value === undefined) return null;
  if (typeof value !== "number") return value;
  const text = column.digits ? value.toFixed(column.digits) : String(value);
  return text.replace("-", "\u2212");
}

function table() {
  const rows = shownRows();
  const last = Math.max(0, Math.ceil(rows.length / PAGE) - 1);
  state.at = Math.min(state.at, last);
  const body = $("rows-body");
  body.textContent = "";
  for (const i of rows.slice(state.at * PAGE, (state.at + 1) * PAGE)) {
    const line = document.createElement("tr");
    line.classList.toggle("chosen", state.selected.has(i));
    const first = document.createElement("td");
    const box = document.createElement("input");
    box.type = "checkbox";
    box.checked = state.selected.has(i);
    box.setAttribute("aria-label", `select row ${data.names[i]}`);
    box.dataset.row = String(i);
    box.addEventListener("change", () => toggle(i, box.checked));
    first.append(box);
    line.append(first);
    for (const column of columns) {
      const cell = document.createElement("td");
      const text = shown(column, i);
      cell.textContent = text === null ? "–" : text;
      if (text === null) cell.className = "missing";
      if (typeof column.value(i) === "number" || text === null) cell.classList.add("number");
      line.append(cell);
    }
    body.append(line);
  }
  [...$("rows-head").children].slice(1).forEach((cell, k) => {
    const here = state.sort && state.sort.k === k;
    cell.setAttribute("aria-sort", here ? (state.sort.down ? "descending" : "ascending") : "none");
  });
  const from = rows.length ? state.at * PAGE + 1 : 0;
  const to = Math.min(rows.length, (state.at + 1) * PAGE);
  $("place").textContent = `${whole(from)} to ${whole(to)} of ${whole(rows.length)}`;
  const n = state.selected.size;
  const caption = !n ? `${whole(count)} row${count === 1 ? "" : "s"}`
    : rows.length < count ? `${whole(n)} of ${whole(count)} rows, the selected ones`
    : `${whole(count)} rows, ${whole(n)} of them ticked`;
  $("rows-caption").textContent = `${caption}; rows are counted from ${data.first}`;
  $("previous").disabled = state.at === 0;
  $("next").disabled = state.at >= last;
}

function toggle(i, on) {
  const rows = new Set(state.selected);
  if (on) rows.add(i);
  else rows.delete(i);
  const { at } = state;
  if (state.from === "brush") unbrush();
  select(rows, "table");
  state.at = at;
  table();
  const again = document.querySelector(`#rows-body input[data-row="${i}"]`);
  if (again) again.focus();
}
