// A talk with one or two servers: text as text, a mark per gap, figures as they come. The server of the page has asked.
import { formToken } from "./base.js";
const $ = (id) => document.getElementById(id);
const form = $("chat"), answers = $("answers"), MOST = 240, SVG = "http://www.w3.org/2000/svg";
let talks = {}, kept = [], going = null;
const make = (name, text = "", kind = "") => Object.assign(document.createElement(name), { textContent: text, className: kind });
const linked = (text, href) => Object.assign(make("a", text), { href }), explained = ["ttft", "tpot"];
const post = (path, data, signal) => fetch(path, { method: "POST", signal, body: JSON.stringify(data),
  headers: { "Content-Type": "application/json", "X-Twinlens-Form": formToken(), Accept: "application/json, text/event-stream" } });

function panel(side) {
  const box = make("article", "", "box"), head = make("h2", side.toUpperCase()), note = make("p", "", "under"), log = make("div", "", "talk");
  const strip = document.createElementNS(SVG, "svg"), said = make("p", "", "meta"), server = make("p", "", "meta"), rows = make("dl", "", "rows");
  strip.setAttribute("class", "gaps"); strip.setAttribute("role", "img"); strip.setAttribute("preserveAspectRatio", "none"); strip.setAttribute("aria-label", "no tokens yet");
  box.append(head, note, log, strip, said, server, rows);
  answers.append(box);
  return { box, head, note, log, strip, said, server, rows, messages: [] };
}

function draw(talk) {
  const gaps = talk.marks.slice(1).map((mark, at) => mark - talk.marks[at]);
  const last = gaps.slice(-MOST), high = Math.max(...last, 0.001), sorted = [...gaps].sort((a, b) => a - b);
  talk.strip.replaceChildren(...last.map((gap, at) => {
    const bar = document.createElementNS(SVG, "rect"), height = Math.max(1, 40 * gap / high);
    for (const [name, value] of Object.entries({ x: at * 4, y: 40 - height, width: 3, height })) bar.setAttribute(name, value);
    return bar;
  }));
  talk.strip.setAttribute("viewBox", `0 0 ${Math.max(120, last.length) * 4} 40`);
  const ms = (value) => `${value.toPrecision(3)} ms`, marks = talk.marks, span = marks.at(-1) - marks[0];
  const words = span > 0 ? `gaps between tokens: median ${ms(sorted[gaps.length >> 1])}, longest ${ms(sorted.at(-1))}` : "";
  talk.said.textContent = [marks.length && `n = 1 · ${marks.length} pieces`, marks.length && `first after ${ms(marks[0])}`,
    span > 0 && `${ms(span / gaps.length)} each after it`, span > 0 && `${(1000 * marks.length / marks.at(-1)).toPrecision(3)} a second`, words].filter(Boolean).join(" · ");
  talk.strip.setAttribute("aria-label", words || "no gap yet");
}

function took(talk, event) {
  if (event.kind === "begin") { talk.head.textContent = `${talk.side.toUpperCase()}: ${event.model || event.url}`; talk.note.textContent = event.note; }
  if (event.kind === "text") { talk.reply.textContent += event.text; talk.marks.push(...event.marks_ms); talk.dirty = true; }
  if (event.kind === "server") talk.server.textContent = event.why ? `Its own gauges: ${event.why}.` : "Server: " + [
    event.kv_use != null && `KV cache ${(100 * event.kv_use).toFixed(1)} % used`, event.running != null && `${event.running} running`,
    event.waiting != null && `${event.waiting} waiting`].filter(Boolean).join(", ") + ".";
  if (event.kind === "end") {
    if (event.error) talk.log.append(make("p", `${event.error}.`, "tone-bad"));
    talk.rows.replaceChildren(...event.rows.map((row) => {
      const line = make("div"), value = make("dd", row.value || "–");
      if (row.value) value.append(make("small", ` n = ${row.n}`));
      if (row.why) value.append(make("span", ` ${row.why}`, "meta"));
      if (row.measured) value.append(make("span", ` · measured: ${row.measured}`, "meta"));
      const name = make("dt", explained.includes(row.id) ? "" : row.name);
      if (explained.includes(row.id)) name.append(linked(row.name, `/explain/${row.id}`));
      line.append(name, value);
      return line;
    }));
    if (event.run) talk.server.append(" ", linked("The run that measured this server", `/runs/${encodeURIComponent(event.run)}`), " · ",
      linked("why its TPOT is what it is", `/diagnose?run=${encodeURIComponent(event.run)}`));
    if (event.merged) talk.said.textContent += ` · ${event.merged} tokens came together with the one before`;
    if (event.endpoint === "completions") talk.said.textContent += " · asked as plain text: the server has no chat for this model";
    if (!event.error) talk.messages.push({ role: "assistant", content: talk.reply.textContent });
    if (event.kept.length) talk.kept.push(...event.kept);
  }
}

