// What the gateway logged last, by level, as it comes; the newest first.

import { html, nothing } from "../vendor/lit-html/lit-html.js";
import { repeat } from "../vendor/lit-html/directives/repeat.js";
import { get } from "../api.js";
import { roleNotice } from "../parts/role.js";
import { folded, plain } from "../parts/text.js";
import { locale, t } from "../parts/texts.js";
import { may, role } from "../role.js";
import { failed, needsLogin, onRefresh, say, state } from "../state.js";

const LOOK_MS = 2000;
const KEPT = 1000;
const LEVELS = [
  ["debug", t("Everything")],
  ["info", t("From info on")],
  ["warning", t("From warnings on")],
  ["error", t("Errors only")],
];
const clock = new Intl.DateTimeFormat(locale, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const exact = new Intl.DateTimeFormat(locale, { dateStyle: "medium", timeStyle: "medium" });

const log = { level: "info", records: [], newer: [], last: 0, boot: "", isInUse: false, isLoading: true, error: "" };
let looking = 0;
let asking = 0; // only the answer to the newest look is taken: two with the same records would show them twice

async function look() {
  clearTimeout(looking);
  if (state.route.view !== "log" || !role.me || !may("admin")) return;
  const level = log.level;
  const mine = ++asking;
  if (!document.hidden) {
    try {
      const found = await get(`admin/log?level=${level}&after=${log.last}&limit=${KEPT}`);
      if (mine !== asking) return;
      if (log.boot && found.boot !== log.boot) return begin(level); // another run counts anew
      log.boot = found.boot;
      log.last = found.last;
      log.newer = [...found.records.reverse(), ...log.newer].slice(0, KEPT);
      log.error = "";
    } catch (error) {
      if (mine !== asking) return;
      if (!needsLogin(error)) log.error = failed(error);
    }
    log.isLoading = false;
    if (!log.isInUse) showNewer();
    say("");
  }
  clearTimeout(looking);
  looking = setTimeout(look, LOOK_MS);
}

function begin(level) {
  Object.assign(log, { level, records: [], newer: [], last: 0, boot: "", isLoading: true });
  look();
}

function showNewer() {
  log.records = [...log.newer, ...log.records].slice(0, KEPT);
  log.newer = [];
}

function use(isInUse) {
  log.isInUse = isInUse;
  if (!isInUse && log.newer.length) {
    showNewer();
    say("");
  }
}

export function openLog() {
  log.isInUse = false; // whoever left it by a key has the pointer elsewhere
  look();
}

onRefresh(look);

export function logView() {
  return html`<header class="top"><h1>${t("Log")}</h1></header>${role.me && !may("admin") ? roleNotice({ message: t("The log is for administrators") }, look) : lines()}`;
}

function lines() {
  const { records, newer, isLoading, error } = log;
  return html`
    <div class="chips" role="group" aria-label=${t("Show")}>${LEVELS.map(
      ([level, label]) => html`<button class="chip" aria-pressed=${log.level === level} @click=${() => begin(level)}>${label}</button>`,
    )}</div>
    ${error ? html`<p class="error" role="alert">${plain(error)}</p>` : nothing}
    <div class="newer">${newer.length ? html`<button class="chip" @click=${() => use(false)}>${t("{count} newer", { count: newer.length })}</button>` : nothing}</div>
    <ol class="records" aria-label=${t("Log")} @pointerenter=${() => use(true)} @pointerleave=${() => use(false)}
      @focusin=${() => use(true)} @focusout=${(e) => e.currentTarget.contains(e.relatedTarget) || use(false)}>
      ${repeat(records, (each) => each.number, record)}
    </ol>
    ${!isLoading && !records.length && !error ? html`<div class="empty"><h2>${t("Nothing logged")}</h2><p>${t("The last 1,000 records of this run of the gateway stand here, without secrets.")}</p></div>` : nothing}
  `;
}

function record({ at, level, logger, message, fields, exception }) {
  const then = new Date(at);
  const shown = Object.entries(fields);
  const isBad = level === "error" || level === "critical";
  return html`<li class=${isBad ? "bad" : ""}>
    <time datetime=${at} title=${exact.format(then)}>${clock.format(then)}</time>
    <span class="mark ${isBad ? "failed" : level === "warning" ? "asks" : ""}">${level}</span>
    <span class="said">${plain(message)} <span class="faint">${plain(logger.replace("everturn_", ""))}</span>
      ${shown.length ? html`<span class="fields">${shown.map(([name, value]) => html`<code>${plain(name)}=${plain(String(value))}</code> `)}</span>` : nothing}
      ${exception ? folded(exception) : nothing}
    </span>
  </li>`;
}
