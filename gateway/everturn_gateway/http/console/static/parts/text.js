// Text of others: it stays text, and what would turn it round is shown.

import { html } from "../vendor/lit-html/lit-html.js";
import { canFormat, lazily, locale, t, tn } from "./texts.js";

const BIDI = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu;
const UNSAFE = /[\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu;
const LINK = /\b(?:https?:\/\/|mailto:)[^\s<>"'`“”‘’«»]*[^\s<>"'`“”‘’«».,;:!?)\]}]/gu;

export function plain(text) {
  return text.replace(BIDI, (mark) => `⟨U+${mark.codePointAt(0).toString(16).toUpperCase()}⟩`);
}

// Only http, https and mailto become links.
export function linked(text) {
  const shown = plain(text);
  const parts = [];
  let end = 0;
  for (const found of shown.matchAll(LINK)) {
    parts.push(shown.slice(end, found.index));
    parts.push(
      html`<a href=${found[0]} target="_blank" rel="noopener noreferrer">${found[0]}</a>`,
    );
    end = found.index + found[0].length;
  }
  parts.push(shown.slice(end));
  return parts;
}

const FOLDED_LINES = 10;

export function folded(text) {
  const shown = plain(text);
  const lines = shown.split("\n");
  if (lines.length <= FOLDED_LINES && shown.length <= 1500) {
    return html`<pre class="mono">${shown}</pre>`;
  }
  const first = lines.slice(0, FOLDED_LINES).join("\n").slice(0, 1500);
  return html`<details class="fold">
    <summary><span class="when-closed">${t("Show all")} (${tn("{count} line", "{count} lines", lines.length)})</span><span class="when-open">${t("Show less")}</span></summary>
    <pre class="mono">${shown}</pre>
  </details><pre class="mono short">${first}</pre>`;
}

export const count = (number, what) => `${number.toLocaleString()} ${what}${number === 1 ? "" : "s"}`;

const dollarsOf = (digits) =>
  lazily(() => new Intl.NumberFormat(locale, { style: "currency", currency: "USD", currencyDisplay: "narrowSymbol", minimumFractionDigits: digits, maximumFractionDigits: digits }));
const cents = dollarsOf(2);
const less = dollarsOf(4);

export function dollars(cost) {
  if (!cost || !canFormat()) return "";
  return (cost < 0.01 ? less : cents)().format(cost);
}

// Copies a text, also where the page is no secure context and has no clipboard, or may not use it.
export function copyText(text, done) {
  if (navigator.clipboard) navigator.clipboard.writeText(text).then(done, () => copySelected(text, done));
  else copySelected(text, done);
}

function copySelected(text, done) {
  const area = document.createElement("textarea");
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
  done();
}

// JSON in which no character turns text round or moves a terminal's cursor.
export const safeJson = (value) =>
  JSON.stringify(value, null, 1).replace(UNSAFE, (mark) => `\\u${mark.codePointAt(0).toString(16).padStart(4, "0")}`);

// A call of a tool, as a person would type or say it.
export function asCommand(name, text) {
  let given = {};
  try {
    given = JSON.parse(text || "{}");
  } catch {
    return `${name} ${text}`;
  }
  if (typeof given !== "object" || given === null) return `${name} ${text}`;
  const keys = Object.keys(given);
  if (keys.includes("command") && typeof given.command === "string") {
    const rest = keys.filter((key) => key !== "command");
    const more = rest.map((key) => `  # ${key}: ${JSON.stringify(given[key])}`);
    return [`$ ${given.command}`, ...more].join("\n");
  }
  return [name, ...keys.map((key) => `  ${key}: ${shown(given[key])}`)].join("\n");
}

const shown = (value) => (typeof value === "string" ? value : JSON.stringify(value));
