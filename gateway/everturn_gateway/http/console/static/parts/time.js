// Times: relative to now, the exact one beside.

import { html } from "../vendor/lit-html/lit-html.js";
import { canFormat, lazily, locale, t } from "./texts.js";

const dates = (form) => lazily(() => new Intl.DateTimeFormat(locale, form));
const clock = dates({ hour: "2-digit", minute: "2-digit" });
const day = dates({ day: "numeric", month: "short" });
const year = dates({ day: "numeric", month: "short", year: "numeric" });
const exact = dates({ dateStyle: "medium", timeStyle: "medium" });
const relative = lazily(() => new Intl.RelativeTimeFormat(locale, { numeric: "auto", style: "short" }));
const spans = Object.fromEntries(
  ["millisecond", "second", "minute", "hour", "day"].map((unit) => [
    unit,
    lazily(() => new Intl.NumberFormat(locale, { style: "unit", unit, unitDisplay: "short", maximumFractionDigits: 1 })),
  ]),
);
const unknown = (at) => html`<time datetime=${at}></time>`; // for a moment: see `canFormat`

export function when(at) {
  if (!canFormat()) return unknown(at);
  const then = new Date(at);
  const now = new Date();
  let text = clock().format(then);
  if (then.getFullYear() !== now.getFullYear()) text = year().format(then);
  else if (then.toDateString() !== now.toDateString()) text = `${day().format(then)}, ${text}`;
  return html`<time datetime=${at} title=${exact().format(then)}>${text}</time>`;
}

export function ago(at) {
  if (!canFormat()) return unknown(at);
  const then = new Date(at);
  const seconds = Math.max(0, (Date.now() - then.getTime()) / 1000);
  const [count, unit] = rounded(seconds);
  const text = seconds < 45 ? relative().format(0, "second") : relative().format(-count, unit);
  return html`<time datetime=${at} title=${exact().format(then)}>${text}</time>`;
}

export function ahead(at) {
  if (!canFormat()) return "";
  const [count, unit] = rounded(Math.max(0, (new Date(at).getTime() - Date.now()) / 1000));
  return relative().format(count, unit);
}

export function left(at) {
  const seconds = (new Date(at).getTime() - Date.now()) / 1000;
  return seconds <= 0 ? t("expired") : t("{time} left", { time: spanOf(Math.max(60, seconds)) });
}

export function spanOf(seconds) {
  if (!canFormat()) return "";
  const [count, unit] = rounded(seconds);
  return spans[unit]().format(count);
}

function rounded(seconds) {
  if (seconds < 3600) return [Math.max(1, Math.round(seconds / 60)), "minute"];
  if (seconds < 86_400) return [Math.round(seconds / 3600), "hour"];
  return [Math.round(seconds / 86_400), "day"];
}

export function spanIn(seconds) {
  if (!canFormat()) return "";
  if (seconds < 0.1) return spans.millisecond().format(Math.round(seconds * 1000));
  return seconds < 60 ? spans.second().format(seconds) : spanOf(seconds);
}

export function took(fromAt, toAt) {
  const seconds = (new Date(toAt).getTime() - new Date(fromAt).getTime()) / 1000;
  if (seconds < 0.1) return "";
  return spanIn(seconds);
}
