// The head of the page: what a person should know now, and the figures.

import { age, byId, clock, counted, el, number, show } from "./dom.js";
import { IN_ORDER, STATES, more, round, total } from "./words.js";

export function notices(status, left, switched) {
  const off = [
    ["launched", status.no_launch],
    ["ended", status.no_end],
    ["drained", status.no_drain],
  ].filter(([, why]) => why);
  // What holds something back is said once.
  const others = status.notices.filter((text) => !off.some(([, why]) => text.endsWith(why)));
  const schedules = (status.schedules ?? []).join(", ");
  const facts = [off, switched, others, schedules, left.notices, status.faults, status.log_failures > 0];
  const notice = (text, kind = "") => el("p", { class: `notice ${kind}` }, text);
  show(byId("notices"), facts, () => [
    switched.launch ? notice(`Launches are switched off: ${switched.launch}`) : null,
    switched.terminate ? notice(`Drains and ends are switched off: ${switched.terminate}`) : null,
    status.faults
      ? notice(`elastiq met ${counted(status.faults, "fault")} of its own: please report what its log says.`, "bad")
      : null,
    status.log_failures ? notice("The log could not always be written: is the disk full?", "bad") : null,
    ...off.map(([what, why]) => notice(`Nothing is ${what} now: ${why}`)),
    ...others.map((text) => notice(text)),
    schedules ? notice(`Schedules in force: ${schedules}`, "info") : null,
    more(left.notices, "notice"),
  ]);
}

export function queueTile(queue) {
  show(byId("waiting"), [queue.waiting_jobs, queue.age_s === null], () => [
    queue.age_s === null ? "–" : number(queue.waiting_jobs),
  ]);
  const facts = queue.age_s === null ? ["the queue was not read yet"] : [`${number(queue.running_jobs)} running`];
  if (queue.unmatchable_jobs) facts.push(`${number(queue.unmatchable_jobs)} that no machine can run`);
  if (queue.age_s !== null && !queue.known) facts.push("now unknown: the queue does not answer");
  else if (queue.known && !queue.complete) facts.push("a part of the queue did not answer");
  show(byId("waiting-under"), facts, () => [facts.join(" · ")]);
}

export function machinesTile(status, states) {
  const { quota } = status,
    facts = [states, quota.counted, quota.max_vms];
  show(byId("machines"), facts, () => [
    number(total(states)),
    el("small", {}, quota.max_vms === null ? "" : ` of ${number(quota.max_vms)}`),
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
  show(byId("machines-under"), facts, () => [
    (here.map((name) => `${states[name]} ${name}`).join(" · ") || "none") + counts,
  ]);
}

export function moneyTile({ cost, day, status }) {
  const hours = Number(day.machine_hours.toFixed(1)),
    share = day.machine_hours ? Math.round((100 * day.busy_hours) / day.machine_hours) : null;
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

export function planTile({ last_plan: plan, last_action: action }) {
  show(byId("plan-age"), plan.at, () => (plan.at === null ? [] : [age(plan.at, "", " ago")]));
  show(byId("plan"), plan.summary, () => [plan.at === null ? "none yet" : plan.summary]);
  const told = action.at !== null && action.at !== plan.at;
  show(byId("action"), [told, action], () =>
    told ? ["Last action, ", age(action.at, "", " ago"), `: ${action.summary}`] : [],
  );
}
