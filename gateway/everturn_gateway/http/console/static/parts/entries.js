// What a transcript shows of the events of a log: those that are no speech are folded into what
// they belong to.

import { deliveriesOf } from "./delivery.js";
import { t, tn } from "./texts.js";
import { turnsOf } from "./timing.js";

const DECIDED = { allow_once: t("allowed once"), allow_always: t("always allowed"), deny: t("denied"), answer: t("answered"), expired: t("nobody answered in time") };
const ENDED = {
  failed: (values) => t("Turn {turn} failed", values),
  cancelled: (values) => t("Turn {turn} was cancelled", values),
  interrupted: (values) => t("Turn {turn} was interrupted", values),
};

// `restarts`: starts of the gateway, the last one first; those since `shownSince` are always shown.
// Where there are several, `node` is the one whose starts they are.
export function entriesOf(events, { restarts = [], shownSince = "", node = "" } = {}) {
  const entries = [];
  const deliveries = deliveriesOf(events);
  const turns = turnsOf(events);
  const calls = new Map(); // id -> call
  const users = new Map(); // number of the event -> entry
  let step = null;
  const add = (entry) => {
    entries.push(entry);
    return entry;
  };
  for (const event of events) {
    const { seq, at, type } = event;
    switch (type) {
      case "received":
      case "ambient_stored":
        users.set(seq, add({ kind: "user", seq, at, text: event.text, sender: event.sender ?? "", files: event.attachments ?? [], isAmbient: type === "ambient_stored" || event.ambient, isUntrusted: event.untrusted }));
        break;
      case "edited": {
        const user = users.get(event.received);
        if (user) Object.assign(user, { text: event.text, isEdited: true });
        break;
      }
      case "transcribed": {
        const user = users.get(event.message);
        const said = event.error ? t("not transcribed: {reason}", { reason: event.error }) : event.text ? `“${event.text}”` : t("no words in it");
        if (user) user.text = [user.text, `${event.is_voice ? t("voice note") : event.file_name || t("audio file")}: ${said}`].filter(Boolean).join("\n");
        break;
      }
      case "discarded":
        for (const number of event.received) {
          const user = users.get(number);
          if (user) user.discarded = t("not answered: {reason}", { reason: event.reason });
        }
        break;
      case "announced":
        add({ kind: "reply", seq, at, text: event.text, model: event.title || t("announced"), calls: [], delivery: deliveries.get(seq) });
        break;
      case "step_started":
        step = event;
        break;
      case "model_replied": {
        const made = (event.calls ?? []).map((call) => ({ ...call, status: "" }));
        for (const call of made) calls.set(call.call_id, call);
        add({ kind: "reply", seq, at, text: event.text, model: event.fallback || event.model, usage: event.usage ?? {}, calls: made, from: step?.at, isAsked: true, delivery: deliveries.get(seq) });
        break;
      }
      case "reply_broken":
        add({ kind: "note", tone: "failed", seq, at, text: t("The reply could not be used: {reason}", { reason: event.reason }) });
        break;
      case "model_call_failed":
        add({ kind: "note", tone: "failed", seq, at, text: t("The model call failed: {reason}", { reason: event.error }) });
        break;
      case "approval_asked":
        note(calls, event.call_id, { status: "asks", reason: event.reason, delivery: deliveries.get(seq) });
        break;
      case "approval_decided":
        note(calls, event.call_id, { status: "", decided: decided(event) });
        break;
      case "call_started":
        note(calls, event.call_id, { status: "runs", from: at });
        break;
      case "call_finished":
        note(calls, event.call_id, { status: event.is_refused ? "refused" : event.is_error ? "failed" : "done", to: at, result: event.text, path: event.path, resultSeq: seq, ...(deliveries.has(seq) ? { delivery: deliveries.get(seq) } : {}) });
        break;
      case "context_reduced":
        add({ kind: "edge", seq, at, text: reduced(event) });
        break;
      case "summarised":
        add({ kind: "edge", tone: "summary", seq, at, text: summarised(event), whole: event.text });
        break;
      case "status_changed":
        add({ kind: "edge", seq, at, text: event.status === "paused" ? t("paused") : t("goes on") });
        break;
      case "branched":
        add({ kind: "edge", seq, at, text: t("forked from another session at #{seq}", { seq: String(event.at_seq) }), from: event.of });
        break;
      case "session_ended":
        add({ kind: "edge", seq, at, text: t("session ended: {reason}", { reason: event.reason }) });
        break;
      case "turn_finished":
        if (event.outcome !== "answered") {
          add({ kind: "note", tone: event.outcome, seq, at, text: `${ENDED[event.outcome]?.({ turn: event.turn }) ?? event.outcome}${event.error ? `: ${event.error}` : ""}` });
        }
        break;
      default:
    }
    const over = type === "turn_finished" && turns.get(event.turn);
    if (over && over.segments.length) add({ kind: "turn", seq, at, turn: over });
  }
  return withRestarts(entries, events, { restarts, shownSince, node });
}

// Puts the starts of the gateway between what was before and after them: those that cut a turn.
function withRestarts(entries, events, { restarts, shownSince, node }) {
  if (!events.length) return entries;
  const first = new Date(events[0].at);
  const found = entries.slice();
  for (const { at, after } of restarts) {
    const then = new Date(at);
    if (then < first || after === "first") continue;
    const turn = turnAt(events, then);
    if (!turn && !(shownSince && at >= shownSince)) continue;
    const where = node ? `${node}: ` : "";
    const what = after === "killed" ? t("the gateway was restarted (killed)") : t("the gateway was restarted");
    const how = `${where}${what}`;
    const text = turn ? t("{how}; turn {turn} goes on by itself", { how, turn }) : how;
    const place = found.findIndex((each) => new Date(each.at) > then);
    found.splice(place < 0 ? found.length : place, 0, { kind: "edge", tone: "restart", seq: `restart ${at}`, at, text });
  }
  return found;
}

// The turn that was open at a moment; 0 = none was.
function turnAt(events, then) {
  let open = 0;
  for (const event of events) {
    if (new Date(event.at) > then) break;
    if (event.type === "turn_started" || event.type === "step_started") open = event.turn;
    else if (event.type === "turn_finished") open = 0;
  }
  return open;
}

function summarised({ seq, messages, usage }) {
  const what = tn("{count} message summarised by #{seq}", "{count} messages summarised by #{seq}", messages, { seq: String(seq) });
  const { input_tokens: before, output_tokens: after } = usage ?? {};
  return before && after ? `${what}, ${t("{before} → {after} tokens", { before, after })}` : what;
}

function decided({ decision, by }) {
  const what = DECIDED[decision] ?? decision;
  return by ? t("{what} by {name}", { what, name: by }) : what;
}

function note(calls, id, more) {
  const call = calls.get(id);
  if (call) Object.assign(call, more);
}

function reduced({ stage, messages, tokens_before: before, tokens_after: after }) {
  const hidden = messages
    ? tn("{count} message hidden from the model ({stage})", "{count} messages hidden from the model ({stage})", messages, { stage })
    : t("messages hidden from the model ({stage})", { stage });
  return before ? `${hidden}, ${t("{before} → {after} tokens", { before, after: after ?? 0 })}` : hidden;
}
