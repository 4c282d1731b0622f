// All requests of a session in a row: what each cost, where something was hidden, and one of them.

import { html, nothing, svg } from "../vendor/lit-html/lit-html.js";
import { live } from "../vendor/lit-html/directives/live.js";
import { indexOf, past, pick } from "../past.js";
import { dollars, plain } from "./text.js";
import { t, tn } from "./texts.js";
import { spanIn, when } from "./time.js";

const WIDTH = 1000;
const HEIGHT = 40;
const COLUMNS = 500;
let drawn = { rows: null, picture: null };

export function slider() {
  const { rows } = past;
  const index = indexOf();
  if (!rows.length) return nothing;
  const row = rows[Math.max(index, 0)];
  const last = rows.length - 1;
  const step = (by) => pick(rows[Math.min(Math.max(index + by, 0), last)]);
  const x = last ? (index / last) * (WIDTH - 4) : 0;
  return html`<section class="slider" aria-label=${t("Requests")}>
    <svg viewBox="0 0 ${WIDTH} ${HEIGHT}" preserveAspectRatio="none" aria-hidden="true">${picture(rows)}<rect class="here" x=${x} y="0" width="4" height=${HEIGHT}></rect></svg>
    <div class="line">
      <button aria-label=${t("The request before")} ?disabled=${index <= 0} @click=${() => step(-1)}>‹</button>
      <input type="range" min="0" max=${last} .value=${live(String(index))} aria-label=${t("Request")} aria-valuetext=${plain(title(row, index, rows.length))} @input=${(e) => pick(rows[Number(e.target.value)], { isMoving: true })}>
      <button aria-label=${t("The request after")} ?disabled=${index >= last} @click=${() => step(1)}>›</button>
    </div>
    <p class="figures"><b>${title(row, index, rows.length)}</b> ${when(row.at)} ${figures(row)}${past.isListing ? html` <span class="faint">${t("older ones are coming")}</span>` : nothing}</p>
  </section>`;
}

const title = (row, index, total) => t("Request {index} of {total}: turn {turn}, step {step}", { index: index + 1, total, turn: row.turn, step: row.step });

function figures(row) {
  const { input_tokens: count, cached_tokens: cached, output_tokens: out } = row.reported;
  const parts = [plain(row.fallback || row.model)];
  if (count) parts.push(cached ? t("{count} in ({cached} cached)", { count, cached }) : t("{count} in", { count }));
  else if (row.estimated_tokens) parts.push(t("about {count} in", { count: row.estimated_tokens }));
  if (out) parts.push(t("{count} out", { count: out }));
  if (row.seconds !== null) parts.push(spanIn(row.seconds));
  if (row.cost_usd) parts.push(dollars(row.cost_usd));
  if (row.tries > 1) parts.push(tn("asked {count} time", "asked {count} times", row.tries));
  if (row.is_cache_miss) parts.push(t("not from the cache"));
  if (!row.replied_seq) parts.push(t("no answer"));
  return html`<span class="faint">${parts.filter(Boolean).join(", ")}</span>${row.reductions ? html` <span class="mark asks">${t("hidden before it")}</span>` : nothing}`;
}

// Tokens of each request as columns, of many requests the largest of neighbours; it is drawn once.
function picture(rows) {
  if (drawn.rows === rows) return drawn.picture;
  const size = Math.ceil(rows.length / COLUMNS);
  const tokens = (row) => row.reported.input_tokens || row.estimated_tokens;
  const most = Math.max(...rows.map(tokens), 1);
  const wide = WIDTH / Math.ceil(rows.length / size);
  let columns = "";
  let marks = "";
  for (let start = 0; start < rows.length; start += size) {
    const group = rows.slice(start, start + size);
    const x = (start / size) * wide;
    const high = Math.max(...group.map(tokens)) / most * (HEIGHT - 6);
    columns += `M${x.toFixed(1)} ${HEIGHT}v-${high.toFixed(1)}h${Math.max(wide - 1, 0.5).toFixed(1)}V${HEIGHT}z`;
    if (group.some((row) => row.reductions)) marks += `M${x.toFixed(1)} 0h${Math.max(wide - 1, 3).toFixed(1)}v4h-${Math.max(wide - 1, 3).toFixed(1)}z`;
  }
  drawn = { rows, picture: svg`<path class="tokens" d=${columns}></path><path class="reduced" d=${marks}></path>` };
  return drawn.picture;
}

