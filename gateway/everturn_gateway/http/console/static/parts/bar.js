// The window of the model, region by region.

import { html, nothing, svg } from "../vendor/lit-html/lit-html.js";

const REGIONS = [
  ["system", "System prompt"],
  ["tools", "Tools"],
  ["summary", "Summary"],
  ["history", "History"],
  ["turn", "This turn"],
  ["reserve", "Kept for the reply"],
  ["margin", "Margin of the estimate"],
  ["free", "Free"],
];

export function contextBar(context) {
  const total = REGIONS.reduce((sum, [name]) => sum + context.regions[name], 0) || 1;
  let at = 0;
  const pieces = REGIONS.map(([name, label]) => {
    const width = (context.regions[name] / total) * 1000;
    const piece = svg`<rect class=${name} x=${at} y="0" width=${Math.max(width - 2, 0)} height="20"><title>${label}: ${context.regions[name].toLocaleString()} tokens</title></rect>`;
    at += width;
    return piece;
  });
  const { used_tokens: used, window_tokens: window, percent, level } = context;
  return html`
    <h2>What the model sees</h2>
    <svg class="bar" viewBox="0 0 1000 20" preserveAspectRatio="none" role="img" aria-label=${`${used.toLocaleString()} tokens of the window are used`}>${pieces}</svg>
    <p class="sum ${level}"><b>${used.toLocaleString()}</b>${window ? html` of ${window.toLocaleString()} tokens, ${percent} %` : " tokens"}</p>
    <table>
      <tbody>
        ${REGIONS.filter(([name]) => context.regions[name]).map(
          ([name, label]) => html`<tr><th scope="row"><svg class="key" viewBox="0 0 10 10" aria-hidden="true"><rect class=${name} width="10" height="10" rx="2"></rect></svg>${label}</th><td>${context.regions[name].toLocaleString()}</td></tr>`,
        )}
      </tbody>
    </table>
    <dl>
      <div><dt>Messages shown</dt><dd>${context.shown_messages.toLocaleString()}</dd></div>
      <div><dt>Hidden</dt><dd>${context.hidden_messages.toLocaleString()}</dd></div>
      <div><dt>Model</dt><dd class="long">${context.model}</dd></div>
      <div><dt>Policy</dt><dd>${context.policy}</dd></div>
    </dl>
    ${context.next.length ? html`<details><summary>What happens next</summary><ul>${context.next.map((line) => html`<li>${line}</li>`)}</ul></details>` : nothing}
  `;
}
