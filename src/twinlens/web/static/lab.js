// Timelines of the batching lab: requests in lanes, and one cursor through the time of all of them.
const NS = "http://www.w3.org/2000/svg";
const WIDTH = 1000;
const place = document.querySelector("[data-lanes]");

function element(name, attributes) {
  const made = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function draw(target, track, end) {
  const lane = Math.max(3, Math.min(14, 240 / Math.max(track.lanes, 1)));
  const height = Math.max(lane * track.lanes, lane);
  const svg = element("svg", { viewBox: `0 0 ${WIDTH} ${height}`, preserveAspectRatio: "none", height, "aria-hidden": "true" });
  const x = (at) => (at / end) * WIDTH;
  const bar = (from, to, row, share, kind) => {
    if (to > from) svg.append(element("rect", { class: kind, x: x(from), width: Math.max(x(to) - x(from), 0.5), y: row * lane + (lane * (1 - share)) / 2, height: lane * share * 0.9 }));
  };
  for (const [due, letGo, first, done, row] of track.requests) {
    bar(due, letGo, row, 0.2, "held");
    bar(letGo, first, row, 0.5, "waits");
    bar(first, done, row, 1, "answers");
  }
  const cursor = element("line", { class: "now-line", x1: 0, x2: 0, y1: 0, y2: height });
  svg.append(cursor);
  target.append(svg);
  return (at) => { cursor.setAttribute("x1", x(at)); cursor.setAttribute("x2", x(at)); };
}

function counts(track, at) {
  let held = 0, waits = 0, answers = 0;
  for (const [due, letGo, first, done] of track.requests) {
    if (at < due || at >= done) continue;
    if (at < letGo) held += 1;
    else if (at < first) waits += 1;
    else answers += 1;
  }
  return `${held} held back, ${waits} waiting for the first token, ${answers} answered`;
}

if (place) {
  const tracks = JSON.parse(document.getElementById("tracks").textContent);
  const end = Math.max(...tracks.flatMap((each) => each.requests.map((one) => one[3])), 0.001);
  const figures = [...place.querySelectorAll("[data-lane]")];
  const moves = figures.map((each, index) => draw(each.querySelector(".draw"), tracks[index], end));
  const moment = document.getElementById("moment");
  const move = () => {
    const at = (moment.value / 1000) * end;
    moves.forEach((each) => each(at));
    const told = tracks.map((each) => counts(each, at));
    figures.forEach((each, index) => { each.querySelector(".now").textContent = told[index]; });
    document.getElementById("at").textContent = `${at.toFixed(2)} s`;
    moment.setAttribute("aria-valuetext", `${at.toFixed(2)} s: ${tracks.map((each, index) => `${each.name}, ${told[index]}`).join("; ")}`);
  };
  moment.addEventListener("input", move);
  moment.value = 300;
  move();
}
