// What became of messages on their way into a request: words, and a bar with a piece for each.

import { html, svg } from "../vendor/lit-html/lit-html.js";
import { number, t, tn } from "./texts.js";

export const DISPOSITIONS = {
  kept: t("shown"),
  shortened: t("shortened"),
  masked: t("masked"),
  cleared: t("cleared"),
  evicted: t("evicted"),
  summarised: t("summarised"),
  dropped: t("dropped"),
};

export const dispositionMark = (disposition) => html`<span class="mark disposition ${disposition.disposition}">${DISPOSITIONS[disposition.disposition] ?? disposition.disposition}</span>`;

export function dispositionsBar({ stretches, by_disposition: counts }) {
  const total = stretches.reduce((sum, each) => sum + each.messages, 0) || 1;
  let at = 0;
  const pieces = stretches.map((each) => {
    const width = (each.messages / total) * 1000;
    const about = `${tn("{count} message", "{count} messages", each.messages)}, ${DISPOSITIONS[each.disposition]}, ${number(each.tokens_before)} → ${number(each.tokens_after)}`;
    const piece = svg`<rect class=${each.disposition} x=${at.toFixed(2)} y="0" width=${Math.max(width - (total > 250 ? 0 : 1), 0.3).toFixed(2)} height="20"><title>#${each.seq}: ${about}</title></rect>`;
    at += width;
    return piece;
  });
  return html`
    <svg class="bar dispositions" viewBox="0 0 1000 20" preserveAspectRatio="none" role="img" aria-label=${t("What became of each message, oldest first")}>${pieces}</svg>
    <ul class="legend">${Object.entries(counts).map(
      ([name, count]) => html`<li><svg class="key" viewBox="0 0 10 10" aria-hidden="true"><rect class=${name} width="10" height="10" rx="2"></rect></svg>${DISPOSITIONS[name] ?? name} <b>${number(count)}</b></li>`,
    )}</ul>`;
}
