// The words for the states of machines and for what is done to them, with their colours, and small phrases.

import { counted, el } from "./dom.js";

export const STATES = {
  busy: ["good", "busy"],
  idle: ["info", "idle"],
  draining: ["drain", "draining"],
  terminating: ["drain", "draining"],
  booting: ["warn", "booting"],
  pending: ["warn", "booting"],
  requested: ["warn", "booting"],
  stopped: ["plain", "other"],
  lost: ["bad", "bad"],
  failed: ["bad", "bad"],
};
export const IN_ORDER = [
  "busy",
  "idle",
  "booting",
  "pending",
  "requested",
  "draining",
  "terminating",
  "stopped",
  "lost",
  "failed",
];
export const KINDS = {
  launch: ["launch", "warn"],
  start: ["start", "warn"],
  joined: ["joined", "good"],
  back: ["back in use", "good"],
  drain: ["drain", "drain"],
  end: ["end", "drain"],
  stop: ["stop", "drain"],
  gone: ["gone", "bad"],
  lost: ["lost", "bad"],
  failed: ["failed", "bad"],
  notice: ["notice", "warn"],
};
export const total = (states) => Object.values(states).reduce((sum, count) => sum + count, 0);
export const more = (count, what) =>
  count ? el("p", { class: "none" }, `… and ${counted(count, what)} more: elastiqctl status shows all`) : null;
export const round = (value) => Number(value.toFixed(2));
