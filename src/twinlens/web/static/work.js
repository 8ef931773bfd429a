// A job as it goes: the part of the page that changes, asked for again until it is over.
const state = document.getElementById("state");
const pause = (ms) => new Promise((done) => setTimeout(done, ms));
async function follow() {
  while (state.dataset.over === "no") {
    await pause(document.hidden ? 5000 : 1000);
    let answer;
    try {
      answer = await fetch(state.dataset.address, { headers: { Accept: "text/html" } });
    } catch {
      continue; // the site is away; the job is not
    }
    if (!answer.ok) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").body;
    const standing = fresh.querySelector(".standing").dataset.state;
    if (standing !== "running") return location.reload();
    const log = state.querySelector("pre.log"), at = log && log.scrollTop;
    state.replaceChildren(...fresh.childNodes);
    if (log) state.querySelector("pre.log").scrollTop = at;
  }
}
follow();
