// All sessions, the one in which something happened last first.

import { html, nothing } from "../vendor/lit-html/lit-html.js";
import { repeat } from "../vendor/lit-html/directives/repeat.js";
import { begin } from "../acts.js";
import { closes, labelActions } from "../parts/labels.js";
import { load } from "../parts/lazy.js";
import { dollars, plain } from "../parts/text.js";
import { t, tn } from "../parts/texts.js";
import { ago } from "../parts/time.js";
import { loadList, showNewer, useList } from "../list.js";
import { state } from "../state.js";

const WANTS = [
  ["", t("All")],
  ["approval", t("Wants me")],
  ["running", t("Running")],
  ["failed", t("Failed")],
];
let searching = 0;

function filterBy(name, value) {
  state.list.filter[name] = value;
  clearTimeout(searching);
  searching = setTimeout(loadList, name === "q" ? 200 : 0);
}

export function sessionsView() {
  const { list, agents } = state;
  const shown = list.order.map((id) => list.rows.get(id)).filter(Boolean);
  const channels = [...new Set([...shown.map((row) => row.channel), list.filter.channel])].filter(Boolean).sort();
  return html`
    <header class="top">
      <h1>${t("Sessions")}</h1>
      <div class="grow"></div>
      ${newSession(agents)}
    </header>
    <div class="filters">
      <input id="search" type="search" placeholder=${t("Search titles and last words")} aria-label=${t("Search titles and last words")}
        .value=${list.filter.q} @input=${(e) => filterBy("q", e.target.value)}>
      <div class="chips" role="group" aria-label=${t("Show")}>
        ${WANTS.map(
          ([value, label]) => html`<button class="chip" aria-pressed=${list.filter.wants === value}
            @click=${() => filterBy("wants", value)}>${label}</button>`,
        )}
        <button class="chip" aria-pressed=${Boolean(list.filter.archived)}
          @click=${() => filterBy("archived", list.filter.archived ? "" : "true")}>${t("Archived")}</button>
      </div>
      ${agents.length > 1 ? choice("agent", t("Any agent"), agents.map((each) => each.name)) : nothing}
      ${channels.length > 1 || list.filter.channel ? choice("channel", t("Any channel"), channels) : nothing}
    </div>
    ${list.filter.q ? html`<p class="about"><a href=${`#/search/${encodeURIComponent(list.filter.q)}`}>${t("Search all that was said")}</a></p>` : nothing}
    ${list.error ? html`<p class="error" role="alert">${list.error}</p>` : nothing}
    <div class="newer">${list.newer.size ? html`<button class="chip" @click=${showNewer}>${t("{count} newer", { count: list.newer.size })}</button>` : nothing}</div>
    <ul class="rows" aria-label=${t("Sessions")} aria-busy=${list.isLoading}
      @pointerenter=${() => load("views/session") && useList(true)} @pointerleave=${() => useList(false)}
      @focusin=${() => useList(true)} @focusout=${(e) => e.currentTarget.contains(e.relatedTarget) || useList(false)}>
      ${repeat(shown, (row) => row.id, sessionRow)}
    </ul>
    ${list.isLoading && !shown.length ? html`<div class="rows ghosts" aria-hidden="true">${[1, 2, 3, 4, 5].map(() => html`<div class="ghost"></div>`)}</div>` : nothing}
    ${!list.isLoading && !shown.length && !list.error ? empty() : nothing}
    ${list.next ? html`<button class="more" ?disabled=${list.isLoading} @click=${() => loadList({ more: true })}>${shown.length ? t("Show more") : t("Search further")}</button>` : nothing}
  `;
}

function newSession(agents) {
  if (!agents.length) return nothing;
  if (agents.length === 1) {
    return html`<button class="main" @click=${() => begin(agents[0].name)}>${t("New session")}</button>`;
  }
  return html`<select class="main" aria-label=${t("New session with an agent")} @change=${(e) => {
    const name = e.target.value;
    e.target.value = "";
    if (name) begin(name);
  }}>
    <option value="">${t("New session")}</option>
    ${agents.map((each) => html`<option value=${each.name}>${t("with {agent}", { agent: plain(each.name) })}</option>`)}
  </select>`;
}

function choice(name, any, values) {
  const chosen = state.list.filter[name];
  return html`<select aria-label=${any} @change=${(e) => filterBy(name, e.target.value)}>
    <option value="">${any}</option>
    ${values.map((each) => html`<option value=${each} ?selected=${each === chosen}>${plain(each)}</option>`)}
  </select>`;
}

function sessionRow(row) {
  return html`<li class="row ${row.status}">
    <a href=${`#/s/${encodeURIComponent(row.id)}`}>
      <span class="title">${row.title ? plain(row.title) : html`<span class="faint">${t("nothing said yet")}</span>`}</span>
      <span class="marks">${marks(row)}</span>
      <span class="at">${ago(row.updated_at)}</span>
      <span class="preview">${plain(row.preview)}</span>
      <span class="about">${plain(row.agent)}<span class="dot">·</span>${plain(row.channel)}${row.principal ? html`<span class="dot">·</span>${plain(row.principal)}` : nothing}<span class="dot">·</span>${tn("{count} turn", "{count} turns", row.turns)}${row.cost_usd ? html`<span class="dot">·</span>${dollars(row.cost_usd)}` : nothing}</span>
    </a>
    <details class="menu" @focusout=${closes} @click=${closes}>
      <summary aria-label=${t("Sort {name}", { name: plain(row.title || row.id) })}><svg viewBox="0 0 24 24" aria-hidden="true"><path d="M12 6h.01M12 12h.01M12 18h.01"></path></svg></summary>
      <div class="sheet">${labelActions(row)}</div>
    </details>
  </li>`;
}

function marks(row) {
  return [
    row.pinned ? html`<span class="mark">${t("pinned")}</span>` : nothing,
    row.approvals ? html`<span class="mark asks">${t("{count} to approve", { count: row.approvals })}</span>` : nothing,
    row.running && !row.approvals ? html`<span class="mark runs">${t("running")}</span>` : nothing,
    row.failed ? html`<span class="mark failed">${t("failed")}</span>` : nothing,
    row.status === "paused" ? html`<span class="mark">${t("paused")}</span>` : nothing,
    row.status === "ended" ? html`<span class="mark">${t("ended")}</span>` : nothing,
  ];
}

function empty() {
  const { wants, agent, channel, archived, q } = state.list.filter;
  if (wants || agent || channel || archived || q) {
    return html`<div class="empty"><h2>${t("Nothing here")}</h2><p>${t("No session is like that.")} ${wants === "approval" ? t("Nobody waits for you.") : nothing}</p></div>`;
  }
  if (!state.areAgentsKnown) return nothing;
  return html`<div class="empty">
    <h2>${t("No conversation yet")}</h2>
    <p>${state.agents.length ? t("Begin one here, in a chat, or with") : t("Make an agent first:")}</p>
    <pre class="mono">${state.agents.length ? "everturn chat" : "everturn agent create my-agent"}</pre>
    <p class="faint">${t("Whatever is said in Telegram, Discord, a terminal or over HTTP appears here as it comes.")}</p>
  </div>`;
}
