// What was said in a session, as a conversation: what is no speech is folded into what it belongs to.

import { html, nothing } from "../vendor/lit-html/lit-html.js";
import { repeat } from "../vendor/lit-html/directives/repeat.js";
import { address } from "../api.js";
import { itemOf } from "../approvals.js";
import { fork, FORK, forkSeq } from "../fork.js";
import { question } from "../views/approvals.js";
import { delivery } from "./delivery.js";
import { entriesOf } from "./entries.js";
import { dispositionMark } from "./dispositions.js";
import { maybe } from "./lazy.js";
import { asCommand, dollars, folded, linked, plain } from "./text.js";
import { canFormat, t } from "./texts.js";
import { took, when } from "./time.js";
import { timeOfTurn } from "./timing.js";

const pinButton = maybe("pins", "pinButton");
const isPinned = maybe("pins", "isPinned");

let known = { events: null, length: 0, restarts: null, isFormatted: false, entries: [] };

// Entries are made anew when an event came, and not for each piece of a reply; also when there are
// formatters, as their texts have numbers.
function entries(events, restarts, shownSince, node) {
  const isFormatted = canFormat();
  const isKnown = known.events === events && known.length === events.length && known.restarts === restarts && known.shownSince === shownSince && known.isFormatted === isFormatted;
  if (!isKnown) {
    const made = entriesOf(events, { restarts, shownSince, node });
    known = { events, length: events.length, restarts, shownSince, isFormatted, entries: made };
  }
  return known.entries;
}

// With `until`, what came after that event is dimmed; `dispositions` says what a request had of messages;
// of more than `most` entries the last ones are shown.
export function transcript(session, { restarts = [], shownSince = "", node = "", until = Infinity, dispositions = null, most = Infinity } = {}) {
  const asked = new Map((session.document?.approvals ?? []).map((each) => [each.call_id, each]));
  const about = { session, asked, until, dispositions };
  return html`
    ${repeat(entries(session.events, restarts, shownSince, node).slice(-most), (each) => `${each.kind}${each.seq}`, (each) => entryOf(about, each))}
    ${session.live
      ? html`<article class="entry reply live"><header><span class="who">${t("writing")}</span></header><div class="text">${linked(session.live.text)}<i class="caret"></i></div></article>`
      : session.waits && session.document?.open_turn
        ? html`<article class="entry reply live"><header><span class="who">${session.document.open_turn.waiting_for ? plain(session.document.open_turn.waiting_for) : t("thinking")}</span></header><div class="text"><i class="caret"></i></div></article>`
        : nothing}
  `;
}

// The same words for as long as the entry is: they are not looked through for links each time.
const words = (entry) => (entry.words ??= linked(entry.text));

function classOf({ until, dispositions }, entry) {
  const disposition = dispositions?.get(entry.seq);
  return `${entry.seq > until ? "later" : ""} ${disposition && disposition.disposition !== "kept" ? "hidden-from-model" : ""}`;
}

function dispositionOf({ dispositions }, seq) {
  const disposition = dispositions?.get(seq);
  if (!disposition || disposition.disposition === "kept") return nothing;
  return html`${dispositionMark(disposition)}${disposition.stage ? html`<span class="faint">${plain(disposition.stage)}</span>` : nothing}`;
}

const pinned = (session, seq) => (isPinned(session, seq) ? html`<span class="mark">${t("pinned")}</span>` : nothing);

