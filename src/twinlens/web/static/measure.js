// The forms of a measurement, checked as one types: the page below them is that of the form as it is now.
const below = document.getElementById("below"), ask = document.getElementById("ask"), own = document.getElementById("own");
let asking, waiting;
async function check(form) {
  asking?.abort();
  asking = new AbortController();
  const words = new URLSearchParams([...new FormData(form)].filter(([, value]) => value.trim() !== ""));
  const address = form === own ? location.pathname : `${location.pathname}?${words}`;
  if (address.length > 4000) return;
  let text;
  try {
    text = await (await fetch(address, { signal: asking.signal, ...(form === own ? { method: "POST", body: words } : {}) })).text();
  } catch {
    return;
  }
  const fresh = new DOMParser().parseFromString(text, "text/html"), from = fresh.getElementById("below");
  if (!from) return;
  if (form !== own) history.replaceState(null, "", address);
  while (below.nextSibling) below.nextSibling.remove();
  while (from.nextSibling) below.parentNode.append(from.nextSibling);
  document.querySelector("footer").replaceWith(fresh.querySelector("footer"));
}
for (const form of [ask, own].filter(Boolean)) form.addEventListener("input", (event) => {
  clearTimeout(waiting);
  if (event.target.id === "verb") return location.assign(`${location.pathname}?verb=${event.target.value}`);
  waiting = setTimeout(() => check(form), 350);
});
