// One conversation: live transcript, composer, what waits for a person, and the window.

import { html, nothing } from "../vendor/lit-html/lit-html.js";
import { live } from "../vendor/lit-html/directives/live.js";
import { act, remove } from "../acts.js";
import { newKey } from "../api.js";
import { contextBar } from "../parts/bar.js";
import { closes, exportLinks, labelActions } from "../parts/labels.js";
import { maybe, once } from "../parts/lazy.js";
import { copyText, dollars, plain } from "../parts/text.js";
import { number, t } from "../parts/texts.js";
import { newestTurn } from "../parts/timing.js";
import { todoList, todoOf } from "../parts/todo.js";
import { raw, transcript } from "../parts/transcript.js";
import { keepDraft, setFiles } from "../drafts.js";
import { send } from "../send.js";
import { failed, loadNewer, loadOlder, openSession, say, state } from "../state.js";

const pinList = maybe("pins", "pinList");
const wantPins = once("pins", "wantPins");
const NEAR_END_PX = 80;
const SCREENFUL = 30; // entries that are drawn first; the others, of which nobody sees any yet, come behind
const FILE_MOST_BYTES = 20 * 1024 * 1024;

export function sessionView() {
  const { session } = state;
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
        ${todoList(todoOf(events))}
        <div class="scroll" tabindex="0" role="region" aria-label=${t("Transcript")} @scroll=${(e) => scrolled(session, e.target)}>
          <div class="transcript">
            ${[...new Set(session.errors.values())].map((error) => html`<p class="error" role="alert">${error}</p>`)}
            ${session.first > 1 ? html`<button class="more" ?disabled=${session.isLoadingOlder} @click=${(e) => moved(e, () => loadOlder(session))}>${t("Show older")}</button>` : nothing}
            ${session.isLoading ? html`<div class="ghosts" aria-hidden="true"><div class="ghost"></div><div class="ghost short"></div><div class="ghost"></div></div>` : nothing}
            ${session.isRaw ? raw(events) : transcript(session, { restarts: state.hello?.starts ?? [], shownSince: state.restartedAt, node: state.hello?.node, most: isBegun(session) ? SCREENFUL : Infinity })}
            ${session.isAtEnd ? nothing : html`<button class="more" ?disabled=${session.isLoadingNewer} @click=${(e) => moved(e, () => loadNewer(session))}>${t("Show newer")}</button>`}
            ${!session.isLoading && !events.some((each) => each.type !== "session_started") && !session.errors.size ? html`<div class="empty"><h2>${t("Nothing said yet")}</h2><p>${t("Write the first message below.")}</p></div>` : nothing}
          </div>
        </div>
        ${session.follows && session.isAtEnd ? nothing : html`<button class="chip follow" @click=${() => follow(session)}>${t("Back to the newest")}</button>`}
        ${isEnded ? html`<p class="ended">${t("This session has ended. The conversation goes on in a new one.")}</p>` : composer(session)}
      </section>
      <aside id="window" class=${session.isWindowShown ? "shown" : ""} aria-label=${t("What the model sees")}>
        ${session.context ? contextBar(session.context) : html`<h2>${t("What the model sees")}</h2><p class="faint">${t("Not known for this session.")}</p>`}
        ${newestTurn(session.events)}
        ${pinList(session) ?? nothing}
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
  return html`${plain(it.agent)}<span class="dot">·</span>${plain(it.channel)}${it.principal ? html`<span class="dot">·</span>${plain(it.principal)}` : nothing}<span class="dot">·</span><button class="plain id" title=${t("Copy the id")} @click=${() => copyText(session.id, () => say(t("Copied.")))}>…${session.id.slice(-8)}</button>${it.status !== "active" ? html`<span class="mark">${STATUS_OF_SESSION[it.status] ?? it.status}</span>` : nothing}${it.pinned ? html`<span class="mark">${t("pinned")}</span>` : nothing}${it.archived ? html`<span class="mark">${t("archived")}</span>` : nothing}`;
}

