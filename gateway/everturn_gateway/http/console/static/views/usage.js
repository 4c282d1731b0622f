// What agents used of models: by day as bars, and by agent, model, session, job and principal.

import { html, nothing, svg } from "../vendor/lit-html/lit-html.js";
import { get } from "../api.js";
import { plain } from "../parts/text.js";
import { locale, number, t } from "../parts/texts.js";
import { may } from "../role.js";
import { failed, needsLogin, onRefresh, say, state } from "../state.js";

const DAYS = [7, 30, 90];
const COLOURS = 6; // as there are in the style sheet; the last one is for all others
const HEIGHT = 160;
const BYS = [
  ["agent", t("Agents")],
  ["model", t("Models")],
  ["session", t("Sessions")],
  ["schedule", t("Schedules")],
  ["principal", t("People")],
];
const usage = { days: 7, by: "agent", report: null, groups: null, isLoading: false, error: "" };
const weekday = new Intl.DateTimeFormat(locale, { day: "numeric", month: "short", timeZone: "UTC" });
const money = new Intl.NumberFormat(locale, { style: "currency", currency: "USD", currencyDisplay: "narrowSymbol", maximumFractionDigits: 4 });
const percent = new Intl.NumberFormat(locale, { style: "percent" });
const labelOf = (by) => BYS.find(([name]) => name === by)[1];
const isOfDays = () => ["agent", "model"].includes(usage.by);
let asking = 0;

export const openUsage = () => load();
onRefresh(() => state.route.view === "usage" && load());

async function load() {
  const mine = ++asking;
  usage.isLoading = true;
  say("");
  try {
    const report = get(`usage?days=${usage.days}`);
    const groups = isOfDays() ? null : get(`usage?days=${usage.days}&by=${usage.by}`);
    const found = await Promise.all([report, groups]);
    if (mine !== asking) return;
    [usage.report, usage.groups] = found;
    usage.error = "";
  } catch (error) {
    if (mine !== asking) return;
    if (!needsLogin(error)) usage.error = failed(error);
  }
  usage.isLoading = false;
  say("");
}

function choose(name, value) {
  usage[name] = value;
  usage.groups = null;
  load();
}

export function usageView() {
  const { report, error } = usage;
  return html`
    <header class="top"><h1>${t("Usage")}</h1><div class="grow"></div>
      <div class="chips" role="group" aria-label=${t("Days")}>${DAYS.map((days) => chip("days", days, t("{count} days", { count: days })))}</div></header>
    ${error ? html`<p class="error" role="alert">${plain(error)}</p>` : nothing}
    ${report ? whole(report) : nothing}
  `;
}

const nothingUsed = () => html`<div class="empty"><h2>${t("Nothing was used")}</h2><p>${t("Each answer of a model is counted here as soon as it has come.")}</p></div>`;

const chip = (name, value, label) =>
  html`<button class="chip" aria-pressed=${usage[name] === value} @click=${() => choose(name, value)}>${label}</button>`;

function whole(report) {
  const bys = BYS.filter(([by]) => may("operate") || !["schedule", "principal"].includes(by));
  if (!report.rows.length && !report.limits.length) return nothingUsed();
  return html`
    ${sums(report.total)}
    ${report.limits.length ? html`<div class="limits">${report.limits.map(limitOf)}</div>` : nothing}
    ${report.rows.length ? chart(report.rows) : nothingUsed()}
    <div class="chips by" role="group" aria-label=${t("By")}>${bys.map(([by, label]) => chip("by", by, label))}</div>
    ${isOfDays() ? table(summed(report.rows, usage.by), labelOf(usage.by)) : usage.groups ? grouped(usage.groups) : nothing}
    ${report.rows.length ? html`<h2>${t("By day")}</h2>${table(summed(report.rows, "day").reverse(), t("By day"), dayText)}` : nothing}
  `;
}

function sums({ calls, input_tokens: input, cached_tokens: cached, output_tokens: output, cost_usd: cost, saved_usd: saved, unpriced_calls: unpriced }) {
  const parts = [
    [t("Cost"), money.format(cost)],
    [t("Calls"), number(calls)],
    [t("Tokens in"), number(input)],
    [t("From the cache"), input ? percent.format(cached / input) : "-"],
    ...(saved > 0 ? [[t("Saved by it"), money.format(saved)]] : []),
    [t("Tokens out"), number(output)],
  ];
  return html`<dl class="sums">${parts.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
    ${unpriced ? html`<p class="faint">${t("{count} calls without a known price are not in the cost.", { count: unpriced })}</p>` : nothing}`;
}

// What of a day's limit is used, with the words beside the bar.
function limitOf({ agent, limit_usd: dollars, limit_tokens: tokens, used_usd: spent, used_tokens: used }) {
  const parts = [
    dollars === null ? null : [spent / dollars, t("{used} of {limit} today", { used: money.format(spent), limit: money.format(dollars) })],
    tokens === null ? null : [used / tokens, t("{used} of {limit} tokens today", { used, limit: tokens })],
  ].filter(Boolean);
  return parts.map(([share, text]) => html`<div class="limit"><b>${plain(agent)}</b>
    <svg class="bar" viewBox="0 0 100 12" preserveAspectRatio="none" aria-hidden="true"><rect class=${share >= 1 ? "over" : "used"} width=${Math.min(100, share * 100)} height="12"></rect></svg>
    <span>${text}</span></div>`);
}

