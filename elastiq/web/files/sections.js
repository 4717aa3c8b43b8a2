// What the page shows, section by section; each is made anew only when its facts have changed.

import { age, byId, clock, counted, el, number, show } from "./dom.js";
import { machinesTile, moneyTile, notices, planTile, queueTile } from "./tiles.js";
import { IN_ORDER, KINDS, STATES, more, round, total } from "./words.js";

const FEW = 12; // rows, until a person wants more

export const shown = { decisions: FEW, allNodes: false };

export function render(data) {
  const { status, states, left_out: left } = data;
  byId("main").hidden = false;
  document.title = `${status.queue.waiting_jobs} waiting, ${total(states)} up · ${status.cluster} · elastiq`;
  byId("cluster").textContent = status.cluster;
  const state = byId("state"),
    word = status.state;
  state.hidden = false;
  state.textContent = word;
  state.className = `pill ${{ active: "good", "dry-run": "warn", paused: "warn" }[word] ?? ""}`;
  notices(status, left, data.off);
  queueTile(status.queue);
  machinesTile(status, states);
  moneyTile(data);
  planTile(status);
  nodes(status, states, left);
  queue(status.queue, left);
  decisions(data.decisions);
  pools(status, left);
  sources(status);
  const zone =
    data.began === null
      ? `Times are the head node's (${clock.zone()}).`
      : `A simulated cluster, ${data.speed} times as fast as a real one: its times are simulated, too.`;
  show(byId("foot"), [status.version, zone], () => [
    `elastiq ${status.version}. This page only shows, it changes nothing. ${zone}`,
  ]);
}

function pill(state) {
  return el("span", { class: `pill ${STATES[state]?.[0] ?? "plain"}` }, state);
}

// As in a terminal: a column that is empty for all is left out.
function table(heads, all) {
  const filled = heads.map((_, n) => all.some((row) => row[n] !== ""));
  const head = heads.filter((_, n) => filled[n]),
    rows = all.map((row) => row.filter((_, n) => filled[n]));
  const cell = ([label, kind], value) =>
    el("td", { class: kind, "data-label": label && kind.includes("label") ? label : null }, value);
  return el(
    "table",
    {},
    el("thead", {}, el("tr", {}, ...head.map(([label, kind]) => el("th", { class: kind, scope: "col" }, label)))),
    el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map((value, n) => cell(head[n], value))))),
  );
}

// The pill has said the state.
function why(node) {
  const text = node.explanation || node.reason,
    said = `${node.state}: `;
  return text.startsWith(said) ? text.slice(said.length) : text;
}

function nodes(status, states, left) {
  const order = (node) => IN_ORDER.indexOf(node.state);
  show(byId("nodes-count"), [states], () => [total(states) ? counted(total(states), "machine") : ""]);
  show(
    byId("board"),
    status.nodes.map((node) => [node.id, node.state, node.jobs]),
    () =>
      (status.nodes.length < 9 ? [] : [...status.nodes].sort((a, b) => order(a) - order(b))).map((node) =>
        el("i", { class: `f-${STATES[node.state]?.[1] ?? "other"}`, title: `${node.id} ${node.state}` }),
      ),
  );
  const rows = shown.allNodes ? status.nodes : status.nodes.slice(0, FEW);
  byId("more-nodes").hidden = rows.length === status.nodes.length;
  show(byId("nodes"), [rows, left.nodes], () => {
    if (!status.nodes.length)
      return el("p", { class: "none" }, "There is none. Machines are launched when jobs wait that have no room.");
    const head = [
      ["Machine", "first"],
      ["State", "tight"],
      ["For", "tight label"],
      ["Jobs", "num label"],
      ["Why", "why"],
    ];
    return [
      table(
        head,
        rows.map((node) => [
          [
            el("div", { class: "name" }, node.id),
            el(
              "div",
              { class: "sub" },
              [node.worker, [node.pool, node.flavour, node.market].filter(Boolean).join(" / ")]
                .filter(Boolean)
                .join(" · "),
            ),
          ],
          pill(node.state),
          age(node.since),
          node.jobs ? String(node.jobs) : "",
          [
            node.condemned ? el("span", { class: "pill bad" }, "taken out") : null,
            node.condemned ? ` ${node.condemned} ` : null,
            why(node),
          ],
        ]),
      ),
      shown.allNodes || status.nodes.length <= FEW ? more(left.nodes, "machine") : null,
    ];
  });
}

function asks(group) {
  const size = (mb) => (mb >= 1024 ? `${number(round(mb / 1024))} GB` : `${number(mb)} MB`);
  return (
    [
      group.cpus && counted(group.cpus, "core"),
      group.memory_mb && size(group.memory_mb),
      group.disk_mb && `${size(group.disk_mb)} disk`,
      group.gpus && counted(group.gpus, "GPU"),
    ]
      .filter(Boolean)
      .join(", ") || "not said"
  );
}

