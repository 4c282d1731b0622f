// What waits for a person, in all sessions.

import { html, nothing } from "../vendor/lit-html/lit-html.js";
import { repeat } from "../vendor/lit-html/directives/repeat.js";
import { asCommand, folded, plain } from "../parts/text.js";
import { ago, left } from "../parts/time.js";
import { decide, state } from "../state.js";

const WORDS = { allow_once: "allowed once", allow_always: "always allowed", deny: "denied" };

export function approvalsView() {
  const { items, answered, isLoading, error } = state.approvals;
  return html`
    <header class="top"><h1>Approvals</h1></header>
    ${error ? html`<p class="error" role="alert">${error}</p>` : nothing}
    ${repeat(items, (each) => `${each.session_id} ${each.call_id} ${each.arguments_hash}`, (each) => question(each, { hasSession: true }))}
    ${!isLoading && !items.length && !error
      ? html`<div class="empty"><h2>Nothing waits for you</h2><p>Calls that an agent may not make by itself stand here until somebody answers, also after a restart.</p></div>`
      : nothing}
    ${answered.length
      ? html`<h2>Answered here</h2><ul class="answered">${answered.map(
          (each) => html`<li><b class=${each.decision}>${WORDS[each.decision]}</b> <code>${plain(asCommand(each.name, each.arguments).split("\n")[0])}</code> <a href=${`#/s/${each.session_id}`}>${plain(each.title || each.chat)}</a> ${ago(each.at)}</li>`,
        )}</ul>`
      : nothing}
  `;
}

export function question(item, { hasSession }) {
  return html`<section class="question" tabindex="-1" aria-label=${`${plain(item.name)} waits for a person`}>
    ${hasSession
      ? html`<p class="from"><a href=${`#/s/${item.session_id}`}>${plain(item.title || item.chat)}</a><span class="dot">·</span>${plain(item.agent)}<span class="dot">·</span>${plain(item.channel)}</p>`
      : nothing}
    <p class="what"><b>${plain(item.name)}</b> waits for a person <span class="faint">${left(item.expires_at)}</span></p>
    ${folded(asCommand(item.name, item.arguments), "the call")}
    ${item.reason ? html`<p class="why">${plain(item.reason)}</p>` : nothing}
    ${item.files?.length ? html`<p class="faint">Bound to ${item.files.map(plain).join(", ")}: if one changes, it is asked anew.</p>` : nothing}
    ${item.approvers?.length ? html`<p class="faint">May answer: ${item.approvers.map(plain).join(", ")}, and whoever runs the gateway.</p>` : nothing}
    ${item.error ? html`<p class="error" role="alert">${item.error}</p>` : nothing}
    <div class="answers">
      <button class="main" ?disabled=${item.isBusy} @click=${() => decide(item, "allow_once")}>Allow once</button>
      ${item.pattern ? html`<button ?disabled=${item.isBusy} @click=${() => decide(item, "allow_always")}>Always allow <code>${plain(item.pattern)}</code></button>` : nothing}
      <button class="deny" ?disabled=${item.isBusy} @click=${() => decide(item, "deny")}>Deny</button>
    </div>
  </section>`;
}
