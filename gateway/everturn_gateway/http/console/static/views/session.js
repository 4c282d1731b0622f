// One conversation: live transcript, composer, what waits for a person, and the window.

import { html, nothing } from "../vendor/lit-html/lit-html.js";
import { repeat } from "../vendor/lit-html/directives/repeat.js";
import { live } from "../vendor/lit-html/directives/live.js";
import { newKey } from "../api.js";
import { contextBar } from "../parts/bar.js";
import { entriesOf } from "../parts/entries.js";
import { closes, exportLinks, labelActions } from "../parts/labels.js";
import { asCommand, dollars, folded, linked, plain } from "../parts/text.js";
import { number, t } from "../parts/texts.js";
import { took, when } from "../parts/time.js";
import { act, keepDraft, loadOlder, remove, say, send, state } from "../state.js";
import { question } from "./approvals.js";

const NEAR_END_PX = 80;
const FILE_MOST_BYTES = 20 * 1024 * 1024;

export function sessionView(session) {
  const row = state.list.rows.get(session.id);
  const { document, events } = session;
  const first = session.first <= 1 && events.find((each) => each.type === "received");
  const title = document?.title || row?.title || (first ? first.text : "").trim().split("\n")[0].slice(0, 80) || document?.chat || session.id;
  const isEnded = document?.status === "ended";
  return html`
    <header class="top">
      <a class="back" href="#/" aria-label=${t("All sessions")}><svg viewBox="0 0 24 24" aria-hidden="true"><path d="M15 5l-7 7 7 7"></path></svg></a>
      <div class="heading">
        <h1>${plain(title)}</h1>
        <p class="about">${about(session, row)}</p>
      </div>
      <div class="acts">${actions(session, document, title)}</div>
    </header>
    <div class="columns">
      <section class="talk" aria-label=${t("Conversation")}>
        <div class="scroll" tabindex="0" role="region" aria-label=${t("Transcript")} @scroll=${(e) => scrolled(session, e.target)}>
          <div class="transcript">
            ${session.error ? html`<p class="error" role="alert">${session.error}</p>` : nothing}
            ${session.first > 1 ? html`<button class="more" ?disabled=${session.isLoadingOlder} @click=${(e) => older(session, e)}>${t("Show older")}</button>` : nothing}
            ${session.isLoading ? html`<div class="ghosts" aria-hidden="true"><div class="ghost"></div><div class="ghost short"></div><div class="ghost"></div></div>` : nothing}
            ${session.isRaw ? raw(events) : transcript(session)}
            ${!session.isLoading && !events.some((each) => each.type !== "session_started") && !session.error ? html`<div class="empty"><h2>${t("Nothing said yet")}</h2><p>${t("Write the first message below.")}</p></div>` : nothing}
          </div>
        </div>
        ${session.follows ? nothing : html`<button class="chip follow" @click=${() => follow(session)}>${t("Back to the newest")}</button>`}
        ${isEnded ? html`<p class="ended">${t("This session has ended. The conversation goes on in a new one.")}</p>` : composer(session)}
      </section>
      <aside aria-label=${t("What the model sees")}>
        ${session.context ? contextBar(session.context) : html`<h2>${t("What the model sees")}</h2><p class="faint">${t("Not known for this session.")}</p>`}
        ${document ? totals(document) : nothing}
      </aside>
    </div>
    <p class="hidden" role="status" aria-live="polite">${plain(session.said)}</p>
  `;
}

const STATUS_OF_SESSION = { paused: t("paused"), ended: t("ended") };

function about(session, row) {
  const it = session.document ?? row;
  if (!it) return html`<span class="faint">${session.id}</span>`;
  return html`${plain(it.agent)}<span class="dot">·</span>${plain(it.channel)}${it.principal ? html`<span class="dot">·</span>${plain(it.principal)}` : nothing}<span class="dot">·</span><button class="plain id" title=${t("Copy the id")} @click=${() => copy(session.id)}>…${session.id.slice(-8)}</button>${it.status !== "active" ? html`<span class="mark">${STATUS_OF_SESSION[it.status] ?? it.status}</span>` : nothing}${it.pinned ? html`<span class="mark">${t("pinned")}</span>` : nothing}${it.archived ? html`<span class="mark">${t("archived")}</span>` : nothing}`;
}

