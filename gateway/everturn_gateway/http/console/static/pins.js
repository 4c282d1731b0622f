// Messages of a session that the model is shown whatever is hidden.

import { html, nothing } from "./vendor/lit-html/lit-html.js";
import { call, get } from "./api.js";
import { plain } from "./parts/text.js";
import { t } from "./parts/texts.js";
import { failed, needsLogin, onFrame, onRefresh, say, state } from "./state.js";

const SHOWN_CHARACTERS = 200;
const KEEP = t("Keep it with the model, whatever is hidden later");

// Once for each session that is shown; from then on events tell of changes.
export function wantPins(session) {
  if (session.pins || session.isLoadingPins) return;
  loadPins(session);
}

let told = 0; // counts questions and changes: the answer to an older one is let go

async function loadPins(session) {
  const mine = ++told;
  session.isLoadingPins = true;
  try {
    const { pins } = await get(`sessions/${session.id}/pins`);
    if (mine === told) session.pins = pins;
  } catch (error) {
    session.pins ??= []; // what is wrong with the session, its transcript says
    needsLogin(error);
  }
  session.isLoadingPins = false;
  say("");
}

async function change(session, method, seq, done) {
  const mine = ++told;
  try {
    const { pins } = await call(method, `api/v1/sessions/${session.id}/pins/${seq}`);
    if (mine === told) session.pins = pins;
    else loadPins(session);
    say(done);
  } catch (error) {
    if (!needsLogin(error)) say(failed(error));
    loadPins(session);
  }
}

const pin = (session, seq) => change(session, "PUT", seq, t("Pinned."));
const unpin = (session, seq) => change(session, "DELETE", seq, t("No longer pinned."));
const canChange = (session) => session.pins && session.document && session.document.status !== "ended";

export const isPinned = (session, seq) => Boolean(session.pins?.some((each) => each.seq === seq));

export function pinButton(session, seq) {
  if (!canChange(session)) return nothing;
  const isOn = isPinned(session, seq);
  return html`<button class="plain quiet" title=${KEEP} aria-pressed=${isOn} @click=${() => (isOn ? unpin : pin)(session, seq)}>${isOn ? t("Unpin") : t("Pin")}</button>`;
}

export function pinList(session) {
  if (!session.pins?.length) return nothing;
  return html`<h2>${t("Pinned messages")}</h2>
    <ul class="pins">${session.pins.map(({ seq, who, text }) => {
      const isLong = text.length > SHOWN_CHARACTERS;
      const words = plain(isLong ? `${text.slice(0, SHOWN_CHARACTERS)}…` : text);
      return html`<li>
        <a href=${`#/s/${session.id}/at/${seq}`}>#${seq}</a> <span class="faint">${plain(who)}</span>
        <p>${words}</p>
        ${canChange(session) ? html`<button class="plain" aria-label=${t("Unpin #{seq}", { seq: String(seq) })} @click=${() => unpin(session, seq)}>${t("Unpin")}</button>` : nothing}
      </li>`;
    })}</ul>`;
}

onFrame("event", ({ session_id: id, type }) => {
  const { session } = state;
  if (session?.id === id && session.pins && ["pinned", "unpinned"].includes(type)) loadPins(session);
});
onRefresh(() => {
  if (state.session?.pins) loadPins(state.session);
});