async function follow(talk, question, signal) {
  const answer = await post("/chat/ask", question, signal);
  if (!answer.ok) { talk.log.append(make("p", (await answer.json()).error, "tone-bad")); talk.messages.pop(); return; }
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; ;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) if (part.startsWith("data: ")) took(talk, JSON.parse(part.slice(6)));
  }
}

function frame() {
  for (const talk of Object.values(talks)) if (talk.dirty) { talk.dirty = false; draw(talk); talk.log.scrollTop = talk.log.scrollHeight; }
  if (going) requestAnimationFrame(frame);
}

async function send(event) {
  event.preventDefault();
  if (going) return;
  const words = Object.fromEntries(new FormData(form)), sides = ["a", "b"].filter((side) => words[side].trim() || side === "a");
  for (const side of Object.keys(talks)) if (!sides.includes(side)) { talks[side].box.remove(); delete talks[side]; }
  if (!Object.keys(talks).length) answers.replaceChildren();
  going = new AbortController();
  const asked = sides.map((side) => {
    const talk = (talks[side] ??= Object.assign(panel(side), { side, kept: [] }));
    talk.messages.push({ role: "user", content: words.prompt });
    talk.log.append(make("p", words.prompt, "mine"));
    Object.assign(talk, { marks: [], reply: make("pre", "", "answer") });
    talk.reply.tabIndex = 0;
    talk.log.append(talk.reply);
    const few = Object.fromEntries(["temperature", "max_tokens", "seed", "at_once", "price_in", "price_out"].map((name) => [name, words[name]]));
    return follow(talk, { ...few, url: words[side], model: words[`model_${side}`], key: words[`key_${side}`], messages: talk.messages }, going.signal)
      .catch((wrong) => talk.log.append(make("p", wrong.name === "AbortError" ? "Stopped." : "The server of this page went away.", "tone-bad")));
  });
  $("send").disabled = true; $("halt").hidden = false; $("kept").textContent = "";
  requestAnimationFrame(frame);
  await Promise.all(asked);
  going = null; frame();
  for (const talk of Object.values(talks)) draw(talk);
  $("send").disabled = false; $("halt").hidden = true; $("anew").hidden = false;
  kept = Object.values(talks).flatMap((talk) => talk.kept);
  $("keep").hidden = !kept.length;
  $("instead").href = `/measure?${new URLSearchParams({ url: words.a })}`;
  const address = new URLSearchParams(["a", "b", "model_a", "model_b", "temperature", "max_tokens", "seed", "at_once"].map((name) => [name, words[name]]).filter(([, word]) => word));
  history.replaceState(null, "", `/chat?${address}`);
}

async function save(as) {
  for (const talk of Object.values(talks).filter((each) => each.kept.length)) {
    const answer = await post("/chat/save", { as, kept: talk.kept }), told = await answer.json();
    if (told.run) { const link = make("a", `Saved as ${told.run}`); link.href = told.address; $("kept").append(" ", link); }
    else if (told.spec) { $("spec-text").hidden = false; $("spec-text").textContent = told.spec; }
    else $("kept").textContent = told.error;
    if (as === "spec") return;
  }
}

form.addEventListener("submit", send);
$("halt").addEventListener("click", () => going?.abort());
$("anew").addEventListener("click", () => { talks = {}; kept = []; answers.replaceChildren(); $("keep").hidden = true; $("anew").hidden = true; $("prompt").focus(); });
$("save").addEventListener("click", () => save("run"));
$("spec").addEventListener("click", () => save("spec"));
