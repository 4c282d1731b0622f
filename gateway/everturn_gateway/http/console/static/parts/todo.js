// The to-do list of long work: what the newest call of `todo` in the log wrote.

import { html, nothing } from "../vendor/lit-html/lit-html.js";
import { plain } from "./text.js";
import { t } from "./texts.js";

const STATUS = { pending: t("to be done"), in_progress: t("being done"), done: t("done") };

export function todoOf(events) {
  let items = null;
  let written = new Map(); // id of a call -> the list that it writes
  for (const event of events) {
    if (event.type === "model_replied") {
      written = new Map((event.calls ?? []).filter(({ name }) => name === "todo").map((call) => [call.call_id, listIn(call)]));
    } else if (event.type === "call_finished" && !event.is_error) {
      items = written.get(event.call_id) ?? items;
    } else if (event.type === "turn_started" && items?.every(({ status }) => status === "done")) {
      items = null; // what is done is of the turn that did it
    }
  }
  return items?.length ? items : null;
}

function listIn(call) {
  try {
    const { items } = JSON.parse(call.arguments);
    return Array.isArray(items) ? items.map(({ text, status = "pending" }) => ({ text: String(text), status })) : null;
  } catch {
    return null; // it was refused, or is no list
  }
}

export function todoList(items) {
  if (!items) return nothing;
  const done = items.filter(({ status }) => status === "done").length;
  const now = items.find(({ status }) => status === "in_progress") ?? items.find(({ status }) => status !== "done");
  return html`<details class="todo">
    <summary><span class="mark">${t("{done} of {count} done", { done, count: items.length })}</span>${now ? html`<span class="now">${plain(now.text)}</span>` : nothing}</summary>
    <ol>${items.map(({ text, status }) => html`<li class=${STATUS[status] ? status : nothing}>${plain(text)}<span class="hidden">, ${STATUS[status] ?? plain(status)}</span></li>`)}</ol>
  </details>`;
}
