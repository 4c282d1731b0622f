// A search through what was said in all sessions; a hit leads to the event in its session.

import { html, nothing } from "../vendor/lit-html/lit-html.js";
import { repeat } from "../vendor/lit-html/directives/repeat.js";
import { get } from "../api.js";
import { plain } from "../parts/text.js";
import { t } from "../parts/texts.js";
import { when } from "../parts/time.js";
import { failed, needsLogin, onRefresh, say, state } from "../state.js";

const ROLES = { user: t("said"), assistant: t("answered"), call: t("called"), tool: t("result"), summary: t("summary") };
const search = { q: "", agent: "", typed: "", hits: [], next: "", searchedTo: "", isLoading: false, error: "" };
let asking = 0;
let isOpened = false; // and nobody has been put into the field yet

export function openSearch(q) {
  if (q !== search.q || search.error) {
    search.q = search.typed = q;
    begin();
  }
  isOpened = true;
  say("");
}

// Who comes here writes at once, as soon as there is something to write in.
export function afterSearch() {
  if (isOpened) document.querySelector("#query")?.focus();
  isOpened = false;
}

function begin() {
  asking += 1; // what was asked for is not wanted any more
  Object.assign(search, { hits: [], next: "", searchedTo: "", isLoading: false, error: "" });
  if (search.q) more();
}

async function more() {
  const mine = ++asking;
  search.isLoading = true;
  say("");
  const query = new URLSearchParams({ q: search.q, after: search.next });
  if (search.agent) query.set("agent", search.agent);
  try {
    const page = await get(`search?${query}`);
    if (mine !== asking) return;
    search.hits = [...search.hits, ...page.hits];
    search.next = page.next ?? "";
    search.searchedTo = page.searched_to ?? "";
    search.error = "";
  } catch (error) {
    if (mine !== asking) return;
    if (!needsLogin(error)) search.error = failed(error);
  }
  search.isLoading = false;
  say("");
}

onRefresh(() => search.error && more());

function submit(event) {
  event.preventDefault();
  const q = search.typed.trim();
  if (q === search.q) begin();
  else location.hash = q ? `#/search/${encodeURIComponent(q)}` : "#/search";
}

export function searchView() {
  const { hits, next, isLoading, error } = search;
  return html`
    <header class="top"><h1>${t("Search")}</h1></header>
    <form class="filters" role="search" @submit=${submit}>
      <input id="query" type="search" maxlength="200" aria-label=${t("Words of a message, a call or a result")} placeholder=${t("Words of a message, a call or a result")}
        .value=${search.typed} @input=${(e) => (search.typed = e.target.value)}>
      ${state.agents.length > 1 ? agentChoice() : nothing}
      <button class="main">${t("Search")}</button>
    </form>
    ${error ? html`<p class="error" role="alert">${plain(error)}</p>` : nothing}
    <div class="found" aria-busy=${isLoading}>${repeat(grouped(hits), (each) => `${each.session_id} ${each.hits[0].seq}`, sessionHits)}</div>
    ${isLoading ? html`<p class="faint">${t("Reading what was said…")}</p>` : nothing}
    ${!isLoading && search.q && !error ? html`<p class="faint" role="status">${reached()}</p>` : nothing}
    ${next && !isLoading ? html`<button class="more" @click=${more}>${t("Search further")}</button>` : nothing}
    ${!search.q ? html`<div class="empty"><h2>${t("Search all that was said")}</h2><p>${t("Messages, answers, calls of tools and what they gave, in all sessions and their archives. Any of the words, the best match first; what stands in \"quotes\" has to stand there so.")}</p></div>` : nothing}
  `;
}

function agentChoice() {
  const change = (event) => {
    search.agent = event.target.value;
    begin();
  };
  return html`<select aria-label=${t("Any agent")} @change=${change}>
    <option value="">${t("Any agent")}</option>
    ${state.agents.map(({ name }) => html`<option value=${name} ?selected=${name === search.agent}>${plain(name)}</option>`)}
  </select>`;
}

function reached() {
  const { hits, next, searchedTo } = search;
  if (next) return searchedTo ? html`${t("Searched back to")} ${when(searchedTo)}` : nothing;
  return hits.length ? t("That is all.") : t("Nobody said that.");
}

// Hits of a session that stand behind one another have one heading.
function grouped(hits) {
  const groups = [];
  for (const hit of hits) {
    const last = groups.at(-1);
    if (last?.session_id === hit.session_id) last.hits.push(hit);
    else groups.push({ ...hit, hits: [hit] });
  }
  return groups;
}

function sessionHits({ session_id: id, title, agent, channel, hits }) {
  const address = `#/s/${encodeURIComponent(id)}`;
  return html`<section class="group">
    <h2><a href=${address}>${plain(title || id)}</a> <span class="about">${plain(agent)}<span class="dot">·</span>${plain(channel)}</span></h2>
    <ul class="things">${hits.map((hit) => html`<li class="hit"><a href=${`${address}/at/${hit.seq}`}>
      <span class="about"><span class="mark">${ROLES[hit.role] ?? hit.role}</span> ${when(hit.at)}</span>
      <span class="snippet">${marked(hit.snippet)}</span></a></li>`)}</ul>
  </section>`;
}

function marked(snippet) {
  const words = [...search.q.matchAll(/"([^"]+)"|([^\s"]+)/gu)].map((found) => found[1] ?? found[2]);
  const pattern = words.map((word) => word.replace(/[\\^$.*+?()[\]{}|]/gu, "\\$&")).join("|");
  if (!pattern) return plain(snippet);
  const parts = snippet.split(new RegExp(`(${pattern})`, "giu"));
  return parts.map((part, index) => (index % 2 ? html`<mark>${plain(part)}</mark>` : plain(part)));
}
