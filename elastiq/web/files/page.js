// The page: it polls what the daemon publishes, shows it, and says when it cannot.

import { Chart } from "./chart.js";
import { age, byId, clock, counted, duration, el, number, show, tick } from "./dom.js";

const POLL_MS = 2000, HISTORY_MS = 30000, PATIENCE_MS = 15000;
const SILENT_S = 20; // the loop publishes every two seconds for one who looks
const GAP = 2.2, SERIES = ["waiting", "running", "booting", "idle", "busy", "draining", "other", "cost"];
const RANGES = [["1 h", 3600], ["6 h", 21600], ["24 h", 86400], ["7 d", 604800], ["60 d", 5184000]];
const STATES = {
  busy: ["good", "busy"], idle: ["info", "idle"], draining: ["drain", "draining"], terminating: ["drain", "draining"],
  booting: ["warn", "booting"], pending: ["warn", "booting"], requested: ["warn", "booting"],
  stopped: ["plain", "other"], lost: ["bad", "bad"], failed: ["bad", "bad"],
};
const IN_ORDER = ["busy", "idle", "booting", "pending", "requested", "draining", "terminating", "stopped", "lost", "failed"];
const KINDS = {
  launch: ["launch", "warn"], start: ["start", "warn"], joined: ["joined", "good"], back: ["back in use", "good"],
  drain: ["drain", "drain"], end: ["end", "drain"], stop: ["stop", "drain"], gone: ["gone", "bad"],
  lost: ["lost", "bad"], failed: ["failed", "bad"], notice: ["notice", "warn"],
};

const FEW = 12; // rows, until a person wants more

const chart = new Chart(byId("chart"));
let range = RANGES.some(([, span]) => span === saved("range")) ? saved("range") : RANGES[0][1];
let history = null, seen = [], latest = null, heard = null, failures = 0, feedLength = FEW, allNodes = false;

// ------------------------------------------------------------------ asking

async function get(path) {
  const answer = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(PATIENCE_MS) });
  if (!answer.ok) throw new Error(`HTTP ${answer.status}`);
  return answer.json();
}

async function poll() {
  try {
    latest = await get("now.json");
    clock.set(latest);
    heard = performance.now();
    failures = 0;
    seen.push(point(latest));
    render(latest);
    chartNow();
  } catch (error) {
    failures += 1;
    console.debug(error);
  }
  life();
}

async function pollHistory() {
  const asked = range;
  try {
    const found = await get(`history.json?range=${asked}`);
    if (asked !== range) return;
    history = found;
    chartNow();
  } catch (error) {
    console.debug(error); // the other poll tells of it
  }
}

// One poll after another, never two at once; none while nobody sees the page.
function repeatedly(what, pause) {
  let timer = null, running = false;
  const run = async () => {
    clearTimeout(timer);
    if (running || document.hidden) return;
    running = true;
    await what();
    running = false;
    timer = setTimeout(run, pause());
  };
  document.addEventListener("visibilitychange", run);
  run();
  return run;
}

// ------------------------------------------------------------------ is it alive?

function life() {
  const live = byId("live"), gone = byId("gone"), silent_s = heard === null ? 0 : (performance.now() - heard) / 1000;
  const lost = failures > 1 || (failures > 0 && silent_s > 5), old_s = latest ? latest.age_s + silent_s : 0;
  live.className = `live ${failures || lost ? "off" : latest ? "on" : ""}`;
  let text = "";
  if (lost && heard === null) text = "elastiq does not answer. Trying again.";
  else if (lost) text = `elastiq has not answered for ${duration(silent_s)}: what you see is as it was then. Trying again.`;
  else if (latest && latest.age_s > SILENT_S) {
    text = `elastiq answers, but its decision loop has been silent for ${duration(old_s)}: it is busy or hangs. ` +
      "What you see is as it was then; the log says more.";
  }
  if (gone.textContent !== text) gone.textContent = text;
  gone.hidden = !text;
  document.body.classList.toggle("stale", Boolean(text));
  const word = lost ? "no connection" : text ? "old" : latest ? (latest.began !== null ? `live, ${latest.speed}× real time` : "live") : "connecting";
  if (live.textContent !== word) live.textContent = word;
}

