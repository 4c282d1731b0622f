// What is known of a delivery, part by part: planned, being sent, sent, not known whether, failed.

import { html, nothing } from "../vendor/lit-html/lit-html.js";
import { plain } from "./text.js";
import { t } from "./texts.js";

const WORDS = { planned: t("planned"), sending: t("sending"), sent: t("sent"), unsent: t("not sent"), unknown: t("not known whether sent"), failed: t("failed"), given_up: t("given up"), closed: t("closed") };
const TONES = { sent: "done", closed: "done", unknown: "asks", failed: "failed", given_up: "failed", sending: "runs" };
// Of several parts the one that a person should know of stands for all.
const WORST = ["failed", "given_up", "unknown", "unsent", "sending", "planned", "sent", "closed"];

// By the event that owes it: the newest mark of each part.
export function deliveriesOf(events) {
  const found = new Map();
  for (const { type, item, chunks, chunk, mark, error } of events) {
    if (type === "delivery_planned") {
      found.set(item, chunks.map(() => ({ mark: "planned" })));
    } else if (type === "chunk_marked") {
      const parts = found.get(item) ?? [];
      for (let each = parts.length; each <= chunk; each += 1) parts.push({ mark: "planned" });
      parts[chunk] = { mark, error };
      found.set(item, parts);
    }
  }
  return found;
}

export function delivery(parts, channel = "") {
  if (!parts?.length) return nothing;
  const worst = WORST.find((mark) => parts.some((each) => each.mark === mark)) ?? parts[0].mark;
  const all = parts.every((each) => each.mark === parts[0].mark);
  const where = channel ? `${plain(channel)}: ` : "";
  const word = WORDS[worst] ?? worst;
  if (parts.length === 1 && !parts[0].error) {
    return html`<span class="mark ${TONES[worst] ?? ""}">${where}${word}</span>`;
  }
  const title = all ? t("{mark}, {parts} parts", { mark: word, parts: parts.length }) : t("{mark}: {count} of {parts} parts", { mark: word, count: parts.filter((each) => each.mark === worst).length, parts: parts.length });
  return html`<details class="delivery"><summary><span class="mark ${TONES[worst] ?? ""}">${where}${parts.length === 1 ? word : title}</span></summary>
    <ol>${parts.map((each) => html`<li class=${TONES[each.mark] ?? ""}>${WORDS[each.mark] ?? each.mark}${each.error ? html` <span class="faint">${plain(each.error)}</span>` : nothing}</li>`)}</ol>
  </details>`;
}