function entryOf(about, entry) {
  const { session, asked } = about;
  const more = classOf(about, entry);
  switch (entry.kind) {
    case "user":
      return html`<article class="entry user ${entry.isAmbient ? "ambient" : ""} ${more}" data-seq=${entry.seq}>
        <header>${entry.sender ? html`<span class="who">${plain(entry.sender)}</span>` : nothing}${entry.isAmbient ? html`<span class="mark">${t("not addressed")}</span>` : nothing}${entry.isUntrusted ? html`<span class="mark">${t("from outside")}</span>` : nothing}${entry.isEdited ? html`<span class="mark">${t("edited")}</span>` : nothing}${pinned(session, entry.seq)}${dispositionOf(about, entry.seq)} ${when(entry.at)}${entry.text ? pinButton(session, entry.seq) ?? nothing : nothing}</header>
        <div class="text">${words(entry)}</div>
        ${entry.files.map((file) => html`<p class="file"><a href=${`../api/v1/sessions/${session.id}/media/${encodeURIComponent(file.name)}`} download=${file.file_name || file.name}>${plain(file.file_name || file.name)}</a> <span class="faint">${plain(file.media_type)}</span></p>`)}
        ${entry.discarded ? html`<p class="faint">${plain(entry.discarded)}</p>` : nothing}
      </article>`;
    case "reply":
      return html`<article class="entry reply ${more}" data-seq=${entry.seq}>
        <header><span class="faint">#${entry.seq}</span><span class="who">${plain(entry.model || t("reply"))}</span> ${when(entry.at)} ${numbers(entry)}${pinned(session, entry.seq)}${dispositionOf(about, entry.seq)}${delivery(entry.delivery, session.document?.channel)}${entry.isAsked ? html`<a class="saw" href=${`#/s/${session.id}/request/${entry.seq}`} title=${t("What the model saw")}>${t("saw")}</a>` : nothing}${entry.text ? pinButton(session, entry.seq) ?? nothing : nothing}<button class="plain quiet" title=${FORK} @click=${() => fork(session.id, forkSeq(session.events, entry))}>${t("Fork here")}</button></header>
        ${entry.text ? html`<div class="text">${words(entry)}</div>` : nothing}
        ${entry.calls.map((each) => callOf(about, each, asked.get(each.call_id)))}
      </article>`;
    case "turn":
      return html`<div class="entry turn ${more}" data-seq=${entry.seq}>${timeOfTurn(entry.turn)}</div>`;
    case "note":
      return html`<p class="entry note ${entry.tone} ${more}" data-seq=${entry.seq}>${plain(entry.text)} ${when(entry.at)}</p>`;
    default:
      return html`<div class="entry edge ${entry.tone ?? ""} ${more}" data-seq=${entry.seq}><span>${entry.from ? html`<a href=${`#/s/${encodeURIComponent(entry.from)}`}>${plain(entry.text)}</a>` : plain(entry.text)} ${when(entry.at)}</span>${entry.whole ? html`<details><summary>${t("Read")}</summary><div class="text">${(entry.wholeWords ??= linked(entry.whole))}</div></details>` : nothing}</div>`;
  }
}

function numbers({ usage = {}, from, at }) {
  const parts = [];
  if (usage.input_tokens) {
    const { input_tokens: count, cached_tokens: cached } = usage;
    parts.push(cached ? t("{count} in ({cached} cached)", { count, cached }) : t("{count} in", { count }));
  };
  if (usage.output_tokens) parts.push(t("{count} out", { count: usage.output_tokens }));
  if (from) parts.push(took(from, at));
  const cost = dollars((usage.cost_nanodollars ?? 0) / 1e9);
  if (cost) parts.push(cost);
  return html`<span class="faint figures">${parts.filter(Boolean).join(", ")}</span>`;
}

const STATUS = { "": "", asks: t("waits for a person"), runs: t("runs"), done: t("done"), failed: t("failed"), refused: t("refused") };

function callOf(about, call, approval) {
  const { session } = about;
  if (approval) {
    return question(itemOf(session, approval), { hasSession: false });
  }
  const line = asCommand(call.name, call.arguments).split("\n")[0];
  const time = call.from && call.to ? took(call.from, call.to) : "";
  const tone = { asks: "asks", runs: "runs", done: "done", failed: "failed", refused: "failed" }[call.status] ?? "";
  return html`<details class="call">
    <summary><code>${plain(line)}</code>${dispositionOf(about, call.resultSeq)}<span class="mark ${tone}">${STATUS[call.status]}${time ? ` ${time}` : ""}</span></summary>
    ${folded(asCommand(call.name, call.arguments))}
    ${call.reason || call.decided ? html`<p class="faint">${plain([call.reason, call.decided].filter(Boolean).join(" - "))}</p>` : nothing}
    ${pinned(session, call.resultSeq)}${call.result ? pinButton(session, call.resultSeq) ?? nothing : nothing}
    ${delivery(call.delivery, session.document?.channel)}
    ${call.result !== undefined ? folded(call.result || t("(nothing)")) : nothing}
    ${call.path ? html`<p><a href=${address(`api/v1/sessions/${session.id}/results/${encodeURIComponent(call.path)}`)} download=${`${call.path}.txt`}>${t("Open the whole result")}</a></p>` : nothing}
  </details>`;
}

export const raw = (events) =>
  repeat(events, (each) => each.seq, (each) => html`<details class="raw" data-seq=${each.seq}><summary><code>#${each.seq} ${each.type}</code> ${when(each.at)}</summary><pre class="mono">${plain(JSON.stringify(each, null, 2))}</pre></details>`);
