// Where the time of a turn went, from the times of its events.

import { html, nothing, render, svg } from "../vendor/lit-html/lit-html.js";
import { t } from "./texts.js";
import { spanIn } from "./time.js";

const KINDS = [
  ["held", t("held")],
  ["model", t("model")],
  ["again", t("until asked again")],
  ["tool", t("tools")],
  ["person", t("waiting for a person")],
  ["delivery", t("delivery")],
];
const WIDTH = 1000;

// By the number of the turn: {from, to, segments: [{kind, from, to}]} in milliseconds.
export function turnsOf(events) {
  const turns = new Map();
  const received = new Map();
  const items = new Map(); // what is pending -> the turn
  const open = new Map(); // what has begun -> [turn, kind, from]
  let turn = null;
  const begin = (key, kind, at) => turn && open.set(key, [turn, kind, at]);
  const end = (key, at) => {
    const begun = open.get(key);
    if (!begun) return;
    open.delete(key);
    add(begun[0], begun[1], begun[2], at);
  };
  for (const event of events) {
    const at = Date.parse(event.at);
    switch (event.type) {
      case "received":
        received.set(event.seq, at);
        break;
      case "turn_started": {
        const from = Math.min(at, ...event.received.map((seq) => received.get(seq) ?? at));
        turn = { number: event.turn, from, to: at, segments: [], isOver: false };
        turns.set(event.turn, turn);
        if (from < at) add(turn, "held", from, at);
        break;
      }
      case "step_started":
        end("again", at);
        begin("model", "model", at);
        break;
      case "model_replied":
        end("again", at);
        end("model", at);
        if (turn) items.set(event.seq, [turn, at]);
        break;
      case "reply_broken":
        end("model", at);
        begin("model", "model", at);
        break;
      case "model_call_failed":
        end("model", at);
        end("again", at);
        begin("again", "again", at);
        break;
      case "call_started":
        begin(event.call_id, "tool", at);
        break;
      case "call_finished":
        end(event.call_id, at);
        end(`ask ${event.call_id}`, at);
        break;
      case "approval_asked":
        begin(`ask ${event.call_id}`, "person", at);
        break;
      case "approval_decided":
        end(`ask ${event.call_id}`, at);
        break;
      case "calls_handed_over":
        begin("handed", "person", at);
        break;
      case "calls_answered":
        end("handed", at);
        break;
      case "turn_finished":
        for (const key of [...open.keys()]) if (open.get(key)[0] === turn) end(key, at);
        if (turn) Object.assign(turn, { to: Math.max(turn.to, at), isOver: true });
        turn = null;
        break;
      case "chunk_marked": {
        const pending = items.get(event.item);
        if (pending && event.mark === "sent") add(pending[0], "delivery", pending[1], at);
        break;
      }
      default:
    }
  }
  for (const [begun, kind, from] of open.values()) add(begun, kind, from, Date.now());
  return turns;
}

function add(turn, kind, from, to) {
  const same = kind === "delivery" && turn.segments.find((each) => each.kind === kind && each.from === from);
  if (same) same.to = Math.max(same.to, to);
  else turn.segments.push({ kind, from, to });
  turn.to = Math.max(turn.to, to);
}

// Seconds of each kind; what runs side by side counts once.
function sums({ segments }) {
  return KINDS.map(([kind, label]) => {
    let total = 0;
    let end = 0;
    for (const { from, to } of segments.filter((each) => each.kind === kind).sort((a, b) => a.from - b.from)) {
      total += Math.max(0, to - Math.max(from, end));
      end = Math.max(end, to);
    }
    return { kind, label, seconds: total / 1000 };
  }).filter(({ seconds }) => seconds >= 0.001);
}

function bar(turn, parts) {
  const whole = Math.max(turn.to - turn.from, 1);
  // One that took no time has no parts.
  const about = [
    t("Turn {turn} took {time}", { turn: turn.number, time: spanIn((turn.to - turn.from) / 1000) }),
    ...parts.map(({ label, seconds }) => `${label} ${spanIn(seconds)}`),
  ].join(", ");
  return svg`<svg class="bar time" viewBox="0 0 ${WIDTH} 20" preserveAspectRatio="none" role="img" aria-label=${about}>${turn.segments.map(
    ({ kind, from, to }) => svg`<rect class=${`time-${kind}`} x=${(((from - turn.from) / whole) * WIDTH).toFixed(1)} y="0" width=${Math.max(((to - from) / whole) * WIDTH, 2).toFixed(1)} height="20"></rect>`,
  )}</svg>`;
}

const key = (kind) => html`<svg class="key" viewBox="0 0 10 10" aria-hidden="true"><rect class=${`time-${kind}`} width="10" height="10" rx="2"></rect></svg>`;

// At the end of a turn in the transcript: one thin line, which opens. What stands in it is made when
// it does: a page of a conversation has forty of them.
export function timeOfTurn(turn) {
  const parts = sums(turn);
  const total = spanIn((turn.to - turn.from) / 1000);
  const toggled = ({ target }) => {
    if (target.open) render(legend(parts), target.querySelector(".parts"));
  };
  return html`<details class="timing" @toggle=${toggled}>
    <summary><span class="faint">${t("turn {turn}", { turn: turn.number })}, ${total}</span>${bar(turn, parts)}</summary>
    <div class="parts"></div>
  </details>`;
}

const legend = (parts) => html`<ul class="legend">${parts.map(({ kind, label, seconds }) => html`<li>${key(kind)}${label} <b>${spanIn(seconds)}</b></li>`)}</ul>`;

// Beside the transcript.
export function newestTurn(events) {
  const turn = [...turnsOf(events).values()].at(-1);
  if (!turn || !turn.segments.length) return nothing;
  const parts = sums(turn);
  return html`<section class="newest"><h2>${t("Turn {turn}", { turn: turn.number })}</h2>
    ${bar(turn, parts)}
    ${legend(parts)}
  </section>`;
}
