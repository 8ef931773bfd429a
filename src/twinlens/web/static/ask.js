// A form that answers while it moves: the same address is asked for its answer alone, and put in its place.
const form = document.querySelector("form[data-ask]");
const wrong = document.getElementById("wrong");
const told = document.getElementById("told");
const FACTORS = [0.1, 0.2, 0.3, 0.5, 0.7, 0.85, 1, 1.2, 1.5, 2, 3, 5, 10];
let isAsking = false, isStale = false, rest = 0;

const words = () => new URLSearchParams([...new FormData(form)].filter(([, word]) => word !== ""));
const address = () => `${form.getAttribute("action")}?${words()}`;

async function ask({ charts }) {
  if (isAsking) { isStale = true; return; }
  isAsking = true;
  const asked = address();
  try {
    const answer = await fetch(`${asked}&as=part${charts ? "" : "&charts=no"}`);
    if (answer.headers.get("content-type")?.startsWith("application/json")) await show(await answer.json(), charts);
    else throw new Error();
  } catch {
    wrong.replaceChildren(paragraph("The server did not answer; the last answer stands."));
  }
  isAsking = false;
  if (isStale) { isStale = false; await ask({ charts: false }); return; }
  clearTimeout(rest);
  if (!charts) rest = setTimeout(() => { remember(); ask({ charts: true }); }, 500);
}

async function show(part, charts) {
  if (part.wrong) {
    wrong.replaceChildren(paragraph(part.wrong[0].toUpperCase() + part.wrong.slice(1)));
    document.getElementById("document")?.classList.add("old");
    return;
  }
  wrong.replaceChildren();
  const place = document.getElementById("document") ?? fresh();
  const open = new Set([...place.querySelectorAll("details[open] > summary")].map((each) => each.textContent.split(":")[0]));
  const drawn = charts ? null : place.querySelector(".figures");
  place.classList.remove("old");
  place.innerHTML = part.document; // made and escaped by this site's own templates
  if (drawn) { drawn.classList.add("old"); place.append(drawn); }
  for (const each of place.querySelectorAll("details > summary")) if (open.has(each.textContent.split(":")[0])) each.parentElement.open = true;
  document.querySelector(".elsewhere")?.replaceWith(document.createRange().createContextualFragment(part.elsewhere));
  told.textContent = (place.querySelector(".lead") ?? place.querySelector(".ran"))?.textContent ?? "";
  if (place.querySelector("[data-chart]")) {
    const { draw } = await import("/static/charts.js");
    for (const each of place.querySelectorAll("[data-chart]")) if (!each.querySelector("svg")) await draw(each);
  }
}

function fresh() {
  const made = document.createElement("div");
  made.id = "document";
  document.querySelector("main").append(made);
  return made;
}

function paragraph(text) {
  const made = document.createElement("p");
  made.textContent = text;
  return made;
}

function remember() {
  if (`${location.pathname}${location.search}` !== address()) history.pushState(null, "", address());
}

function slider(input) {
  const made = document.createElement("input");
  made.type = "range";
  made.min = 0;
  made.setAttribute("aria-label", `${input.labels[0].firstChild.textContent.trim()}, slider`);
  let stops = [], tail = "";
  const fit = () => {
    const number = /^\s*([\d.]+)(.*)$/.exec(input.value);
    if (input.dataset.stops === "scaled") {
      made.hidden = !number;
      if (!number) return;
      tail = number[2];
      stops = FACTORS.map((each) => `${Number((each * Number(number[1])).toPrecision(2))}`);
      stops[FACTORS.indexOf(1)] = number[1];
      made.max = stops.length - 1;
      made.value = FACTORS.indexOf(1);
    } else {
      stops = input.dataset.stops.split(" ");
      made.max = stops.length - 1;
      const value = size(input.value);
      const near = stops.findIndex((each) => size(each) >= value);
      made.value = near < 0 ? (value ? stops.length - 1 : 0) : near;
    }
    made.setAttribute("aria-valuetext", input.value || "not said");
  };
  made.addEventListener("input", () => {
    input.value = `${stops[made.value]}${tail}`;
    made.setAttribute("aria-valuetext", input.value);
    ask({ charts: false });
  });
  input.addEventListener("input", fit);
  input.addEventListener("refill", fit);
  fit();
  input.after(made);
}

const size = (word) => parseFloat(word) * (/k$/i.test(word) ? 1024 : /m$/i.test(word) ? 2 ** 20 : 1) || 0;

function otherLens(select) {
  const lens = select.value ? select.dataset.lenses.split(" ")[0] : "0";
  for (const each of form.querySelectorAll("[data-lenses]")) if (!each.dataset.lenses.split(" ").includes(lens) && each !== select) each.disabled = true;
  location.assign(address());
}

function refill() {
  const said = new URLSearchParams(location.search);
  for (const each of form.elements) {
    if (!each.name) continue;
    if (each.type === "checkbox") each.checked = said.has(each.name);
    else if (each.value !== (said.get(each.name) ?? "")) each.value = said.get(each.name) ?? "";
    each.dispatchEvent(new Event("refill"));
  }
}

if (form) {
  for (const each of form.querySelectorAll("[data-stops]")) slider(each);
  let typing = 0;
  form.addEventListener("input", (event) => {
    if (event.target.type === "range") return;
    clearTimeout(typing);
    if (event.target.dataset.lens !== undefined) otherLens(event.target);
    else typing = setTimeout(() => ask({ charts: false }), 150);
  });
  form.addEventListener("submit", (event) => { event.preventDefault(); remember(); ask({ charts: true }); });
  addEventListener("popstate", () => {
    if (!location.search) location.reload(); // the example of the verb, which the server fills in
    else { refill(); ask({ charts: true }); }
  });
}