function actions(session, document, title) {
  if (!document) return nothing;
  const isEnded = document.status === "ended";
  return html`
    ${document.status === "paused" && document.open_turn ? html`<button class="main" @click=${() => act(session, "resume", t("The turn goes on."))}>${t("Resume")}</button>` : nothing}
    ${document.open_turn ? html`<button class="deny" @click=${() => act(session, "cancel", t("The turn is cancelled."))}>${t("Cancel turn")}</button>` : nothing}
    <button class="sees" aria-label=${t("What the model sees")} aria-controls="window" aria-expanded=${Boolean(session.isWindowShown)} @click=${() => showWindow(session, !session.isWindowShown)}><svg viewBox="0 0 24 24" aria-hidden="true"><path d="M4 6h16M4 12h10M4 18h5"></path></svg></button>
    <details class="menu" @focusout=${closes} @click=${closes}>
      <summary aria-label=${t("More")}><svg viewBox="0 0 24 24" aria-hidden="true"><path d="M12 6h.01M12 12h.01M12 18h.01"></path></svg></summary>
      <div class="sheet">
        ${labelActions({ ...document, title })}
        ${exportLinks(session.id)}
        ${isEnded ? nothing : html`<button class="plain" @click=${() => act(session, "compact", t("Older turns are being summarised."))}>${t("Summarise older turns")}</button>`}
        <a class="button plain" href=${`#/s/${session.id}/request/0`}>${t("What the model saw")}</a>
        <button class="plain" @click=${() => toggleRaw(session)}>${session.isRaw ? t("Show the transcript") : t("Show raw events")}</button>
        ${isEnded ? nothing : html`<button class="plain" @click=${() => sure(t("End this session? Its conversation starts a new one with the next message.")) && act(session, "reset", t("The session has ended."))}>${t("End session")}</button>`}
        <button class="plain deny" @click=${() => sure(t("Delete this session, and all that belongs to it?")) && remove(session)}>${t("Delete")}</button>
      </div>
    </details>`;
}

const sure = (text) => window.confirm(text);

function showWindow(session, isShown) {
  session.isWindowShown = isShown;
  say("");
}

function toggleRaw(session) {
  session.isRaw = !session.isRaw;
  say("");
}

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
  setFiles(session, session.files.filter((_, at) => at !== index));
  say("");
}

async function attach(session, input) {
  const files = [...input.files];
  session.sendError = "";
  for (const file of files) {
    if (file.size > FILE_MOST_BYTES) {
      session.sendError = t("{name} is larger than {size} MB.", { name: plain(file.name), size: FILE_MOST_BYTES / 1024 / 1024 });
      continue;
    }
    let bytes;
    try {
      bytes = new Uint8Array(await file.arrayBuffer());
    } catch (error) {
      session.sendError = failed(error); // a folder, or it was taken away meanwhile
      continue;
    }
    let text = "";
    for (let at = 0; at < bytes.length; at += 8192) {
      text += String.fromCharCode(...bytes.subarray(at, at + 8192));
    }
    // Whoever looked elsewhere while it was read, and is back, has it too.
    const shown = state.session?.id === session.id ? state.session : session;
    setFiles(shown, [...shown.files, { name: file.name, type: file.type, data: btoa(text) }]);
  }
  input.value = "";
  say("");
}

// --- where it is scrolled to ---

const isBegun = (session) => !session.isWhole && session.follows && session.isAtEnd;
let held = null; // what stands at the top of the screen, and where, while others come or go

function scrolled(session, place) {
  const isNear = place.scrollHeight - place.scrollTop - place.clientHeight < NEAR_END_PX && session.isAtEnd;
  if (isNear === session.follows) return;
  session.follows = isNear;
  say("");
}

function follow(session) {
  session.follows = true;
  if (!session.isAtEnd) openSession(session.id);
  say("");
}

const topOf = (place, element) => element.getBoundingClientRect().top - place.getBoundingClientRect().top;

async function moved(event, load) {
  const place = event.target.closest(".scroll");
  const first = [...place.querySelectorAll("[data-seq]")].find((each) => topOf(place, each) + each.offsetHeight > 0);
  await load();
  held = first && { key: first.dataset.seq, top: topOf(place, first) };
}

export function afterSession() {
  const place = document.querySelector(".scroll");
  const { session } = state;
  if (!place || !session) return;
  if (!session.isLoading && !session.isWhole) {
    session.isWhole = true;
    wantPins(session);
    setTimeout(() => say(""));
  }
  const find = (key) => place.querySelector(`[data-seq="${CSS.escape(String(key))}"]`);
  if (held) {
    const kept = find(held.key);
    if (kept) place.scrollTop += topOf(place, kept) - held.top; // what was on the screen stays there
    held = null;
  } else if (session.target && !session.isLoading) {
    const seqs = [...place.querySelectorAll("[data-seq]")];
    const wanted = find(session.target) ?? seqs.find((each) => Number(each.dataset.seq) >= session.target) ?? seqs.at(-1);
    session.target = 0;
    wanted?.classList.add("target");
    wanted?.scrollIntoView({ block: "center" });
  } else if (session.follows && session.isAtEnd) {
    place.scrollTop = place.scrollHeight;
  }
  const area = document.querySelector(".composer textarea");
  if (area && !session.draft) area.style.height = "auto";
  else if (area && !area.style.height) grow(area); // written before the page was loaded
}
