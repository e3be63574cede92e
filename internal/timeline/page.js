"use strict";
// The entries are foreign text: they reach the page through textContent and attributes only.
const data = JSON.parse(document.getElementById("data").textContent);
const $ = id => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
const OPEN = -1, ROW = 15, TICKS = 14;
const entries = data.entries || [];
const end = Math.max(data.now, 1);
const first = data.dropped ? entries.reduce((t, e) => e.kind === "request" ? Math.min(t, e.at) : t, end) : 0; // what is before is incomplete
entries.forEach((e, i) => { e.id = i; e.to = e.dur === OPEN ? end : e.at + e.dur; });
const readOps = /^(exists|get|check|who)/;
const kindOf = e => e.kind !== "request" ? e.kind : e.what === "ping" ? "ping" : readOps.test(e.what) ? "read" : "write";
const laneOf = e => e.lane || e.session || e.server;
const isBar = e => ["session", "link", "hold", "wait", "leader", "fault"].includes(e.kind);

// An entry of a server's own is in the server's lane. All others are in the lane of their client.
const lanes = data.lanes.map(name => ({ name, entries: [], server: false }));
const byName = new Map(lanes.map(l => [l.name, l]));
for (const e of entries) {
  const lane = byName.get(laneOf(e));
  if (!lane) continue;
  lane.entries.push(e);
  if (["fault", "leader", "act"].includes(e.kind)) lane.server = true;
}
const changes = new Map(); // the request of each zxid
for (const e of entries) if (e.kind === "request" && e.zxid && !e.bad && !changes.has(e.zxid)) changes.set(e.zxid, e);
const fired = new Map(); // the events of each zxid
for (const e of entries) if (e.kind === "watch" && e.zxid) fired.set(e.zxid, (fired.get(e.zxid) || []).concat(e));

// rows places overlapping bars below each other.
for (const lane of lanes) {
  const ends = [];
  for (const e of lane.entries) {
    if (!["hold", "wait", "leader", "fault"].includes(e.kind)) continue;
    let row = ends.findIndex(t => t <= e.at);
    if (row < 0) row = ends.length < 6 ? ends.push(0) - 1 : 5;
    ends[row] = e.to;
    e.row = row;
  }
  lane.sessions = lane.entries.some(e => e.kind === "session") ? 1 : 0;
  lane.rows = ends.length;
  lane.ticks = lane.entries.some(e => !isBar(e)) ? 1 : 0;
  lane.height = 6 + lane.sessions * (ROW + 3) + lane.rows * ROW + lane.ticks * TICKS + 4;
}

let from = 0, to = end, chosen = null;
const filter = { text: "", client: "", kinds: new Set(["read", "write", "watch"]) };
const matches = e => {
  const kind = kindOf(e);
  if (["ping", "read", "write", "watch"].includes(kind) && !filter.kinds.has(kind)) return false;
  if (filter.client && laneOf(e) !== filter.client && !["fault", "leader", "act"].includes(e.kind)) return false;
  return !filter.text || [e.what, e.path, e.result, e.session, e.server, e.lane].some(t => t && t.toLowerCase().includes(filter.text));
};
const time = ns => ns >= 1e9 ? (ns / 1e9).toFixed(3) + " s" : ns >= 1e6 ? (ns / 1e6).toFixed(3) + " ms" : (ns / 1e3).toFixed(1) + " µs";
const make = (name, attributes, parent) => {
  const n = document.createElementNS(SVG, name);
  for (const k in attributes) n.setAttribute(k, attributes[k]);
  if (parent) parent.append(n);
  return n;
};
const element = (name, text, parent, className) => {
  const n = document.createElement(name);
  if (text !== undefined) n.textContent = text;
  if (className) n.className = className;
  if (parent) parent.append(n);
  return n;
};