// ------------------------------------------------------------------ showing

function render(data) {
  const { status, states, left_out: left } = data;
  byId("main").hidden = false;
  document.title = `${status.queue.waiting_jobs} waiting, ${total(states)} up · ${status.cluster} · elastiq`;
  byId("cluster").textContent = status.cluster;
  const state = byId("state"), word = status.state;
  state.hidden = false;
  state.textContent = word;
  state.className = `pill ${{ active: "good", "dry-run": "warn", paused: "warn" }[word] ?? ""}`;
  notices(status, left);
  queueTile(status.queue);
  machinesTile(status, states);
  moneyTile(data);
  planTile(status);
  nodes(status, states, left);
  queue(status.queue, left);
  decisions(data.decisions);
  pools(status, left);
  sources(status);
  const zone = data.began === null ? `Times are the head node's (${clock.zone()}).`
    : `A simulated cluster, ${data.speed} times as fast as a real one: its times are simulated, too.`;
  show(byId("foot"), [status.version, zone], () => [`elastiq ${status.version}. This page only shows, it changes nothing. ${zone}`]);
}

const total = (states) => Object.values(states).reduce((sum, count) => sum + count, 0);
const more = (count, what) => (count ? el("p", { class: "none" }, `… and ${counted(count, what)} more: elastiqctl status shows all`) : null);

function notices(status, left) {
  const off = [["launched", status.no_launch], ["ended", status.no_end], ["drained", status.no_drain]].filter(([, why]) => why);
  show(byId("notices"), [off, status.notices, status.schedules, left.notices, status.faults, status.log_failures > 0], () => [
    status.faults ? el("p", { class: "notice bad" }, `elastiq has met ${counted(status.faults, "fault")} of its own, and goes on: see its log, and please report ${status.faults === 1 ? "it" : "them"}.`) : null,
    status.log_failures ? el("p", { class: "notice bad" }, "The log could not always be written: is the disk full?") : null,
    ...off.map(([what, why]) => el("p", { class: "notice info" }, `Nothing is ${what} now: ${why}`)),
    ...status.notices.map((text) => el("p", { class: "notice" }, text)),
    status.schedules.length ? el("p", { class: "notice info" }, `Schedules in force: ${status.schedules.join(", ")}`) : null,
    more(left.notices, "notice"),
  ]);
}

function queueTile(queue) {
  show(byId("waiting"), [queue.waiting_jobs, queue.age_s === null], () => [queue.age_s === null ? "–" : number(queue.waiting_jobs)]);
  const facts = queue.age_s === null ? ["the queue was not read yet"] : [`${number(queue.running_jobs)} running`];
  if (queue.unmatchable_jobs) facts.push(`${number(queue.unmatchable_jobs)} that no machine can run`);
  if (queue.age_s !== null && !queue.known) facts.push("now unknown: the queue does not answer");
  else if (queue.known && !queue.complete) facts.push("a part of the queue did not answer");
  show(byId("waiting-under"), facts, () => [facts.join(" · ")]);
}

function machinesTile(status, states) {
  const { quota } = status, facts = [states, quota.counted, quota.max_vms];
  show(byId("machines"), facts, () => [
    number(total(states)), el("small", {}, quota.max_vms === null ? "" : ` of ${number(quota.max_vms)}`),
  ]);
  const here = IN_ORDER.filter((name) => states[name]);
  show(byId("machines-bar"), facts, () => {
    const parts = here.map((name) => {
      const part = el("i", { class: `f-${STATES[name][1]}`, title: `${states[name]} ${name}` });
      part.style.flexGrow = states[name];
      return part;
    });
    const free = Math.max(0, (quota.max_vms ?? 0) - total(states));
    if (!free) return parts;
    const rest = el("span");
    rest.style.flexGrow = free;
    return [...parts, rest];
  });
  const counts = quota.counted > total(states) ? ` · ${quota.counted} count against max_vms` : "";
  show(byId("machines-under"), facts, () => [(here.map((name) => `${states[name]} ${name}`).join(" · ") || "none") + counts]);
}

