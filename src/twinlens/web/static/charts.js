// Charts of a page, drawn from their specifications by the Vega that the chart library ships; nothing is evaluated.
import "/static/vega.js";

for (const place of document.querySelectorAll("[data-chart]")) draw(place);

export async function draw(place) {
  const spec = JSON.parse(place.querySelector("script[type='application/json']").textContent);
  const target = document.createElement("div");
  target.setAttribute("aria-hidden", "true"); // the place names it, and tables hold its figures
  place.append(target);
  try {
    await window.vegaEmbed(target, spec, { ast: true, actions: false, renderer: "svg", defaultStyle: false, tooltip: false });
    const svg = target.querySelector("svg"); // as wide as in a file, and no wider
    if (svg) svg.style.maxWidth = `${Math.round(1.15 * svg.getAttribute("width"))}px`;
  } catch {
    target.textContent = "This chart cannot be drawn; the tables hold its figures.";
  }
}
