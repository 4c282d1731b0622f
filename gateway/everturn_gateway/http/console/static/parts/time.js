// Times: relative to now, the exact one beside.

import { html } from "../vendor/lit-html/lit-html.js";

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const day = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const year = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", year: "numeric" });
const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

export function when(at) {
  const then = new Date(at);
  const now = new Date();
  let text = clock.format(then);
  if (then.getFullYear() !== now.getFullYear()) text = year.format(then);
  else if (then.toDateString() !== now.toDateString()) text = `${day.format(then)}, ${text}`;
  return html`<time datetime=${at} title=${exact.format(then)}>${text}</time>`;
}

export function ago(at) {
  const then = new Date(at);
  const seconds = Math.max(0, (Date.now() - then.getTime()) / 1000);
  const text = seconds < 45 ? "now" : spanOf(seconds);
  return html`<time datetime=${at} title=${exact.format(then)}>${text}</time>`;
}

export function left(at) {
  const seconds = (new Date(at).getTime() - Date.now()) / 1000;
  return seconds <= 0 ? "expired" : `${spanOf(Math.max(60, seconds))} left`;
}

export function spanOf(seconds) {
  if (seconds < 3600) return `${Math.max(1, Math.round(seconds / 60))} min`;
  if (seconds < 86_400) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86_400)} d`;
}

export function took(fromAt, toAt) {
  const seconds = (new Date(toAt).getTime() - new Date(fromAt).getTime()) / 1000;
  if (seconds < 0.1) return "";
  return seconds < 60 ? `${seconds.toFixed(1)} s` : spanOf(seconds);
}
