// The conversation as it was at a request: what came later is dimmed, and what the model was not
// shown any more says so.

import { html, nothing } from "../vendor/lit-html/lit-html.js";
import { fork, FORK } from "../fork.js";
import { dispositionsBar } from "../parts/dispositions.js";
import { slider } from "../parts/slider.js";
import { t } from "../parts/texts.js";
import { transcript } from "../parts/transcript.js";
import { indexOf, nameOf, past } from "../past.js";
import { pastHeader } from "./request.js";

let shown = { dispositions: null, bySeq: new Map() };
let centred = null;

export function thenView() {
  const row = past.rows[indexOf()];
  if (past.dispositions && shown.dispositions !== past.dispositions) {
    shown = { dispositions: past.dispositions, bySeq: new Map(past.dispositions.messages.map((each) => [each.seq, each.now])) };
  }
  const acts = row ? html`<a class="button" href=${`#/s/${past.id}/request/${nameOf(row)}`}>${t("What the model saw")}</a><button title=${FORK} @click=${() => fork(past.id, cut(past.dispositions))} ?disabled=${!past.dispositions}>${t("Fork here")}</button>` : nothing;
  return html`
    ${pastHeader(t("The conversation then"), acts)}
    ${slider()}
    ${past.error ? html`<p class="error" role="alert">${past.error}</p>` : nothing}
    ${row && past.dispositions
      ? html`${dispositionsBar(past.dispositions)}
        <div class="scroll then" tabindex="0" role="region" aria-label=${t("Transcript")} aria-busy=${past.isLoading}><div class="transcript">
          ${transcript({ id: past.id, events: past.events, live: null, waits: false, document: null }, { until: cut(past.dispositions), dispositions: shown.bySeq })}
        </div></div>`
      : nothing}
  `;
}

// The last event before the answer of the request that is shown.
const cut = ({ started_seq: started, replied_seq: replied }) => (replied ? replied - 1 : started);

// What is newest at that request stands in the middle.
export function afterThen() {
  if (past.isLoading || centred === past.events) return;
  centred = past.events;
  const place = document.querySelector(".scroll.then");
  const last = [...(place?.querySelectorAll("[data-seq]:not(.later)") ?? [])].at(-1);
  last?.scrollIntoView({ block: "center" });
}