function queue(queue, left) {
  const unread = queue.age_s === null;
  show(byId("queue-count"), [queue.waiting_jobs, queue.groups.length, unread], () => [
    unread || !queue.groups.length
      ? ""
      : `${counted(queue.waiting_jobs, "job")} waiting in ${counted(queue.groups.length + left.groups, "shape")}`,
  ]);
  // How long a group has waited goes on by itself: a new age is no news.
  const groups = queue.groups.map((group) => ({
    ...group,
    since: Math.round((clock.at - (group.waiting_s ?? 0)) / 10) * 10,
    waiting_s: null,
  }));
  show(byId("queue"), [groups, left.groups, unread], () => {
    if (!groups.length) return el("p", { class: "none" }, unread ? "The queue was not read yet." : "No job waits.");
    const head = [
      ["Waiting", "num label"],
      ["Room", "num label"],
      ["Launching", "num label"],
      ["For", "tight label"],
      ["Each asks", "full"],
      ["What becomes of them", "why"],
    ];
    return [
      table(
        head,
        groups.map((group) => [
          el("b", {}, number(group.waiting)),
          group.held ? number(group.held) : "",
          group.launching ? number(group.launching) : "",
          age(group.since),
          [el("div", {}, asks(group)), el("div", { class: "sub" }, group.sample_job ? `as ${group.sample_job}` : "")],
          [
            group.matchable ? null : el("span", { class: "pill bad" }, "not served"),
            group.matchable ? null : " ",
            group.explanation || group.reason,
          ],
        ]),
      ),
      more(left.groups, "shape"),
    ];
  });
}

function decisions(entries) {
  const newest = entries.slice(0, shown.decisions),
    today = clock.parts(clock.now()).day;
  show(byId("decisions"), [newest, today, clock.offset], () =>
    newest.length
      ? newest.map((entry) => {
          const [word, style] = KINDS[entry.kind] ?? [entry.kind, "plain"];
          return el(
            "li",
            {},
            el("time", {}, clock.short(entry.at)),
            el("span", { class: `pill ${style}` }, word),
            el(
              "span",
              { class: "what" },
              entry.node && entry.kind !== "launch" ? [el("span", { class: "name" }, entry.node), " "] : null,
              el("span", { class: "why" }, entry.reason),
              entry.pool ? el("span", { class: "sub" }, ` ${entry.pool}`) : null,
            ),
          );
        })
      : [el("li", { class: "none" }, "Nothing yet.")],
  );
  byId("more").hidden = entries.length <= shown.decisions;
}

function meter(used, most) {
  const part = el("i", { class: used >= most ? "full" : "" });
  part.style.width = `${Math.min(100, most ? (100 * used) / most : 0)}%`;
  return el("div", { class: "meter" }, part);
}

function pools(status, left) {
  show(byId("pools"), [status.pools, status.quota.limits, left.pools], () => [
    ...status.pools.map((pool) => {
      const terms = ["min_vms", "min_idle_vms", "priority"]
        .filter((key) => pool[key])
        .map((key) => `${key} ${pool[key]}`);
      const trouble = [pool.drained ? "out of service" : "", pool.breaker, ...pool.blocked].filter(Boolean);
      return el(
        "div",
        { class: "row" },
        el(
          "div",
          { class: "row-head" },
          el("b", {}, pool.name),
          el(
            "span",
            { class: "sub" },
            pool.max_vms === null ? counted(pool.counted, "machine") : `${pool.counted} of at most ${pool.max_vms}`,
          ),
        ),
        pool.max_vms === null ? null : meter(pool.counted, pool.max_vms),
        el("div", { class: "sub" }, [pool.flavours.filter(Boolean).join(", "), ...terms].filter(Boolean).join(" · ")),
        ...trouble.map((text) => el("div", { class: "trouble" }, text)),
      );
    }),
    more(left.pools, "pool"),
    ...status.quota.limits.map((one) =>
      el(
        "div",
        { class: "row" },
        el(
          "div",
          { class: "row-head" },
          el("b", {}, one.limit),
          el("span", { class: "sub" }, `${number(round(Math.max(0, one.left)))} left`),
        ),
        meter(one.used, one.used + Math.max(0, one.left)),
        el("div", { class: "sub" }, `${number(round(one.used))} ${one.counts}`),
      ),
    ),
  ]);
}

function sources(status) {
  const facts = status.sources.map(({ name, known, error, settled, why_unsettled, age_s, failures }) => ({
    name,
    known,
    error,
    settled,
    why_unsettled,
    failures,
    since: age_s === null ? null : Math.round(clock.at - age_s),
  }));
  show(byId("sources"), facts, () =>
    facts.map((one) => {
      const trouble = one.error || one.why_unsettled;
      return el(
        "div",
        { class: "row" },
        el(
          "div",
          { class: "row-head" },
          el("b", {}, one.name),
          el(
            "span",
            { class: "sub" },
            one.since === null ? "never read" : ["read ", age(one.since, "", " ago")],
            " ",
            one.known ? null : el("span", { class: "pill bad" }, "unknown"),
          ),
        ),
        trouble ? el("div", { class: one.error ? "trouble" : "sub" }, trouble) : null,
      );
    }),
  );
}
