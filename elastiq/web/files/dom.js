// Elements and words. Text from outside is only ever text: nothing here, or on this page, parses HTML.

const SVG = "http://www.w3.org/2000/svg";

export const byId = (id) => document.getElementById(id);

function filled(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
  return made;
}

export const el = (tag, attributes = {}, ...children) => filled(document.createElement(tag), attributes, children);
export const svg = (tag, attributes = {}, ...children) =>
  filled(document.createElementNS(SVG, tag), attributes, children);

// Replace what is in an element, unless it was made of the same facts: then what a person has selected stays.
const shown = new WeakMap();
export function show(parent, facts, make) {
  const key = JSON.stringify(facts);
  if (shown.get(parent) === key) return;
  shown.set(parent, key);
  parent.replaceChildren(...[make()].flat().filter((child) => child !== null));
}

export function duration(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 120) return `${whole} s`;
  if (whole < 7200) return `${Math.floor(whole / 60)} min`;
  if (whole < 172800) return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
  return `${Math.floor(whole / 86400)} d`;
}

export const counted = (count, unit) => `${number(count)} ${unit}${count === 1 ? "" : "s"}`;

export function number(value) {
  if (value === null || value === undefined) return "?";
  return value.toLocaleString("en", { maximumFractionDigits: value < 10 ? 2 : value < 100 ? 1 : 0 });
}

// The time that counts here is the head node's: its clock, its zone, and in the demo its speed.
export const clock = {
  at: 0,
  read: 0,
  speed: 1,
  offset: 0,
  set(data) {
    Object.assign(this, { at: data.status.at, speed: data.speed, offset: data.utc_offset_s });
    this.read = performance.now() - data.age_s * 1000;
  },
  now() {
    return this.at + ((performance.now() - this.read) / 1000) * this.speed;
  },
  // 14:05, with the day where that is not today.
  short(at) {
    const time = this.parts(at),
      today = this.parts(this.now());
    return time.day === today.day ? time.clock : `${time.date} ${time.clock}`;
  },
  parts(at) {
    const iso = new Date((at + this.offset) * 1000).toISOString();
    const date = new Date((at + this.offset) * 1000).toLocaleDateString("en-GB", {
      day: "numeric",
      month: "short",
      timeZone: "UTC",
    });
    return { day: iso.slice(0, 10), date, clock: iso.slice(11, 16) };
  },
  zone() {
    const minutes = Math.round(Math.abs(this.offset) / 60);
    return `UTC${this.offset < 0 ? "−" : "+"}${two(Math.floor(minutes / 60))}:${two(minutes % 60)}`;
  },
};

const two = (value) => String(value).padStart(2, "0");

// An age that goes on by itself: see `tick`.
export const age = (since, before = "", after = "") =>
  el(
    "span",
    { "data-since": since, "data-before": before, "data-after": after },
    before + duration(clock.now() - since) + after,
  );

export function tick() {
  const now = clock.now();
  for (const one of document.querySelectorAll("[data-since]")) {
    const text = one.dataset.before + duration(now - Number(one.dataset.since)) + one.dataset.after;
    if (one.textContent !== text) one.textContent = text;
  }
}
