// The page: it polls what the daemon publishes, shows it, and says when it cannot.

import { Chart } from "./chart.js";
import { byId, clock, duration, el, tick } from "./dom.js";
import { render, shown } from "./sections.js";

const POLL_MS = 2000,
  HISTORY_MS = 30000,
  PATIENCE_MS = 15000;
const SILENT_S = 20; // the loop publishes every two seconds for one who looks
const GAP = 2.2,
  SERIES = ["waiting", "running", "booting", "idle", "busy", "draining", "other", "cost"];
const RANGES = [
  ["1 h", 3600],
  ["6 h", 21600],
  ["24 h", 86400],
  ["7 d", 604800],
  ["60 d", 5184000],
];

const chart = new Chart(byId("chart"));
let range = RANGES.some(([, span]) => span === saved("range")) ? saved("range") : RANGES[0][1];
let history = null,
  seen = [],
  latest = null,
  heard = null,
  failures = 0;

// ------------------------------------------------------------------ asking

async function get(path) {
  const answer = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(PATIENCE_MS) });
  if (!answer.ok) throw new Error(`HTTP ${answer.status}`);
  return answer.json();
}

async function poll() {
  try {
    latest = await get("now.json");
  } catch (error) {
    failures += 1;
    console.debug(error);
    life();
    return;
  }
  clock.set(latest);
  heard = performance.now();
  failures = 0;
  life();
  seen.push(point(latest));
  render(latest);
  chartNow();
}

async function pollHistory() {
  const asked = range;
  let found;
  try {
    found = await get(`history.json?range=${asked}`);
  } catch (error) {
    console.debug(error); // the other poll tells of it
    return;
  }
  if (asked !== range) return;
  history = found;
  chartNow();
}

// One poll after another, never two at once; none while nobody sees the page.
function repeatedly(what, pause) {
  let timer = null,
    running = false;
  const run = async () => {
    clearTimeout(timer);
    if (running || document.hidden) return;
    running = true;
    try {
      await what();
    } catch (error) {
      console.error(error); // a fault of this page: the next poll may fare better
    }
    running = false;
    timer = setTimeout(run, pause());
  };
  document.addEventListener("visibilitychange", run);
  run();
  return run;
}

// ------------------------------------------------------------------ is it alive?

function life() {
  const live = byId("live"),
    gone = byId("gone"),
    silent_s = heard === null ? 0 : (performance.now() - heard) / 1000;
  const lost = failures > 1 || (failures > 0 && silent_s > 5),
    old_s = latest ? latest.age_s + silent_s : 0;
  live.className = `live ${failures || lost ? "off" : latest ? "on" : ""}`;
  let text = "";
  if (lost && heard === null) text = "elastiq does not answer. Trying again.";
  else if (lost)
    text = `elastiq has not answered for ${duration(silent_s)}: what you see is as it was then. Trying again.`;
  else if (latest && latest.age_s > SILENT_S) {
    text =
      `elastiq answers, but its decision loop has been silent for ${duration(old_s)}: it is busy or hangs. ` +
      "What you see is as it was then; the log says more.";
  }
  if (gone.textContent !== text) gone.textContent = text;
  gone.hidden = !text;
  document.body.classList.toggle("stale", Boolean(text));
  const word = lost
    ? "no connection"
    : text
      ? "old"
      : latest
        ? latest.began !== null
          ? `live, ${latest.speed}× real time`
          : "live"
        : "connecting";
  if (live.textContent !== word) live.textContent = word;
}

// ------------------------------------------------------------------ the chart

// What was seen since the history was asked for goes behind it, so that the end of the chart is never old.
function chartNow() {
  if (!history || !latest) return;
  const { status, speed } = latest,
    kept = history.at.length ? history.at[history.at.length - 1] : 0;
  seen = seen.filter((one) => one.at > kept && one.at <= status.at).slice(-500);
  const data = { width_s: history.width_s, gap_s: Math.max(GAP * history.width_s, 5 * speed) };
  for (const name of ["at", ...SERIES]) data[name] = [...history[name], ...seen.map((one) => one[name])];
  data.until = Math.max(status.at, kept); // either poll may be the newer one
  data.since = data.until - (history.until - history.since);
  if (latest.began !== null) data.since = Math.max(data.since, Math.min(latest.began, status.at - 60));
  chart.set(data, status.quota.max_vms);
}

function point({ status, states, cost }) {
  const count = (...names) => names.reduce((sum, name) => sum + (states[name] ?? 0), 0),
    known = status.queue.known;
  return {
    at: status.at,
    waiting: known ? status.queue.waiting_jobs : null,
    running: known ? status.queue.running_jobs : null,
    busy: count("busy"),
    idle: count("idle"),
    booting: count("requested", "pending", "booting"),
    draining: count("draining", "terminating"),
    other: count("stopped", "lost", "failed"),
    cost,
  };
}

function saved(name) {
  try {
    return Number(localStorage.getItem(`elastiq ${name}`));
  } catch {
    return 0; // a browser that keeps nothing
  }
}

function choose(span) {
  range = span;
  try {
    localStorage.setItem("elastiq range", String(span));
  } catch {
    // then it is chosen for now only
  }
  buttons.forEach((button, n) => button.setAttribute("aria-pressed", String(RANGES[n][1] === range)));
  pollHistory();
}

const buttons = RANGES.map(([text, span]) => {
  const button = el("button", { type: "button", "aria-pressed": String(span === range) }, text);
  button.addEventListener("click", () => choose(span));
  return button;
});
byId("ranges").replaceChildren(...buttons);

byId("more").addEventListener("click", () => {
  shown.decisions += 40;
  if (latest) render(latest);
});
byId("more-nodes").addEventListener("click", () => {
  shown.allNodes = true;
  if (latest) render(latest);
});
const fast = () => latest !== null && latest.began !== null; // the demo
repeatedly(poll, () => (failures ? Math.min(10000, POLL_MS * Math.max(1, failures - 2)) : fast() ? 1000 : POLL_MS));
repeatedly(pollHistory, () => (history && latest && !fast() ? HISTORY_MS : POLL_MS));
setInterval(() => {
  tick();
  life();
}, 1000);