// Lanes are drawn when they are in view.
let width = 800;
const seen = new Set();
const observer = new IntersectionObserver(list => {
  for (const item of list) {
    const lane = item.target.lane;
    if (item.isIntersecting) { seen.add(lane); draw(lane); } else seen.delete(lane);
  }
}, { rootMargin: "400px" });
for (const lane of lanes) {
  lane.node = element("section", undefined, $("lanes"), "lane" + (lane.server ? " server" : ""));
  lane.node.lane = lane;
  lane.node.dataset.lane = lane.name;
  element("h2", lane.name, lane.node);
  lane.svg = make("svg", { height: lane.height, role: "img", "aria-label": lane.name + ": " + lane.entries.length + " entries" }, lane.node);
  observer.observe(lane.node);
}
const x = t => (t - from) / (to - from) * width;

function draw(lane) {
  const hidden = filter.client && lane.name !== filter.client && !lane.server;
  lane.node.hidden = hidden;
  lane.node.style.display = hidden ? "none" : "";
  lane.svg.replaceChildren();
  if (hidden) return;
  const top = { session: 3, link: 3 + ROW - 3, row: 3 + lane.sessions * (ROW + 3), ticks: 3 + lane.sessions * (ROW + 3) + lane.rows * ROW };
  const paths = new Map();
  const columns = new Set(); // one tick per pixel and kind is enough
  for (const e of lane.entries) {
    if (e.at > to || e.to < from || !matches(e)) continue;
    const x0 = x(e.at), x1 = x(e.to);
    if (isBar(e)) {
      const y = e.kind === "session" ? top.session : e.kind === "link" ? top.link : top.row + e.row * ROW;
      const h = e.kind === "session" ? ROW - 3 : e.kind === "link" ? 3 : ROW - 3;
      const left = Math.max(x0, -2), w = Math.max(Math.min(x1, width + 2) - left, 1.5);
      const bar = make("rect", { x: left, y, width: w, height: h, class: ["bar", e.kind, e.bad ? "lost" : "", e.dur === OPEN ? "open" : "", e === chosen ? "chosen" : ""].join(" "), "data-id": e.id }, lane.svg);
      make("title", {}, bar).textContent = label(e);
      if (e.bad && e.dur !== OPEN) make("rect", { x: x1 - 3, y: e.kind === "link" ? y : y - 1, width: 3, height: e.kind === "link" ? h : h + 2, class: "loss" }, lane.svg);
      if (w > 60 && e.kind !== "link") {
        const text = make("text", { x: Math.max(left, 0) + 4, y: y + h - 3, class: "on-" + e.kind }, lane.svg);
        text.textContent = short(e, w - 8);
      }
      continue;
    }
    const kind = e.kind === "watch" ? "watch" : e.kind === "request" ? "tick" : e.kind;
    const key = kind + (e.bad ? " bad" : "");
    const column = key + Math.round(x0);
    if (columns.has(column)) continue;
    columns.add(column);
    const y = top.ticks;
    paths.set(key, (paths.get(key) || "") + (kind === "watch" ? `M${x0.toFixed(1)} ${y + 4}l3 6h-6z` : `M${x0.toFixed(1)} ${y}v${TICKS - 3}`));
  }
  for (const [key, d] of paths) make("path", { d, class: "ticks " + key }, lane.svg);
  if (chosen && !isBar(chosen) && laneOf(chosen) === lane.name) make("path", { d: `M${x(chosen.at)} ${top.ticks - 2}v${TICKS + 1}`, class: "choice" }, lane.svg);
}

const short = (e, w) => {
  const text = e.what + (e.result ? ": " + e.result : "");
  const most = Math.floor(w / 6);
  return text.length > most ? text.slice(0, Math.max(most - 1, 0)) + "…" : text;
};
const label = e => [e.kind, e.what, e.path, e.result && "→ " + e.result, time(e.at), e.dur === OPEN ? "not ended" : e.dur > 0 ? "for " + time(e.dur) : ""].filter(Boolean).join("  ");

