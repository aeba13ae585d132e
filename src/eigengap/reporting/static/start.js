/* Controls, light and dark, and the beginning of it all. */
// Controls -----------------------------------------------------------------------------------

function fill(element, names, at, change) {
  names.forEach((name, k) => {
    const option = document.createElement("option");
    option.value = String(k);
    option.textContent = name;
    element.append(option);
  });
  element.value = String(at);
  element.addEventListener("change", () => change(Number(element.value)));
}

function controls() {
  data.options = [
    ...data.colours,
    ...data.features.map((feature, k) => ({ name: feature.name, feature: k, values: feature.values })),
  ];
  if (data.options.length) {
    const start = data.options.findIndex((option) => option.name === data.start);
    state.colour = start < 0 ? (data.colours.length ? 0 : data.options.length) : start;
  }
  const names = [...data.options.map((option) => option.name), "(one colour)"];
  fill($("colour"), names, state.colour, (k) => { state.colour = k; drawScores(); });
  if (data.scores.length > 1) {
    fill($("axis-x"), data.axes, 0, (k) => turn("x", "y", k));
    fill($("axis-y"), data.axes, 1, (k) => turn("y", "x", k));
  }
  $("clear").addEventListener("click", unselect);
  $("only").addEventListener("change", () => { state.at = 0; table(); });
  $("previous").addEventListener("click", () => { state.at -= 1; table(); });
  $("next").addEventListener("click", () => { state.at += 1; table(); });
}

// An axis against itself shows nothing: the one that was there goes to the other side.
function turn(side, other, k) {
  if (state[other] === k) {
    state[other] = state[side];
    $(`axis-${other}`).value = String(state[other]);
  }
  state[side] = k;
  unselect();
  drawScores();
}

function unselect() {
  unbrush();
  select(new Set(), "");
}

// Light and dark, and paper --------------------------------------------------------------------

const root = document.documentElement;
const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : prefersDark.matches);
const button = $("theme");
const nameTheme = () => {
  button.textContent = isDark() ? "Light" : "Dark";
  button.setAttribute("aria-label", `Switch to ${isDark() ? "light" : "dark"} colours`);
};
button.addEventListener("click", () => {
  root.dataset.theme = isDark() ? "light" : "dark";
  nameTheme();
});
prefersDark.addEventListener("change", nameTheme);
nameTheme();
window.addEventListener("beforeprint", () => {
  for (const part of document.querySelectorAll("details")) part.open = true;
});

// Start --------------------------------------------------------------------------------------

async function start() {
  if (data) {
    controls();
    makeColumns();
    describe();
    table();
    await drawGlance();
    await drawScores();
  }
  for (const [id, spec] of Object.entries(page.charts)) await draw($(id), spec);
  root.dataset.ready = "yes";
}
start().catch((error) => {
  root.dataset.ready = "failed";
  throw error;
});