function moneyTile({ cost, day, status }) {
  const hours = Number(day.machine_hours.toFixed(1)), share = day.machine_hours ? Math.round((100 * day.busy_hours) / day.machine_hours) : null;
  const priced = cost !== null;
  const limits = status.quota.limits.filter((one) => one.limit.startsWith("max_cost"));
  show(byId("t-money"), priced, () => [`${priced ? "Cost" : "Machine hours"}, last 24 hours`]);
  show(byId("money"), [priced, day.cost, hours], () => [number(priced ? round(day.cost ?? 0) : hours)]);
  const facts = [];
  if (priced) facts.push(`${number(round(cost))} an hour now`, counted(hours, "machine hour"));
  if (share !== null) facts.push(`busy for ${share} % of it`);
  for (const one of limits) facts.push(`${one.limit}: ${number(round(Math.max(0, one.left)))} left`);
  if (day.since > status.at - 86000) facts.push(`known since ${clock.short(day.since)}`);
  show(byId("money-under"), facts, () => [facts.join(" · ")]);
}

const round = (value) => Number(value.toFixed(2));

function planTile({ last_plan: plan, last_action: action }) {
  show(byId("plan-age"), plan.at, () => (plan.at === null ? [] : [age(plan.at, "", " ago")]));
  show(byId("plan"), plan.summary, () => [plan.at === null ? "none yet" : plan.summary]);
  const told = action.at !== null && action.at !== plan.at;
  show(byId("action"), [told, action], () => (told ? ["Last action, ", age(action.at, "", " ago"), `: ${action.summary}`] : []));
}

function pill(state) {
  return el("span", { class: `pill ${STATES[state]?.[0] ?? "plain"}` }, state);
}

// As in a terminal: a column that is empty for all is left out.
function table(heads, all) {
  const filled = heads.map((_, n) => all.some((row) => row[n] !== ""));
  const head = heads.filter((_, n) => filled[n]), rows = all.map((row) => row.filter((_, n) => filled[n]));
  const cell = ([label, kind], value) => el("td", { class: kind, "data-label": label && kind.includes("label") ? label : null }, value);
  return el("table", {},
    el("thead", {}, el("tr", {}, ...head.map(([label, kind]) => el("th", { class: kind, scope: "col" }, label)))),
    el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map((value, n) => cell(head[n], value))))));
}

// The pill has said the state.
function why(node) {
  const text = node.explanation || node.reason, said = `${node.state}: `;
  return text.startsWith(said) ? text.slice(said.length) : text;
}

function nodes(status, states, left) {
  const order = (node) => IN_ORDER.indexOf(node.state);
  show(byId("nodes-count"), [states], () => [total(states) ? counted(total(states), "machine") : ""]);
  show(byId("board"), status.nodes.map((node) => [node.id, node.state, node.jobs]), () =>
    (status.nodes.length < 9 ? [] : [...status.nodes].sort((a, b) => order(a) - order(b))).map((node) =>
      el("i", { class: `f-${STATES[node.state]?.[1] ?? "other"}`, title: `${node.id} ${node.state}` })));
  const rows = allNodes ? status.nodes : status.nodes.slice(0, FEW);
  byId("more-nodes").hidden = rows.length === status.nodes.length;
  show(byId("nodes"), [rows, left.nodes], () => {
    if (!status.nodes.length) return el("p", { class: "none" }, "There is none. Machines are launched when jobs wait that have no room.");
    const head = [["Machine", "first"], ["State", "tight"], ["For", "tight label"], ["Jobs", "num label"], ["Why", "why"]];
    return [table(head, rows.map((node) => [
      [el("div", { class: "name" }, node.id), el("div", { class: "sub" },
        [node.worker, [node.pool, node.flavour, node.market].filter(Boolean).join(" / ")].filter(Boolean).join(" · "))],
      pill(node.state),
      age(node.since),
      node.jobs ? String(node.jobs) : "",
      [node.condemned ? el("span", { class: "pill bad" }, "taken out") : null, node.condemned ? ` ${node.condemned} ` : null, why(node)],
    ])), allNodes || status.nodes.length <= FEW ? more(left.nodes, "machine") : null];
  });
}