function axis() {
  const step = nice((to - from) / Math.max(width / 110, 2));
  const nodes = [];
  for (let t = Math.ceil(from / step) * step; t <= to; t += step) {
    const s = document.createElement("span");
    s.style.left = x(t) + "px";
    s.textContent = step >= 1e9 ? Math.round(t / 1e9) + " s" : step >= 1e6 ? (t / 1e9).toFixed(3) + " s" : (t / 1e6).toFixed(3) + " ms";
    nodes.push(s);
  }
  $("axis").replaceChildren(...nodes);
}
const nice = n => { const p = 10 ** Math.floor(Math.log10(n)); return [1, 2, 5, 10].map(f => f * p).find(v => v >= n); };

function bands() {
  const spans = []; // times in which some fault is in force
  for (const e of entries) {
    if (e.kind !== "fault" || e.at > to || e.to < from) continue;
    const last = spans[spans.length - 1];
    if (last && e.at <= last[1]) last[1] = Math.max(last[1], e.to); else spans.push([e.at, e.to]);
  }
  $("bands").replaceChildren(...spans.map(([a, b]) => {
    const d = document.createElement("div");
    d.style.left = Math.max(x(a), 0) + "px";
    d.style.width = Math.max(Math.min(x(b), width) - Math.max(x(a), 0), 1) + "px";
    return d;
  }));
}

// arrows join changes with the events that they fired: those of the selected entry, and all if they are few.
function arrows() {
  $("arrows").replaceChildren();
  const pairs = [];
  for (const [zxid, list] of fired) {
    const change = changes.get(zxid);
    if (!change) continue;
    for (const e of list) if (change.at <= to && e.at >= from && matches(change) && matches(e)) pairs.push([change, e]);
  }
  const few = pairs.length <= 150;
  const box = $("lanes").getBoundingClientRect().top;
  const y = e => { const lane = byName.get(laneOf(e)); return lane && lane.node.style.display !== "none" ? lane.svg.getBoundingClientRect().top - box + lane.height - TICKS : null; };
  for (const [change, e] of pairs) {
    const mine = change === chosen || e === chosen;
    if (!few && !mine) continue;
    const y0 = y(change), y1 = y(e);
    if (y0 === null || y1 === null) continue;
    const x0 = x(change.at + Math.max(change.dur, 0)), x1 = x(e.at);
    make("path", { d: `M${x0} ${y0}C${x0 + 8} ${(y0 + y1) / 2} ${x1 - 8} ${(y0 + y1) / 2} ${x1} ${y1}`, class: mine ? "chosen" : "" }, $("arrows"));
  }
}

let pending = false;
function render() {
  if (pending) return;
  pending = true;
  requestAnimationFrame(() => {
    pending = false;
    width = Math.max($("axis").clientWidth, 50);
    axis();
    bands();
    for (const lane of filter.client ? lanes : seen) draw(lane);
    arrows();
  });
}
function show(a, b) {
  const least = 1e3;
  const span = Math.min(Math.max(b - a, least), end * 1.02);
  from = Math.min(Math.max(a, -end * .01), end * 1.01 - span);
  to = from + span;
  render();
}
function zoom(factor, at) {
  const t = at === undefined ? (from + to) / 2 : from + at * (to - from);
  show(t - (t - from) * factor, t + (to - t) * factor);
}
const move = part => show(from + part * (to - from), to + part * (to - from));

