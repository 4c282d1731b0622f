// What waits for a person, in all sessions.

import { html, nothing } from "../vendor/lit-html/lit-html.js";
import { repeat } from "../vendor/lit-html/directives/repeat.js";
import { live } from "../vendor/lit-html/directives/live.js";
import { asCommand, folded, linked, plain } from "../parts/text.js";
import { rich, t } from "../parts/texts.js";
import { ago, left } from "../parts/time.js";
import { decide, type, typedFor } from "../approvals.js";
import { state } from "../state.js";

const WORDS = { allow_once: t("allowed once"), allow_always: t("always allowed"), deny: t("denied"), answer: t("answered"), expired: t("nobody answered in time") };

export function approvalsView() {
  const { items, answered, isLoading, error } = state.approvals;
  return html`
    <header class="top"><h1>${t("Approvals")}</h1></header>
    ${error ? html`<p class="error" role="alert">${error}</p>` : nothing}
    ${repeat(items, (each) => `${each.session_id} ${each.call_id} ${each.arguments_hash}`, (each) => question(each, { hasSession: true }))}
    ${!isLoading && !items.length && !error
      ? html`<div class="empty"><h2>${t("Nothing waits for you")}</h2><p>${t("Calls that an agent may not make by itself stand here until somebody answers, also after a restart.")}</p></div>`
      : nothing}
    ${answered.length
      ? html`<h2>${t("Answered lately")}</h2><ul class="answered">${answered.map(
          (each) => html`<li><b class=${each.decision}>${WORDS[each.decision] ?? each.decision}</b> ${each.by ? t("by {name}", { name: plain(each.by) }) : nothing} <code>${plain(asCommand(each.name, each.arguments).split("\n")[0])}</code> <a href=${`#/s/${each.session_id}`}>${plain(each.title || each.chat)}</a> ${ago(each.at)}</li>`,
        )}</ul>`
      : nothing}
  `;
}

export function question(item, { hasSession }) {
  const { inquiry } = item;
  return html`<article class="question" tabindex="-1" aria-label=${inquiry ? t("A question of the agent") : t("{name} waits for a person", { name: plain(item.name) })}>
    ${hasSession
      ? html`<p class="from"><a href=${`#/s/${item.session_id}`}>${plain(item.title || item.chat)}</a><span class="dot">·</span>${plain(item.agent)}<span class="dot">·</span>${plain(item.channel)}</p>`
      : nothing}
    <p class="what">${inquiry ? html`<b>${t("A question of the agent")}</b>` : rich("{name} waits for a person", { name: html`<b>${plain(item.name)}</b>` })} <span class="faint">${left(item.expires_at)}</span></p>
    ${inquiry ? html`<div class="text">${linked(inquiry.text)}</div>` : folded(asCommand(item.name, item.arguments))}
    ${item.reason ? html`<p class="why">${plain(item.reason)}</p>` : nothing}
    ${item.files?.length ? html`<p class="faint">${t("Bound to {files}: if one changes, it is asked anew.", { files: item.files.map(plain).join(", ") })}</p>` : nothing}
    ${item.approvers?.length ? html`<p class="faint">${t("May answer: {names}, and whoever runs the gateway.", { names: item.approvers.map(plain).join(", ") })}</p>` : nothing}
    ${item.error ? html`<p class="error" role="alert">${item.error}</p>` : nothing}
    ${inquiry ? inquired(item) : permitted(item)}
  </article>`;
}

const permitted = (item) => html`<div class="answers">
      <button class="main" aria-disabled=${Boolean(item.isBusy)} @click=${() => decide(item, "allow_once")}>${t("Allow once")}</button>
      ${item.pattern ? html`<button aria-disabled=${Boolean(item.isBusy)} @click=${() => decide(item, "allow_always")}>${rich("Always allow {pattern}", { pattern: html`<code>${plain(item.pattern)}</code>` })}</button>` : nothing}
      <button class="deny" aria-disabled=${Boolean(item.isBusy)} @click=${() => decide(item, "deny")}>${t("Deny")}</button>
    </div>`;

// What the agent wants to know: one of its choices, or a text.
function inquired(item) {
  const { choices, takes_text: takesText, default: otherwise } = item.inquiry;
  const submit = (event) => {
    event.preventDefault();
    const text = typedFor(item).trim();
    if (text) decide(item, "answer", text);
  };
  return html`
    ${takesText ? html`<form class="line" @submit=${submit}>
      <input aria-label=${t("Your answer")} placeholder=${t("Your answer")} autocomplete="off" .value=${live(typedFor(item))} @input=${(e) => type(item, e.target.value)}>
      <button class=${choices.length ? "" : "main"} aria-disabled=${Boolean(item.isBusy)}>${t("Answer")}</button>
    </form>` : nothing}
    <div class="answers">
      ${choices.map((each) => html`<button aria-disabled=${Boolean(item.isBusy)} @click=${() => decide(item, "answer", each)}>${plain(each)}</button>`)}
      <button class="deny" aria-disabled=${Boolean(item.isBusy)} @click=${() => decide(item, "deny")}>${t("Do not answer")}</button>
    </div>
    ${otherwise ? html`<p class="faint">${t("Without an answer: {text}.", { text: plain(otherwise) })}</p>` : nothing}`;
}
