// A new session with the history of one up to an event.

import { post } from "./api.js";
import { t } from "./parts/texts.js";
import { failed, needsLogin, say } from "./state.js";

export const FORK = t("Begin a new session with the history up to here. No tool runs again.");

export async function fork(id, atSeq) {
  if (!window.confirm(`${FORK} ${t("This session stays as it is.")}`)) return;
  try {
    const made = await post(`sessions/${id}/fork`, { at_seq: atSeq });
    location.hash = `#/s/${made.id}`;
    say(t("This is the fork."));
  } catch (error) {
    if (!needsLogin(error)) say(failed(error));
  }
}

// A reply without calls is the end of its turn, which belongs to it.
export function forkSeq(events, { seq, calls }) {
  if (calls.length) return seq;
  const next = events.find((each) => each.seq > seq && ["turn_finished", "turn_started", "model_replied"].includes(each.type));
  return next?.type === "turn_finished" ? next.seq : seq;
}