// --- by day ---

const dayText = (day) => weekday.format(new Date(`${day}T00:00:00Z`));
const tokensOf = (row) => row.input_tokens + row.output_tokens;

function summed(rows, by) {
  const found = new Map();
  for (const row of rows) {
    const sum = found.get(row[by]) ?? { name: row[by], calls: 0, input_tokens: 0, output_tokens: 0, cached_tokens: 0, cost_usd: 0 };
    for (const key of Object.keys(sum)) if (key !== "name") sum[key] += row[key];
    found.set(row[by], sum);
  }
  const sums = [...found.values()];
  return by === "day" ? sums : sums.sort((a, b) => b.cost_usd - a.cost_usd || tokensOf(b) - tokensOf(a));
}

function daysBack(count) {
  const today = Date.now();
  return Array.from({ length: count }, (_, index) => new Date(today - (count - 1 - index) * 86_400_000).toISOString().slice(0, 10));
}

function chart(rows) {
  const by = usage.by === "model" ? "model" : "agent";
  const names = summed(rows, by).map((each) => each.name);
  const isPriced = rows.some((row) => row.cost_usd);
  const sizeOf = (row) => (isPriced ? row.cost_usd : tokensOf(row));
  const colourOf = (name) => `c${Math.min(names.indexOf(name), COLOURS - 1)}`;
  const days = daysBack(usage.days).map((day) => {
    const parts = summed(rows.filter((row) => row.day === day), by).map((each) => ({ ...each, size: sizeOf(each) }));
    return { day, parts, sum: parts.reduce((sum, each) => sum + each.size, 0) };
  });
  const most = Math.max(...days.map((each) => each.sum)) || 1;
  const width = 100 / days.length;
  const shown = isPriced ? money.format(most) : t("{count} tokens", { count: most });
  return html`<figure class="chart">
    <figcaption class="about">${isPriced ? t("Cost by day") : t("Tokens by day")}<span class="dot">·</span>${t("the highest: {amount}", { amount: shown })}</figcaption>
    <svg viewBox="0 0 100 ${HEIGHT}" preserveAspectRatio="none" aria-hidden="true">${days.map((each, index) => stacked(each, index * width, width, most, colourOf))}</svg>
    <div class="ticks" aria-hidden="true"><span>${dayText(days[0].day)}</span><span>${dayText(days.at(-1).day)}</span></div>
    <ul class="keys">${names.slice(0, COLOURS).map((name, index) => html`<li><svg class="key" viewBox="0 0 10 10" aria-hidden="true"><rect class=${`c${index}`} width="10" height="10" rx="2"></rect></svg>${index === COLOURS - 1 && names.length > COLOURS ? t("others") : plain(name)}</li>`)}</ul>
  </figure>`;
}

function stacked({ parts, day, sum }, x, width, most, colourOf) {
  let top = HEIGHT;
  const told = `${dayText(day)}: ${number(Math.round(sum * 10_000) / 10_000)}`;
  return svg`<g><title>${told}</title>${parts.map((each) => {
    const height = (each.size / most) * HEIGHT;
    top -= height;
    return svg`<rect class=${colourOf(each.name)} x=${x + width * 0.1} y=${top} width=${width * 0.8} height=${height}></rect>`;
  })}</g>`;
}

// --- tables ---

function table(rows, label, nameOf = plain) {
  if (!rows.length) return nothing;
  return html`<div class="wide" tabindex="0" role="region" aria-label=${label}><table class="figures-of">
    <thead><tr><th scope="col">${t("Name")}</th><th scope="col">${t("Cost")}</th><th scope="col">${t("Tokens in")}</th><th scope="col">${t("From the cache")}</th><th scope="col">${t("Tokens out")}</th></tr></thead>
    <tbody>${rows.map((row) => html`<tr><th scope="row">${nameOf(row.name, row)}</th><td>${money.format(row.cost_usd)}</td><td>${number(row.input_tokens)}</td><td>${row.input_tokens ? percent.format(row.cached_tokens / row.input_tokens) : "-"}</td><td>${number(row.output_tokens)}</td></tr>`)}</tbody>
  </table></div>`;
}

function grouped({ by, groups, is_partial: isPartial }) {
  if (!groups.length) return html`<p class="faint">${t("Nothing was used")}</p>`;
  const link = (name, { title, agent }) => {
    if (by === "session") return html`<a href=${`#/s/${encodeURIComponent(name)}`}>${plain(title || name)}</a> <span class="faint">${plain(agent)}</span>`;
    if (by === "schedule") return html`<a href=${`#/schedules/${encodeURIComponent(name)}`}>${plain(name)}</a> <span class="faint">${plain(agent)}</span>`;
    return plain(name);
  };
  return html`${table(groups, labelOf(by), link)}
    ${by === "session" ? html`<p class="faint">${t("What these sessions used since they began.")} ${isPartial ? t("Only those that were used last are looked at.") : nothing}</p>` : nothing}
    ${by === "schedule" ? html`<p class="faint">${t("Runs in sessions of their own, as long as these are kept.")}</p>` : nothing}`;
}
