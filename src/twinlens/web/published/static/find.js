"use strict";
// A search over the rows of this page: without a server, a request, or an index of its own, so that it works from a file.
const box = document.getElementById("find"), count = document.getElementById("count");
const rows = [...document.querySelectorAll("[data-find]")].map((row) => [row, row.textContent.toLowerCase()]);

function find() {
  const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
  let found = 0;
  for (const [row, text] of rows) {
    row.hidden = !words.every((word) => text.includes(word));
    found += row.hidden ? 0 : 1;
  }
  count.textContent = words.length ? `${found} of ${rows.length}` : "";
}

document.getElementById("search").hidden = false;
document.getElementById("search").addEventListener("submit", (event) => event.preventDefault());
box.addEventListener("input", find);
find();