function actions(session, document, title) {
  if (!document) return nothing;
  const isEnded = document.status === "ended";
  return html`
    ${document.status === "paused" && document.open_turn ? html`<button class="main" @click=${() => act(session, "resume", t("The turn goes on."))}>${t("Resume")}</button>` : nothing}
    ${document.open_turn ? html`<button class="deny" @click=${() => act(session, "cancel", t("The turn is cancelled."))}>${t("Cancel turn")}</button>` : nothing}
    <details class="menu" @focusout=${closes} @click=${closes}>
      <summary aria-label=${t("More")}><svg viewBox="0 0 24 24" aria-hidden="true"><path d="M12 6h.01M12 12h.01M12 18h.01"></path></svg></summary>
      <div class="sheet">
        ${labelActions({ ...document, title })}
        ${exportLinks(session.id)}
        ${isEnded ? nothing : html`<button class="plain" @click=${() => act(session, "compact", t("Older turns are being summarised."))}>${t("Summarise older turns")}</button>`}
        <button class="plain" @click=${() => toggleRaw(session)}>${session.isRaw ? t("Show the transcript") : t("Show raw events")}</button>
        ${isEnded ? nothing : html`<button class="plain" @click=${() => sure(t("End this session? Its conversation starts a new one with the next message.")) && act(session, "reset", t("The session has ended."))}>${t("End session")}</button>`}
        <button class="plain deny" @click=${() => sure(t("Delete this session, and all that belongs to it?")) && remove(session)}>${t("Delete")}</button>
      </div>
    </details>`;
}

const sure = (text) => window.confirm(text);

function toggleRaw(session) {
  session.isRaw = !session.isRaw;
  say("");
}

function transcript(session) {
  const entries = entriesOf(session.events);
  const asked = new Map((session.document?.approvals ?? []).map((each) => [each.call_id, each]));
  const restarts = state.restartedAt;
  let isRestartShown = !restarts || !entries.some((each) => each.at < restarts);
  const shown = [];
  for (const entry of entries) {
    if (!isRestartShown && entry.at > restarts) {
      shown.push(restart(restarts));
      isRestartShown = true;
    }
    shown.push(entry);
  }
  if (!isRestartShown) shown.push(restart(restarts));
  return html`
    ${repeat(shown, (each) => `${each.kind}${each.seq}`, (each) => entryOf(session, each, asked))}
    ${session.live
      ? html`<article class="entry reply live"><header><span class="who">${t("writing")}</span></header><div class="text">${linked(session.live.text)}<i class="caret"></i></div></article>`
      : session.waits && session.document?.open_turn
        ? html`<article class="entry reply live"><header><span class="who">${session.document.open_turn.waiting_for ? plain(session.document.open_turn.waiting_for) : t("thinking")}</span></header><div class="text"><i class="caret"></i></div></article>`
        : nothing}
  `;
}

const restart = (at) => ({ kind: "edge", seq: `restart ${at}`, at, text: t("the gateway was restarted") });

const DELIVERY = { planned: t("planned"), sending: t("sending"), sent: t("sent"), unsent: t("not sent"), unknown: t("not known whether sent"), failed: t("failed"), given_up: t("given up"), closed: t("closed") };

