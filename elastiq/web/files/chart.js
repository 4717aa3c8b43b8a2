// Two charts with one time axis: machines by what they do, stacked; jobs that wait and run, as lines.

import { clock, el, number, svg } from "./dom.js";

const MACHINES = [
  ["busy", "busy"],
  ["idle", "idle"],
  ["booting", "booting"],
  ["draining", "draining"],
  ["other", "stopped, lost, failed"],
];
const JOBS = [
  ["running", "running"],
  ["waiting", "waiting"],
];
const LEFT = 38,
  RIGHT = 12,
  TOP = 24,
  FOOT = 22,
  BETWEEN = 20;
const STEPS_S = [60, 120, 300, 600, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 1209600];

export class Chart {
  constructor(parent) {
    this.parent = parent;
    this.machines = el("div", { class: "legend" });
    this.jobs = el("div", { class: "legend" });
    this.holder = el("div", { tabindex: "0", role: "img" });
    parent.append(this.machines, this.holder, this.jobs);
    this.chosen = null;
    new ResizeObserver(() => this.draw()).observe(this.holder);
    this.holder.addEventListener("pointermove", (event) => this.point(event));
    this.holder.addEventListener("pointerdown", (event) => this.point(event));
    this.holder.addEventListener("pointerleave", () => this.choose(null));
    this.holder.addEventListener("blur", () => this.choose(null));
    this.holder.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!by || !this.data?.at.length) return;
      const last = this.data.at.length - 1;
      this.choose(Math.min(last, Math.max(0, (this.chosen ?? last) + by)));
      event.preventDefault();
    });
  }

  // `data` as history.json has it, and `gap_s`: points that are farther apart have a gap between them; `limit` is
  // max_vms, or null.
  set(data, limit) {
    Object.assign(this, { data, limit });
    if (this.chosen !== null && this.chosen >= data.at.length) this.chosen = null;
    this.draw();
  }

  point(event) {
    if (!this.data?.at.length) return;
    const x = event.clientX - this.holder.getBoundingClientRect().left;
    let best = null,
      distance = 24;
    this.data.at.forEach((at, index) => {
      const away = Math.abs(this.x(at) - x);
      if (away <= distance) [best, distance] = [index, away];
    });
    this.choose(best);
  }

  choose(index) {
    if (index === this.chosen) return;
    this.chosen = index;
    this.mark();
    this.tell();
  }

  x(at) {
    const { since, until } = this.data;
    return LEFT + ((at - since) / (until - since)) * (this.width - LEFT - RIGHT);
  }

  // What is under the pointer, else the newest.
  tell() {
    const { data } = this,
      index = this.chosen ?? data.at.length - 1;
    const entry =
      (stroke) =>
      ([name, text]) => {
        const value = index >= 0 ? data[name][index] : null;
        if (name === "other" && !data.other.some((one) => one)) return null;
        return el(
          "span",
          {},
          el("i", { class: `f-${name}${stroke ? " stroke" : ""}` }),
          `${text} `,
          el("b", {}, value === null ? "not known" : number(value)),
        );
      };
    const when = this.chosen === null ? null : el("span", { class: "when" }, clock.short(data.at[index]));
    const cost =
      index >= 0 && data.cost[index] !== null && this.chosen !== null
        ? el("span", {}, "cost ", el("b", {}, number(data.cost[index])), " an hour")
        : null;
    this.machines.replaceChildren(...[...MACHINES.map(entry(false)), cost, when].filter(Boolean));
    this.jobs.replaceChildren(...JOBS.map(entry(true)).filter(Boolean));
  }

  draw() {
    if (!this.data) return;
    this.width = Math.max(240, Math.floor(this.holder.clientWidth));
    const tall = this.width < 560 ? 150 : 200,
      low = this.width < 560 ? 100 : 120;
    const upper = { top: TOP, bottom: TOP + tall },
      lower = { top: TOP + tall + BETWEEN + TOP };
    lower.bottom = lower.top + low;
    this.height = lower.bottom + FOOT;
    const root = svg("svg", { viewBox: `0 0 ${this.width} ${this.height}`, height: this.height });
    root.append(svg("g", {}, ...this.timeAxis(upper, lower)));
    this.drawMachines(root, upper);
    this.drawJobs(root, lower);
    this.cross = svg("line", { class: "cross", y1: upper.top, y2: lower.bottom, visibility: "hidden" });
    root.append(this.cross);
    if (!this.data.at.length) {
      const middle = { x: this.width / 2, y: upper.top + tall / 2, "text-anchor": "middle" };
      root.append(svg("text", middle, "nothing is known of this time yet"));
    }
    this.holder.replaceChildren(root);
    this.mark();
    this.tell();
    this.describe();
  }

  mark() {
    const { cross, chosen, data } = this;
    if (!cross) return;
    cross.setAttribute("visibility", chosen === null ? "hidden" : "visible");
    if (chosen === null) return;
    const x = this.x(data.at[chosen]).toFixed(1);
    cross.setAttribute("x1", x);
    cross.setAttribute("x2", x);
  }

  describe() {
    const { data } = this,
      most = (name) => Math.max(0, ...data[name].filter((one) => one !== null));
    const text =
      `Machines and jobs over time. At most ${number(most("busy"))} machines were busy and ` +
      `${number(most("waiting"))} jobs waited.`;
    this.holder.setAttribute("aria-label", text);
  }

  timeAxis(upper, lower) {
    const { since, until } = this.data,
      room = Math.max(2, Math.floor((this.width - LEFT) / 84));
    const step = STEPS_S.find((one) => (until - since) / one <= room) ?? STEPS_S[STEPS_S.length - 1];
    const shift = clock.offset;
    const made = [];
    for (let at = Math.ceil((since + shift) / step) * step - shift; at <= until; at += step) {
      const x = this.x(at),
        parts = clock.parts(at);
      const text = step >= 86400 || parts.clock === "00:00" ? parts.date : parts.clock;
      for (const panel of [upper, lower])
        made.push(svg("line", { class: "grid", x1: x, x2: x, y1: panel.top, y2: panel.bottom }));
      if (x > LEFT + 8 && x < this.width - 20) {
        made.push(svg("text", { x, y: lower.bottom + 16, "text-anchor": "middle" }, text));
      }
    }
    return made;
  }

  // Horizontal lines at whole numbers; returns the scale.
  valueAxis(root, panel, most, title) {
    const steps = [1, 2, 5].flatMap((n) => [1, 10, 100, 1000, 1e4, 1e5].map((by) => n * by)).sort((a, b) => a - b);
    const step = steps.find((one) => most / one <= 4) ?? 1e6,
      top = Math.max(step, Math.ceil(most / step) * step);
    const y = (value) => panel.bottom - (value / top) * (panel.bottom - panel.top);
    for (let value = 0; value <= top; value += step) {
      root.append(svg("line", { class: "grid", x1: LEFT, x2: this.width - RIGHT, y1: y(value), y2: y(value) }));
      const text = value >= 10000 ? `${value / 1000}k` : String(value);
      root.append(svg("text", { x: LEFT - 8, y: y(value) + 4, "text-anchor": "end" }, text));
    }
    root.append(svg("text", { class: "title", x: 0, y: panel.top - 10 }, title));
    return y;
  }

  // Pieces of time without a gap, as lists of indices.
  pieces(known) {
    const { at, gap_s } = this.data,
      found = [];
    let piece = [];
    at.forEach((time, index) => {
      if (piece.length && (!known(index) || time - at[piece[piece.length - 1]] > gap_s)) {
        found.push(piece);
        piece = [];
      }
      if (known(index)) piece.push(index);
    });
    return piece.length ? [...found, piece] : found;
  }

  // A stair: a value holds until the next one; the last one for a step, but not beyond the end.
  stair(piece, y) {
    const { at, width_s, until } = this.data,
      end = Math.min(until, at[piece[piece.length - 1]] + width_s);
    return piece.flatMap((index, n) => {
      const to = n + 1 < piece.length ? at[piece[n + 1]] : Math.max(end, at[index]);
      return [
        [this.x(at[index]), y(index)],
        [this.x(to), y(index)],
      ];
    });
  }

  drawMachines(root, panel) {
    const { data, limit } = this,
      sums = data.at.map(() => 0);
    const totals = data.at.map((_, index) => MACHINES.reduce((sum, [name]) => sum + (data[name][index] ?? 0), 0));
    const highest = Math.max(0, ...totals),
      near = limit !== null && limit <= Math.max(10, highest * 2.5);
    const y = this.valueAxis(root, panel, Math.max(highest, near ? limit : 0, 1), "Machines");
    for (const [name] of MACHINES) {
      const below = [...sums];
      data.at.forEach((_, index) => {
        sums[index] += data[name][index] ?? 0;
      });
      for (const piece of this.pieces((index) => data.busy[index] !== null)) {
        if (!piece.some((index) => data[name][index] > 0)) continue;
        const over = this.stair(piece, (index) => y(sums[index]));
        const under = this.stair(piece, (index) => y(below[index])).reverse();
        root.append(svg("path", { class: `f-${name}`, d: `${line([...over, ...under])}Z` }));
      }
    }
    if (near) {
      root.append(svg("line", { class: "limit", x1: LEFT, x2: this.width - RIGHT, y1: y(limit), y2: y(limit) }));
      const place = { class: "limit-text", x: this.width - RIGHT, y: y(limit) - 5, "text-anchor": "end" };
      root.append(svg("text", place, `max_vms ${limit}`));
    }
  }

  drawJobs(root, panel) {
    const { data } = this,
      values = JOBS.flatMap(([name]) => data[name]).filter((value) => value !== null);
    const y = this.valueAxis(root, panel, Math.max(1, ...values), "Jobs");
    for (const [name] of JOBS) {
      for (const piece of this.pieces((index) => data[name][index] !== null)) {
        const over = this.stair(piece, (index) => y(data[name][index]));
        if (name === "waiting") {
          const under = [
            [over[over.length - 1][0], panel.bottom],
            [over[0][0], panel.bottom],
          ];
          root.append(svg("path", { class: "f-waiting wash", d: `${line([...over, ...under])}Z` }));
        }
        root.append(svg("path", { class: `s-${name}`, d: line(over) }));
      }
    }
  }
}

const line = (points) => `M${points.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join("L")}`;
