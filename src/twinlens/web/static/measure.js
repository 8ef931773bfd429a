// The form of a measurement, checked as one types: the page below the form is that of the form as it is now.
const form = document.getElementById("ask");
let asking, waiting;
async function check(whole) {
  asking?.abort();
  asking = new AbortController();
  const words = new URLSearchParams([...new FormData(form)].filter(([, value]) => value.trim() !== ""));
  const address = `${location.pathname}?${words}`;
  if (whole || address.length > 4000) return whole && (location.href = address);
  let text;
  try {
    text = await (await fetch(address, { signal: asking.signal })).text();
  } catch {
    return;
  }
  const fresh = new DOMParser().parseFromString(text, "text/html");
  history.replaceState(null, "", address);
  while (form.nextSibling) form.nextSibling.remove();
  let next = fresh.getElementById("ask");
  while ((next = fresh.getElementById("ask").nextSibling)) form.parentNode.append(next);
  document.querySelector("footer").replaceWith(fresh.querySelector("footer"));
}
form.addEventListener("input", (event) => {
  clearTimeout(waiting);
  const isOther = event.target.id === "verb";
  waiting = setTimeout(() => check(isOther), isOther ? 0 : 350);
});