// related returns what may explain an entry, with the reason.
function related(e) {
  const list = [];
  const add = (why, other) => { if (other && other !== e && !list.some(p => p[1] === other)) list.push([why, other]); };
  const near = (all, t) => all.reduce((best, o) => !best || Math.abs(o.at - t) < Math.abs(best.at - t) ? o : best, null);
  if (e.kind === "watch") add("the change", changes.get(e.zxid));
  if (e.kind === "request" && e.zxid) for (const w of (fired.get(e.zxid) || []).slice(0, 8)) add("fired for " + laneOf(w), w);
  if ((e.kind === "hold" || e.kind === "session" || e.kind === "link") && e.dur !== OPEN) {
    const node = e.path;
    if (node) add("the node was deleted", near(entries.filter(o => o.kind === "request" && !o.bad && (o.what.startsWith("delete") || o.what.startsWith("multi")) && o.path === node), e.to));
    const mine = o => o !== e && laneOf(o) === laneOf(e);
    add("the session ended", near(entries.filter(o => o.kind === "session" && mine(o) && o.dur !== OPEN && o.at <= e.to && o.to >= e.at), e.to));
    add("the connection was lost", entries.filter(o => o.kind === "link" && mine(o) && o.bad && o.to <= e.to + 1e6 && o.to >= e.at).pop());
    for (const o of entries) if (o.kind === "fault" && o.at <= e.to && o.to >= e.at) add("in force: " + o.what, o);
    add("the last state", entries.filter(o => o.kind === "state" && mine(o) && o.at <= e.to + 1e6 && o.at >= e.at).pop());
    for (const o of entries) if (o.kind === "act" && o.at <= e.to && o.at >= e.to - 1e9 && o.at >= e.at) add("the test: " + o.what, o);
  }
  if (e.kind === "hold") {
    add("waited", entries.filter(o => o.kind === "wait" && laneOf(o) === laneOf(e) && o.what === e.what && Math.abs(o.to - e.at) < 1e6).pop());
    if (e.dur !== OPEN) add("the next hold", entries.find(o => o.kind === "hold" && o.what === e.what && o.at >= e.at && o !== e && laneOf(o) !== laneOf(e)));
  }
  if (e.kind === "wait") for (const o of entries) if (o.kind === "hold" && o.what === e.what && o.at < e.to && o.to > e.at && laneOf(o) !== laneOf(e)) { add("held by " + laneOf(o), o); if (list.length > 5) break; }
  return list;
}

function choose(e, reveal) {
  chosen = e;
  const box = $("details");
  box.replaceChildren();
  if (!e) { element("p", "Select a bar or a tick.", box, "hint"); render(); return; }
  element("strong", e.kind + " " + e.what, box);
  const dl = element("dl", undefined, box);
  const fact = (k, v) => { if (v) { element("dt", k, dl); element("dd", v, dl); } };
  fact("where", [laneOf(e), e.lane && e.session, e.server].filter((v, i, all) => v && all.indexOf(v) === i).join(", "));
  fact("path", e.path);
  fact(e.kind === "request" ? "result" : "end", e.result || (e.dur === OPEN ? "not ended" : ""));
  fact("time", time(e.at) + (e.dur > 0 ? " to " + time(e.to) + ", " + time(e.dur) : ""));
  fact("zxid", e.zxid ? "0x" + e.zxid.toString(16) : "");
  const links = element("div", undefined, box, "related");
  for (const [why, other] of related(e)) {
    const b = element("button", why + ": " + [other.kind === "fault" ? "" : other.what, other.result, time(other.kind === "request" || other.at > e.at ? other.at : other.to)].filter(Boolean).join(" "), links);
    b.type = "button";
    b.dataset.id = other.id;
    b.addEventListener("click", () => choose(other, true));
  }
  if (reveal) {
    const span = to - from;
    if (e.at < from || e.at > to) show(e.at - span / 2, e.at + span / 2);
    const lane = byName.get(laneOf(e));
    if (lane) lane.node.scrollIntoView({ block: "nearest" });
  }
  render();
}

