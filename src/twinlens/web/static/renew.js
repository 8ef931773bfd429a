// A part of a page that goes on changing: asked for again every few seconds, until the server says that it is done.
// What is ticked, opened and focused stays; a server that is gone is said, and asked again.
let failures = 0;
const wait = (seconds) => setTimeout(renew, 1000 * seconds);
const first = document.querySelector("[data-renew]");
if (first) wait(Number(first.dataset.renew));

async function renew() {
  const old = document.querySelector("[data-renew]");
  if (!old) return;
  const busy = document.hidden || old.contains(document.activeElement);
  if (busy) return wait(Number(old.dataset.renew));
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.getElementById(old.id);
    if (!fresh) return location.reload();
    keep(old, fresh);
    old.replaceWith(fresh);
    const also = old.dataset.also && page.getElementById(old.dataset.also);
    if (also) document.getElementById(old.dataset.also).replaceWith(also);
    failures = 0;
    document.dispatchEvent(new Event("renewed"));
    if (fresh.dataset.renew) return wait(Number(fresh.dataset.renew));
    if (fresh.dataset.whole !== undefined) location.reload();
  } catch {
    failures += 1;
    old.dataset.lost = "The server does not answer; this page asks again.";
    wait(Math.min(30, 3 * failures));
  }
}

function keep(old, fresh) {
  const ticked = new Set([...old.querySelectorAll("input:checked")].map((each) => each.value));
  for (const each of fresh.querySelectorAll("input[type=checkbox]")) each.checked = ticked.has(each.value);
  const before = old.querySelectorAll("details");
  fresh.querySelectorAll("details").forEach((each, place) => { if (before[place]) each.open = before[place].open; });
}