function asks(group) {
  const size = (mb) => (mb >= 1024 ? `${number(round(mb / 1024))} GB` : `${number(mb)} MB`);
  return [group.cpus && counted(group.cpus, "core"), group.memory_mb && size(group.memory_mb),
    group.disk_mb && `${size(group.disk_mb)} disk`, group.gpus && counted(group.gpus, "GPU")].filter(Boolean).join(", ") || "not said";
}

function queue(queue, left) {
  const unread = queue.age_s === null;
  show(byId("queue-count"), [queue.waiting_jobs, queue.groups.length, unread], () => [
    unread ? "" : `${counted(queue.waiting_jobs, "job")} waiting in ${counted(queue.groups.length + left.groups, "shape")}`]);
  // How long a group has waited goes on by itself: a new age is no news.
  const groups = queue.groups.map((group) => ({ ...group, since: Math.round((clock.at - (group.waiting_s ?? 0)) / 10) * 10, waiting_s: null }));
  show(byId("queue"), [groups, left.groups, unread], () => {
    if (!groups.length) return el("p", { class: "none" }, unread ? "The queue was not read yet." : "No job waits.");
    const head = [["Waiting", "num label"], ["Room", "num label"], ["Launching", "num label"], ["For", "tight label"], ["Each asks", "full"], ["What becomes of them", "why"]];
    return [table(head, groups.map((group) => [
      el("b", {}, number(group.waiting)), group.held ? number(group.held) : "", group.launching ? number(group.launching) : "",
      age(group.since),
      [el("div", {}, asks(group)), el("div", { class: "sub" }, group.sample_job ? `as ${group.sample_job}` : "")],
      [group.matchable ? null : el("span", { class: "pill bad" }, "not served"), group.matchable ? null : " ", group.explanation || group.reason],
    ])), more(left.groups, "shape")];
  });
}

function decisions(entries) {
  const shown = entries.slice(0, feedLength), today = clock.parts(clock.now()).day;
  show(byId("decisions"), [shown, today, clock.offset], () => shown.length ? shown.map((entry) => {
    const [word, style] = KINDS[entry.kind] ?? [entry.kind, "plain"];
    return el("li", {},
      el("time", {}, clock.short(entry.at)), el("span", { class: `pill ${style}` }, word),
      el("span", { class: "what" }, entry.node && entry.kind !== "launch" ? [el("span", { class: "name" }, entry.node), " "] : null,
        el("span", { class: "why" }, entry.reason), entry.pool ? el("span", { class: "sub" }, ` ${entry.pool}`) : null));
  }) : [el("li", { class: "none" }, "Nothing yet.")]);
  byId("more").hidden = entries.length <= feedLength;
}

function meter(used, most) {
  const part = el("i", { class: used >= most ? "full" : "" });
  part.style.width = `${Math.min(100, most ? (100 * used) / most : 0)}%`;
  return el("div", { class: "meter" }, part);
}

