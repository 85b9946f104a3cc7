"use strict";
// Filters, and the selection of a commit in a plot. Without this, the page shows the same in its tables.
const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const make = (name, text = "") => Object.assign(document.createElement(name), { textContent: text });

const series = all("#series tbody tr").map((row) => ({
  number: row.dataset.s,
  scenario: row.dataset.scenario,
  values: JSON.parse(row.dataset.values),
}));

// Each filter is a function that says whether it lets a series pass.
const filters = [];
const filter = () => {
  const passing = new Set(series.filter((one) => filters.every((pass) => pass(one))).map((one) => one.number));
  for (const part of all("[data-s]")) part.classList.toggle("out", !passing.has(part.dataset.s));
  for (const section of all("section")) {
    section.hidden = all("details[data-s]", section).every((table) => table.classList.contains("out"));
  }
};
const choice = (name, valueOf) => {
  const values = [...new Set(series.map(valueOf).filter((value) => value !== undefined))].sort();
  if (values.length === 1) return;
  const select = make("select");
  select.append(...["all", ...values].map((value) => make("option", value)));
  const label = make("label", name + " ");
  label.append(select);
  document.getElementById("filters").append(label);
  filters.push((one) => select.selectedIndex === 0 || valueOf(one) === values[select.selectedIndex - 1]);
  select.addEventListener("change", filter);
};
choice("scenario", (one) => one.scenario);
const names = new Set(series.flatMap((one) => Object.keys(one.values)));
for (const name of [...names].sort()) choice(name, (one) => one.values[name]);

// A click, or the arrow keys, select a commit: the panel below the plot shows its rows of all series in the plot.
const near = 8;
for (const figure of all("figure")) {
  const svg = figure.querySelector(".plot > svg");
  const last = Number(svg.dataset.n) - 1;
  const tables = all("g[data-s]", svg).map((group) => document.getElementById("s" + group.dataset.s));
  const panel = make("div");
  panel.className = "panel";
  panel.setAttribute("aria-live", "polite");
  figure.append(panel);
  const here = document.createElementNS("http://www.w3.org/2000/svg", "line");
  here.setAttribute("class", "here");
  let rows, notable, selected;
  const index = () => {
    rows = new Map();
    for (const table of tables) {
      for (const row of all("table.all > tbody > tr", table)) {
        const place = Number(row.dataset.x);
        if (!rows.has(place)) rows.set(place, []);
        rows.get(place).push([table, row]);
      }
    }
    const differs = ([, row]) => row.className === "change" || row.querySelector(".worse, .better");
    notable = [...rows.keys()].filter((place) => rows.get(place).some(differs));
  };
  const show = (place) => {
    selected = Math.max(0, Math.min(last, place));
    const x = (last === 0 ? 0 : (100 * selected) / last) + "%";
    for (const [name, value] of [["x1", x], ["x2", x], ["y1", 0], ["y2", 220]]) here.setAttribute(name, value);
    svg.append(here);
    panel.replaceChildren();
    let table, body;
    for (const [from, row] of rows.get(selected) ?? []) {
      if (table !== from) {
        table = from;
        const copy = make("table");
        copy.className = "all";
        body = make("tbody");
        const caption = make("caption", from.querySelector("summary").textContent.replace(/: [^:]*$/, ""));
        copy.append(caption, from.querySelector("thead").cloneNode(true), body);
        const around = make("div");
        around.className = "table";
        around.dataset.s = from.dataset.s;
        around.classList.toggle("out", from.classList.contains("out"));
        around.append(copy);
        panel.append(around);
      }
      body.append(row.cloneNode(true));
    }
  };
  svg.setAttribute("tabindex", "0");
  svg.addEventListener("click", (event) => {
    if (!rows) index();
    const box = svg.getBoundingClientRect();
    const step = last === 0 ? box.width : box.width / last;
    const at = (event.clientX - box.left) / step;
    const distance = (place) => Math.abs(place - at) * step;
    const best = notable.reduce((a, b) => (distance(b) >= distance(a) ? a : b), Infinity);
    show(near >= distance(best) ? best : Math.round(at));
  });
  svg.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by) return;
    if (!rows) index();
    event.preventDefault();
    show(selected === undefined ? last : selected + by);
  });
}
