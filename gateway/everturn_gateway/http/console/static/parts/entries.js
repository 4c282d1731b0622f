// What a transcript shows of the events of a log: those that are no speech are folded into what
// they belong to.

import { t, tn } from "./texts.js";

const DECIDED = { allow_once: t("allowed once"), allow_always: t("always allowed"), deny: t("denied"), expired: t("nobody answered in time") };
const ENDED = {
  failed: (values) => t("Turn {turn} failed", values),
  cancelled: (values) => t("Turn {turn} was cancelled", values),
  interrupted: (values) => t("Turn {turn} was interrupted", values),
};

export function entriesOf(events) {
  const entries = [];
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
      case "silent_message":
        users.set(seq, add({ kind: "user", seq, at, text: event.text, sender: event.sender ?? "", files: event.attachments ?? [], isAmbient: type === "silent_message" || event.ambient, isUntrusted: event.untrusted }));
        break;
      case "edited": {
        const user = users.get(event.received);
        if (user) Object.assign(user, { text: event.text, isEdited: true });
        break;
      }
      case "discarded":
        for (const number of event.received) {
          const user = users.get(number);
          if (user) user.fate = t("not answered: {reason}", { reason: event.reason });
        }
        break;
      case "announced":
        add({ kind: "reply", seq, at, text: event.text, model: event.title || t("announced"), calls: [] });
        break;
      case "step_started":
        step = event;
        break;
      case "model_replied": {
        const made = (event.calls ?? []).map((call) => ({ ...call, status: "" }));
        for (const call of made) calls.set(call.call_id, call);
        add({ kind: "reply", seq, at, text: event.text, model: event.fallback || event.model, usage: event.usage ?? {}, calls: made, from: step?.at, hasReasoning: Boolean(event.reasoning) });
        break;
      }
      case "reply_broken":
        add({ kind: "note", tone: "failed", seq, at, text: t("The reply could not be used: {reason}", { reason: event.reason }) });
        break;
      case "model_call_failed":
        add({ kind: "note", tone: "failed", seq, at, text: t("The model call failed: {reason}", { reason: event.error }) });
        break;
      case "approval_asked":
        note(calls, event.call_id, { status: "asks", reason: event.reason });
        break;
      case "approval_decided":
        note(calls, event.call_id, { status: "", decided: decided(event) });
        break;
      case "call_started":
        note(calls, event.call_id, { status: "runs", from: at });
        break;
      case "call_finished":
        note(calls, event.call_id, { status: event.is_refused ? "refused" : event.is_error ? "failed" : "done", to: at, result: event.text });
        break;
      case "context_reduced":
        add({ kind: "edge", seq, at, text: reduced(event) });
        break;
      case "summarised":
        add({ kind: "edge", seq, at, text: tn("{count} message summarised", "{count} messages summarised", event.messages), whole: event.text });
        break;
      case "status_changed":
        add({ kind: "edge", seq, at, text: event.status === "paused" ? t("paused") : t("goes on") });
        break;
      case "session_ended":
        add({ kind: "edge", seq, at, text: t("session ended: {reason}", { reason: event.reason }) });
        break;
      case "turn_finished":
        if (event.outcome !== "answered") {
          add({ kind: "note", tone: event.outcome, seq, at, text: `${ENDED[event.outcome]?.({ turn: event.turn }) ?? event.outcome}${event.error ? `: ${event.error}` : ""}` });
        }
        break;
      case "chunk_marked": {
        const reply = entries.findLast((each) => each.kind === "reply");
        if (reply) reply.delivery = event.mark;
        break;
      }
      default:
    }
  }
  return entries;
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