function entryOf(session, entry, asked) {
  switch (entry.kind) {
    case "user":
      return html`<article class="entry user ${entry.isAmbient ? "ambient" : ""}">
        <header>${entry.sender ? html`<span class="who">${plain(entry.sender)}</span>` : nothing}${entry.isAmbient ? html`<span class="mark">${t("overheard")}</span>` : nothing}${entry.isUntrusted ? html`<span class="mark">${t("from outside")}</span>` : nothing}${entry.isEdited ? html`<span class="mark">${t("edited")}</span>` : nothing} ${when(entry.at)}</header>
        <div class="text">${linked(entry.text)}</div>
        ${entry.files.map((file) => html`<p class="file"><a href=${`../api/v1/sessions/${session.id}/media/${encodeURIComponent(file.name)}`} download=${file.file_name || file.name}>${plain(file.file_name || file.name)}</a> <span class="faint">${file.media_type}</span></p>`)}
        ${entry.fate ? html`<p class="faint">${plain(entry.fate)}</p>` : nothing}
      </article>`;
    case "reply":
      return html`<article class="entry reply">
        <header><span class="who">${plain(entry.model || t("reply"))}</span> ${when(entry.at)} ${numbers(entry)}${entry.delivery ? html`<span class="mark ${entry.delivery === "sent" ? "done" : entry.delivery === "failed" ? "failed" : ""}">${DELIVERY[entry.delivery] ?? entry.delivery}</span>` : nothing}</header>
        ${entry.text ? html`<div class="text">${linked(entry.text)}</div>` : nothing}
        ${entry.calls.map((each) => callOf(session, each, asked.get(each.call_id)))}
      </article>`;
    case "note":
      return html`<p class="entry note ${entry.tone}">${plain(entry.text)} ${when(entry.at)}</p>`;
    default:
      return html`<div class="entry edge"><span>${plain(entry.text)} ${when(entry.at)}</span>${entry.whole ? html`<details><summary>${t("Read")}</summary><div class="text">${linked(entry.whole)}</div></details>` : nothing}</div>`;
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

function callOf(session, call, approval) {
  if (approval) {
    const item = (approval.item ??= { ...approval, session_id: session.id, title: "" });
    return question(item, { hasSession: false });
  }
  const line = asCommand(call.name, call.arguments).split("\n")[0];
  const time = call.from && call.to ? took(call.from, call.to) : "";
  const tone = { asks: "asks", runs: "runs", done: "done", failed: "failed", refused: "failed" }[call.status] ?? "";
  return html`<details class="call">
    <summary><code>${plain(line)}</code><span class="mark ${tone}">${STATUS[call.status]}${time ? ` ${time}` : ""}</span></summary>
    ${folded(asCommand(call.name, call.arguments))}
    ${call.reason || call.decided ? html`<p class="faint">${plain([call.reason, call.decided].filter(Boolean).join(" - "))}</p>` : nothing}
    ${call.result !== undefined ? folded(call.result || t("(nothing)")) : nothing}
  </details>`;
}

const raw = (events) =>
  repeat(events, (each) => each.seq, (each) => html`<details class="raw"><summary><code>#${each.seq} ${each.type}</code> ${when(each.at)}</summary><pre class="mono">${plain(JSON.stringify(each, null, 2))}</pre></details>`);

function totals(document) {
  const { usage, turns, messages } = document;
  return html`<h2>${t("So far")}</h2><dl>
    <div><dt>${t("Turns")}</dt><dd>${number(turns)}</dd></div>
    <div><dt>${t("Messages")}</dt><dd>${number(messages)}</dd></div>
    <div><dt>${t("Tokens in")}</dt><dd>${number(usage.input_tokens)}</dd></div>
    <div><dt>${t("From the cache")}</dt><dd>${number(usage.cached_tokens)}</dd></div>
    <div><dt>${t("Tokens out")}</dt><dd>${number(usage.output_tokens)}</dd></div>
    ${usage.cost_usd ? html`<div><dt>${t("Cost")}</dt><dd>${dollars(usage.cost_usd)}</dd></div>` : nothing}
  </dl>`;
}

// --- the composer ---

function composer(session) {
  const write = (event) => {
    session.draft = event.target.value;
    if (!session.isSending) session.key = "";
    keepDraft(session);
    grow(event.target);
  };
  const press = (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      send(session, newKey);
    }
  };
  const submit = (event) => {
    event.preventDefault();
    send(session, newKey);
  };
  return html`<form class="composer" @submit=${submit}>
    ${session.sendError ? html`<p class="error" role="alert">${session.sendError}</p>` : nothing}
    ${session.files.length ? html`<ul class="files">${session.files.map((file, index) => html`<li>${plain(file.name)} <button type="button" class="plain" aria-label=${t("Leave out {name}", { name: plain(file.name) })} @click=${() => drop(session, index)}>×</button></li>`)}</ul>` : nothing}
    <div class="line">
      <label class="attach" title=${t("Add files")}><input type="file" multiple class="hidden" aria-label=${t("Add files")} @change=${(e) => attach(session, e.target)}><svg viewBox="0 0 24 24" aria-hidden="true"><path d="M12 5v14M5 12h14"></path></svg></label>
      <textarea rows="1" aria-label=${t("Message")} placeholder=${t("Message")} .value=${live(session.draft)} @input=${write} @keydown=${press}></textarea>
      <button class="main" ?disabled=${session.isSending}>${t("Send")}</button>
    </div>
  </form>`;
}

function grow(area) {
  area.style.height = "auto";
  area.style.height = `${Math.min(area.scrollHeight, 200)}px`;
}

function drop(session, index) {
  session.files.splice(index, 1);
  say("");
}

async function attach(session, input) {
  for (const file of input.files) {
    if (file.size > FILE_MOST_BYTES) {
      session.sendError = t("{name} is larger than {size} MB.", { name: file.name, size: FILE_MOST_BYTES / 1024 / 1024 });
      continue;
    }
    const bytes = new Uint8Array(await file.arrayBuffer());
    let text = "";
    for (let at = 0; at < bytes.length; at += 8192) {
      text += String.fromCharCode(...bytes.subarray(at, at + 8192));
    }
    session.files.push({ name: file.name, type: file.type, data: btoa(text) });
  }
  session.key = "";
  input.value = "";
  say("");
}

// --- where it is scrolled to ---

let heldHeight = 0;

function scrolled(session, place) {
  const isNear = place.scrollHeight - place.scrollTop - place.clientHeight < NEAR_END_PX;
  if (isNear === session.follows) return;
  session.follows = isNear;
  say("");
}

function follow(session) {
  session.follows = true;
  say("");
}

async function older(session, event) {
  const place = event.target.closest(".scroll");
  heldHeight = place.scrollHeight;
  await loadOlder(session);
}

export function afterSession() {
  const place = document.querySelector(".scroll");
  if (!place || !state.session) return;
  if (heldHeight && !state.session.isLoadingOlder) {
    place.scrollTop += place.scrollHeight - heldHeight; // what was on the screen stays there
    heldHeight = 0;
  } else if (state.session.follows) {
    place.scrollTop = place.scrollHeight;
  }
  const area = document.querySelector(".composer textarea");
  if (area && !state.session.draft) area.style.height = "auto";
}

function copy(text) {
  const done = () => say(t("Copied."));
  if (navigator.clipboard) {
    navigator.clipboard.writeText(text).then(done);
    return;
  }
  // Without a secure context there is no clipboard: the text is shown, selected.
  window.prompt(t("Copy it:"), text);
}

