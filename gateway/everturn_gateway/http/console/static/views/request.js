// One request that was sent: made again from the log, with what became of each message, and why.

import { html, nothing } from "../vendor/lit-html/lit-html.js";
import { fork, FORK } from "../fork.js";
import { dispositionMark, dispositionsBar } from "../parts/dispositions.js";
import { slider } from "../parts/slider.js";
import { copyText, folded, plain, safeJson } from "../parts/text.js";
import { number, rich, t, tn } from "../parts/texts.js";
import { compareWith, indexOf, nameOf, past, showRequest, showWhole } from "../past.js";
import { say, state } from "../state.js";

export { openPast } from "../past.js";

const ROWS = 200;
const MESSAGES = 40;
const ROLES = { user: t("person"), assistant: t("agent"), tool: t("tool"), system: t("note") };
const VERDICTS = { same: ["done", t("the same as was sent")], differs: ["asks", t("not what was sent")], unknown: ["", t("not known what was sent")] };

export function requestView() {
  const { id, dispositions } = past;
  return html`
    ${pastHeader(t("What the model saw"), html`<a class="button" href=${`#/s/${id}/then/${nameNow()}`}>${t("In the conversation")}</a>${dispositions ? html`<button title=${FORK} @click=${() => fork(id, dispositions.replied_seq ? dispositions.replied_seq - 1 : dispositions.started_seq)}>${t("Fork here")}</button>` : nothing}`)}
    ${slider()}
    ${past.error ? html`<p class="error" role="alert">${past.error}</p>` : nothing}
    ${!past.rows.length && !past.isListing && !past.error ? html`<div class="empty"><h2>${t("No request yet")}</h2><p>${t("What the model is sent for the first message stands here, made again from the log.")}</p></div>` : nothing}
    ${dispositions ? html`<div class=${past.isLoading ? "waits" : ""} aria-busy=${past.isLoading}>${verdict(dispositions)}${comparison(dispositions)}${table(dispositions)}${request()}</div>` : nothing}
  `;
}

const nameNow = () => (past.rows.length ? nameOf(past.rows[Math.max(indexOf(), 0)]) : 0);