function pools(status, left) {
  show(byId("pools"), [status.pools, status.quota.limits, left.pools], () => [
    ...status.pools.map((pool) => {
      const terms = ["min_vms", "min_idle_vms", "priority"].filter((key) => pool[key]).map((key) => `${key} ${pool[key]}`);
      const trouble = [pool.drained ? "out of service" : "", pool.breaker, ...pool.blocked].filter(Boolean);
      return el("div", { class: "row" },
        el("div", { class: "row-head" }, el("b", {}, pool.name),
          el("span", { class: "sub" }, pool.max_vms === null ? counted(pool.counted, "machine") : `${pool.counted} of at most ${pool.max_vms}`)),
        pool.max_vms === null ? null : meter(pool.counted, pool.max_vms),
        el("div", { class: "sub" }, [pool.flavours.filter(Boolean).join(", "), ...terms].filter(Boolean).join(" · ")),
        ...trouble.map((text) => el("div", { class: "trouble" }, text)));
    }),
    more(left.pools, "pool"),
    ...status.quota.limits.map((one) => el("div", { class: "row" },
      el("div", { class: "row-head" }, el("b", {}, one.limit), el("span", { class: "sub" }, `${number(round(Math.max(0, one.left)))} left`)),
      meter(one.used, one.used + Math.max(0, one.left)),
      el("div", { class: "sub" }, `${number(round(one.used))} ${one.counts}`))),
  ]);
}

function sources(status) {
  const facts = status.sources.map(({ name, known, error, settled, why_unsettled, age_s, failures }) => ({
    name, known, error, settled, why_unsettled, failures, since: age_s === null ? null : Math.round(clock.at - age_s),
  }));
  show(byId("sources"), facts, () => facts.map((one) => {
    const trouble = one.error || one.why_unsettled;
    return el("div", { class: "row" },
      el("div", { class: "row-head" }, el("b", {}, one.name),
        el("span", { class: "sub" }, one.since === null ? "never read" : ["read ", age(one.since, "", " ago")], " ",
          one.known ? null : el("span", { class: "pill bad" }, "unknown"))),
      trouble ? el("div", { class: one.error ? "trouble" : "sub" }, trouble) : null);
  }));
}

// ------------------------------------------------------------------ the chart

// What was seen since the history was asked for goes behind it, so that the end of the chart is never old.
function chartNow() {
  if (!history || !latest) return;
  const { status, speed } = latest, kept = history.at.length ? history.at[history.at.length - 1] : 0;
  seen = seen.filter((one) => one.at > kept && one.at <= status.at).slice(-500);
  const data = { width_s: history.width_s, gap_s: Math.max(GAP * history.width_s, 5 * speed) };
  for (const name of ["at", ...SERIES]) data[name] = [...history[name], ...seen.map((one) => one[name])];
  data.until = status.at;
  data.since = status.at - (history.until - history.since);
  if (latest.began !== null) data.since = Math.max(data.since, Math.min(latest.began, status.at - 60));
  chart.set(data, status.quota.max_vms);
}

function point({ status, states, cost }) {
  const count = (...names) => names.reduce((sum, name) => sum + (states[name] ?? 0), 0), known = status.queue.known;
  return {
    at: status.at, waiting: known ? status.queue.waiting_jobs : null, running: known ? status.queue.running_jobs : null,
    busy: count("busy"), idle: count("idle"), booting: count("requested", "pending", "booting"),
    draining: count("draining", "terminating"), other: count("stopped", "lost", "failed"), cost,
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
  feedLength += 40;
  if (latest) render(latest);
});
byId("more-nodes").addEventListener("click", () => {
  allNodes = true;
  if (latest) render(latest);
});
const fast = () => latest !== null && latest.began !== null; // the demo
repeatedly(poll, () => (failures ? Math.min(10000, POLL_MS * Math.max(1, failures - 2)) : fast() ? 1000 : POLL_MS));
repeatedly(pollHistory, () => (fast() ? 2000 : history ? HISTORY_MS : POLL_MS));
setInterval(() => { tick(); life(); }, 1000);
