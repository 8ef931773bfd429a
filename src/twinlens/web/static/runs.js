// The explorer: a facet is asked for as it is ticked, and the button says how many runs it would compare.
const facets = document.getElementById("facets");
facets.addEventListener("change", (event) => {
  if (event.target.type === "checkbox") facets.requestSubmit();
});

const says = () => {
  const count = document.querySelectorAll("#compare input[name=run]:checked").length;
  const place = document.getElementById("ticked");
  if (!place) return;
  place.textContent = count < 2 ? `${count} ticked; tick 2 to 8.` : count > 8 ? `${count} ticked; at most 8.` : `${count} ticked.`;
  document.querySelector("#compare button").disabled = count < 2 || count > 8;
};
document.addEventListener("change", (event) => event.target.closest("#compare") && says());
document.addEventListener("renewed", says);
says();