// Shared with the view of the conversation at a request; what is done there stands at the right.
export function pastHeader(title, acts) {
  const { id } = past;
  const name = state.list.rows.get(id)?.title;
  return html`<header class="top">
    <a class="back" href=${`#/s/${id}`} aria-label=${t("Back to the session")}><svg viewBox="0 0 24 24" aria-hidden="true"><path d="M15 5l-7 7 7 7"></path></svg></a>
    <div class="heading"><h1>${title}</h1><p class="about"><a href=${`#/s/${id}`}>${plain(name || `…${id.slice(-8)}`)}</a></p></div>
    <div class="acts">${acts}</div>
  </header>`;
}

function verdict(dispositions) {
  const [tone, word] = VERDICTS[dispositions.verdict];
  return html`<section class="verdict">
    <p><span class="mark ${tone}">${dispositions.verdict === "same" ? "✓ " : ""}${word}</span> ${rich("hash {hash}", { hash: html`<code>${dispositions.prefix}</code>` })}${dispositions.verdict === "differs" ? html` ${rich("sent {hash}", { hash: html`<code>${dispositions.sent_prefix}</code>` })}` : nothing}
      <span class="faint">${t("policy {policy}, about {count} tokens", { policy: plain(dispositions.policy), count: dispositions.estimated_tokens })}</span></p>
    ${dispositions.verdict === "same" ? nothing : html`<p class="faint">${plain(dispositions.why)}</p>`}
    ${dispositionsBar(dispositions)}
  </section>`;
}

function comparison(dispositions) {
  const submit = (event) => {
    event.preventDefault();
    compareWith(Number(new FormData(event.target).get("than")) || 0);
  };
  return html`<form class="filters compare" @submit=${submit}>
    <button type="button" class="chip" aria-pressed=${!past.isWhole} @click=${() => showWhole(!past.isWhole)}>${past.than ? t("only what differs") : t("only what differs from the request before")}</button>
    <label>${t("compare with event")} <input name="than" type="number" min="1" inputmode="numeric" placeholder="#" .value=${past.than ? String(past.than) : ""}></label>
    <button>${t("Compare")}</button>
    ${past.than ? html`<button type="button" class="plain" @click=${() => compareWith(0)}>${t("With the one before")}</button>` : nothing}
    ${dispositions.than ? html`<span class="faint">${t("beside the request of #{seq}", { seq: String(dispositions.than) })}</span>` : nothing}
  </form>`;
}

function table(dispositions) {
  const { messages } = dispositions;
  if (!messages.length) return html`<p class="faint nothing">${t("Both have the same messages, shown in the same way.")}</p>`;
  const many = Math.max(ROWS, past.shownRows);
  const shown = messages.slice(-many);
  const isCompared = Boolean(dispositions.than);
  const showMore = () => {
    past.shownRows = many + ROWS * 5;
    say("");
  };
  return html`
    ${shown.length < messages.length ? html`<button class="more" @click=${showMore}>${tn("{count} older message", "{count} older messages", messages.length - shown.length)}</button>` : nothing}
    <div class="wide" tabindex="0" role="region" aria-label=${t("Messages")}><table class="dispositions">
      <thead><tr><th scope="col">#</th><th scope="col">${t("who")}</th>${isCompared ? html`<th scope="col">${t("before")}</th>` : nothing}<th scope="col">${t("now")}</th><th scope="col">${t("by")}</th><th scope="col" class="count">${t("tokens")}</th><th scope="col">${t("text")}</th></tr></thead>
      <tbody>${shown.map(
        (each) => html`<tr>
          <td><a href=${place(each.seq)}>${each.seq}</a></td>
          <td>${ROLES[each.role] ?? each.role}</td>
          ${isCompared ? html`<td>${dispositionOf(each.was)}</td>` : nothing}
          <td>${dispositionOf(each.now)}</td>
          <td>${each.now?.stage ? html`${plain(each.now.stage)}${each.now.by_seq ? html` <a href=${place(each.now.by_seq)}>#${each.now.by_seq}</a>` : nothing}` : nothing}</td>
          <td class="count">${tokens(each)}</td>
          <td class="begins">${plain(each.begins)}</td>
        </tr>`,
      )}</tbody>
    </table></div>`;
}

const place = (seq) => `#/s/${past.id}/at/${seq}`;
const dispositionOf = (disposition) => (disposition ? dispositionMark(disposition) : html`<span class="faint">${t("not said yet")}</span>`);

function tokens({ tokens: kept, now }) {
  if (!now || now.tokens === kept) return number(kept);
  return html`<s>${number(kept)}</s> ${number(now.tokens)}`;
}

// --- the request itself ---

function request() {
  const { request: found } = past;
  return html`<details class="request" ?open=${past.isRequestShown} @toggle=${(e) => showRequest(e.target.open)}>
    <summary>${t("The request itself")}</summary>
    ${found ? body(found) : html`<p class="faint">${t("It is being made again.")}</p>`}
  </details>`;
}

function body(found) {
  const all = found.messages.length;
  const many = Math.max(MESSAGES, past.shownMessages ?? 0);
  const shown = found.messages.slice(-many);
  const copy = () => copyText(asCurl(found), () => say(t("Copied.")));
  const showMore = () => {
    past.shownMessages = many + MESSAGES * 5;
    say("");
  };
  return html`
    <p><button @click=${copy}>${t("Copy as curl")}</button> <span class="faint">${t("For a model that speaks OpenAI's API; put your key in.")}</span></p>
    ${message({ role: "system", content: found.system })}
    ${found.tools.length ? html`<details class="call"><summary><code>${tn("{count} tool", "{count} tools", found.tools.length)}</code></summary>${found.tools.map((each) => html`<h3>${plain(each.name)}</h3><p class="faint">${plain(each.description)}</p>${folded(JSON.stringify(each.parameters, null, 2))}`)}</details>` : nothing}
    ${shown.length < all ? html`<button class="more" @click=${showMore}>${tn("{count} older message", "{count} older messages", all - shown.length)}</button>` : nothing}
    ${shown.map(message)}`;
}

function message({ seq, role, content, name, sender, opaque, tool_calls: calls = [] }) {
  return html`<article class="sent ${role}">
    <header>${seq ? html`<a href=${place(seq)}>#${seq}</a> ` : nothing}<b>${role}</b> ${plain(name || sender || "")}</header>
    ${content ? folded(content) : nothing}
    ${opaque ? folded(opaque) : nothing}
    ${calls.map((each) => html`<pre class="mono">${plain(`${each.name} ${each.arguments}`)}</pre>`)}
  </article>`;
}

// As OpenAI's chat completions take it. The key is the caller's: a page has none.
function asCurl(found) {
  const messages = found.messages.map(({ role, content, tool_calls: calls, tool_call_id: id }) => ({
    role,
    content,
    ...(calls.length ? { tool_calls: calls.map((call) => ({ id: call.id, type: "function", function: { name: call.name, arguments: call.arguments } })) } : {}),
    ...(id ? { tool_call_id: id } : {}),
  }));
  const whole = {
    model: found.model,
    messages: found.system ? [{ role: "system", content: found.system }, ...messages] : messages,
    ...(found.tools.length ? { tools: found.tools.map((each) => ({ type: "function", function: each })) } : {}),
    ...(found.max_output_tokens ? { max_completion_tokens: found.max_output_tokens } : {}),
    ...(found.temperature === null ? {} : { temperature: found.temperature }),
  };
  // No line of JSON is the word that ends the text.
  return `curl "\${BASE_URL:-https://api.openai.com/v1}/chat/completions" \\\n  -H "Authorization: Bearer $API_KEY" -H "Content-Type: application/json" --data-binary @- <<'JSON'\n${safeJson(whole)}\nJSON\n`;
}
