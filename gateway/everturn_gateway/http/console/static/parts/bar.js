// The window of the model, region by region.

import { html, nothing, svg } from "../vendor/lit-html/lit-html.js";
import { plain } from "./text.js";
import { number, rich, t } from "./texts.js";

const REGIONS = [
  ["system", t("System prompt")],
  ["tools", t("Tools")],
  ["summary", t("Summary")],
  ["history", t("History")],
  ["turn", t("This turn")],
  ["reserve", t("Kept for the reply")],
  ["margin", t("Margin of the estimate")],
  ["free", t("Free")],
];

export function contextBar(context) {
  const total = REGIONS.reduce((sum, [name]) => sum + context.regions[name], 0) || 1;
  let at = 0;
  const pieces = REGIONS.map(([name, label]) => {
    const width = (context.regions[name] / total) * 1000;
    const piece = svg`<rect class=${name} x=${at} y="0" width=${Math.max(width - 2, 0)} height="20"><title>${t("{label}: {count} tokens", { label, count: context.regions[name] })}</title></rect>`;
    at += width;
    return piece;
  });
  const { used_tokens: used, window_tokens: window, percent, level } = context;
  return html`
    <h2>${t("What the model sees")}</h2>
    <svg class="bar" viewBox="0 0 1000 20" preserveAspectRatio="none" role="img" aria-label=${t("{count} tokens of the window are used", { count: used })}>${pieces}</svg>
    <p class="sum ${level}">${window ? rich("{used} of {window} tokens, {percent} %", { used: html`<b>${number(used)}</b>`, window, percent }) : rich("{used} tokens", { used: html`<b>${number(used)}</b>` })}</p>
    <table>
      <tbody>
        ${REGIONS.filter(([name]) => context.regions[name]).map(
          ([name, label]) => html`<tr><th scope="row"><svg class="key" viewBox="0 0 10 10" aria-hidden="true"><rect class=${name} width="10" height="10" rx="2"></rect></svg>${label}</th><td>${number(context.regions[name])}</td></tr>`,
        )}
      </tbody>
    </table>
    <dl>
      <div><dt>${t("Messages shown")}</dt><dd>${number(context.shown_messages)}</dd></div>
      <div><dt>${t("Hidden")}</dt><dd>${number(context.hidden_messages)}</dd></div>
      <div><dt>${t("Model")}</dt><dd class="long">${plain(context.model)}</dd></div>
      <div><dt>${t("Policy")}</dt><dd>${plain(context.policy)}</dd></div>
    </dl>
    ${context.next.length ? html`<details><summary>${t("What happens next")}</summary><ul>${context.next.map((line) => html`<li>${plain(line)}</li>`)}</ul></details>` : nothing}
  `;
}