// The nearest tick to a click within a lane.
function nearest(lane, px) {
  let best = null, distance = 8;
  for (const e of lane.entries) {
    if (isBar(e) || e.at < from || e.at > to || !matches(e)) continue;
    const d = Math.abs(x(e.at) - px);
    if (d < distance) { best = e; distance = d; }
  }
  return best;
}
let drag = null;
$("chart").addEventListener("pointerdown", ev => { if (ev.button === 0) drag = { x: ev.clientX, from, to, moved: false }; });
window.addEventListener("pointermove", ev => {
  if (!drag) return;
  const d = ev.clientX - drag.x;
  if (Math.abs(d) > 4) drag.moved = true;
  if (drag.moved) { const t = d / width * (drag.to - drag.from); show(drag.from - t, drag.to - t); }
});
window.addEventListener("pointerup", ev => {
  const was = drag;
  drag = null;
  if (!was || was.moved || !$("chart").contains(ev.target)) return;
  const section = ev.target.closest(".lane");
  if (!section) return;
  if (ev.target.dataset.id !== undefined) return choose(entries[ev.target.dataset.id]);
  choose(nearest(section.lane, ev.clientX - section.lane.svg.getBoundingClientRect().left));
});
const wheel = ev => {
  if (!ev.ctrlKey && !ev.shiftKey && ev.currentTarget !== $("axis")) return; // plain wheel scrolls the page
  ev.preventDefault();
  const part = (ev.clientX - $("axis").getBoundingClientRect().left) / width;
  if (ev.shiftKey) move(Math.sign(ev.deltaY || ev.deltaX) * .1); else zoom(ev.deltaY > 0 ? 1.25 : .8, part);
};
$("chart").addEventListener("wheel", wheel, { passive: false });
$("axis").addEventListener("wheel", wheel, { passive: false });
const acts = { in: () => zoom(.5), out: () => zoom(2), left: () => move(-.25), right: () => move(.25), all: () => show(first, end) };
for (const b of document.querySelectorAll("[data-do]")) b.addEventListener("click", acts[b.dataset.do]);
const step = by => {
  const list = entries.filter(matches);
  const i = chosen ? list.indexOf(chosen) + by : by > 0 ? 0 : list.length - 1;
  if (list[i]) choose(list[i], true);
};
document.addEventListener("keydown", ev => {
  if (/INPUT|SELECT|TEXTAREA/.test(ev.target.tagName) || ev.ctrlKey || ev.metaKey || ev.altKey) return;
  const act = { "+": acts.in, "=": acts.in, "-": acts.out, ArrowLeft: acts.left, ArrowRight: acts.right, 0: acts.all, n: () => step(1), p: () => step(-1), "/": () => $("search").focus(), Escape: () => choose(null) }[ev.key];
  if (act) { ev.preventDefault(); act(); }
});

// The table has the same entries, some at a time.
let shown = 0, listed = [];
function table(restart) {
  if (!$("table").open) return;
  const body = $("table").querySelector("tbody");
  if (restart) { body.replaceChildren(); shown = 0; listed = entries.filter(matches); }
  for (const e of listed.slice(shown, shown + 500)) {
    const row = element("tr", undefined, body, e.bad ? "bad" : "");
    for (const text of [time(e.at), e.dur === OPEN ? "not ended" : e.dur > 0 ? time(e.dur) : "", laneOf(e), e.kind, e.what, e.path || "", e.result || ""]) element("td", text, row);
    row.addEventListener("click", () => choose(e, true));
  }
  shown += 500;
  $("more").hidden = shown >= listed.length;
  $("more").textContent = "show 500 more of " + listed.length;
}
$("table").addEventListener("toggle", () => table(true));
$("more").addEventListener("click", () => table(false));

for (const lane of lanes) if (!lane.server) { const o = element("option", lane.name, $("client")); o.value = lane.name; }
function filtered() {
  filter.text = $("search").value.trim().toLowerCase();
  filter.client = $("client").value;
  for (const b of document.querySelectorAll("[data-kind]")) if (b.checked) filter.kinds.add(b.dataset.kind); else filter.kinds.delete(b.dataset.kind);
  for (const lane of lanes) draw(lane);
  table(true);
  render();
}
$("controls").addEventListener("input", filtered);
$("controls").addEventListener("submit", ev => ev.preventDefault());
window.addEventListener("resize", render);
window.addEventListener("beforeprint", () => { for (const lane of lanes) draw(lane); });
const requests = entries.filter(e => e.kind === "request").length;
$("summary").textContent = `${time(end)}, ${entries.length} entries, ${requests} requests` + (data.dropped ? `; ${data.dropped} older entries were dropped` : "");
show(first, end);
document.documentElement.dataset.ready = "true";
