// What waits for a person, as it comes in the stream, and the answers.

import { get, post } from "./api.js";
import { keep, kept } from "./drafts.js";
import { t } from "./parts/texts.js";
import { failed, loadDocument, needsLogin, onFrame, onRefresh, say, state } from "./state.js";

const ANSWERED_MOST = 20;

let told = 0; // counts what told of the list: an answer is let go when something newer did

async function load() {
  const mine = ++told;
  try {
    const { approvals } = await get("approvals");
    if (mine === told) show(approvals);
  } catch (error) {
    if (!needsLogin(error) && mine === told) state.approvals.error = failed(error);
  }
  state.approvals.isLoading = false;
  say("");
}

const nameOf = (each) => `${each.session_id} ${each.call_id} ${each.arguments_hash}`;

function show(items) {
  const { approvals } = state;
  const isThere = new Set(items.map(nameOf));
  const gone = approvals.items.filter((each) => !isThere.has(nameOf(each)));
  if (gone.length) tellAnswered(gone.slice(0, ANSWERED_MOST));
  const before = new Map(approvals.items.map((each) => [nameOf(each), each]));
  // What is under way with one of them, and what it gave, stays with it.
  approvals.items = items.map((each) => Object.assign(before.get(nameOf(each)) ?? {}, each));
  approvals.isLoading = false;
  approvals.error = "";
  if (typed.size) keepTyped(items);
}

// What waits no more: how it was answered, and by whom, stands in the log of its session.
async function tellAnswered(gone) {
  for (const item of gone) {
    try {
      const { events } = await get(`sessions/${item.session_id}/log?types=approval_decided&limit=20`);
      const found = events.findLast((each) => each.call_id === item.call_id);
      const { approvals } = state;
      if (found) approvals.answered = [{ ...item, decision: found.decision, by: found.by ?? "", at: found.at }, ...approvals.answered].slice(0, ANSWERED_MOST);
    } catch {
      // a session that is gone tells nothing
    }
  }
  say("");
}

// A question that a session shows, as the list of all has it: what is under way with it stays.
export function itemOf(session, approval) {
  const isIt = (each) => each.session_id === session.id && each.call_id === approval.call_id && each.arguments_hash === approval.arguments_hash;
  return state.approvals.items.find(isIt) ?? (approval.item ??= { ...approval, session_id: session.id, title: "" });
}

// What somebody has begun to answer, by call: it outlives whatever comes meanwhile.
const typed = new Map(Object.entries(kept("answers") ?? {}));
const nameOfCall = ({ session_id: id, call_id: callId }) => `${id} ${callId}`;
export const typedFor = (item) => typed.get(nameOfCall(item)) ?? "";

export function type(item, text) {
  typed.set(nameOfCall(item), text);
  keepTyped();
}

// Of what is not asked any more nobody wants what was typed.
function keepTyped(items = null) {
  const asked = items && new Set(items.map(nameOfCall));
  for (const [name, text] of typed) if (!text || (asked && !asked.has(name))) typed.delete(name);
  keep(typed.size ? Object.fromEntries(typed) : null, "answers");
}

// `answer` is what the agent wants to know, where it asks for more than a permission.
export async function decide(item, decision, answer = "") {
  const { session_id: id, call_id: callId, arguments_hash: shown } = item;
  if (item.isBusy) return;
  item.isBusy = true;
  item.error = "";
  say("");
  try {
    const more = decision === "answer" ? { answer } : {};
    await post(`sessions/${id}/approve`, { call_id: callId, decision, arguments_hash: shown, ...more });
    type(item, "");
    say(decision === "answer" ? t("Answered.") : decision === "deny" ? t("Denied.") : t("Allowed."));
  } catch (error) {
    if (!needsLogin(error)) {
      item.error = failed(error);
      say(item.error); // the question may be gone
    }
  }
  item.isBusy = false;
  await load();
  if (state.session?.id === id) loadDocument(state.session);
}

onFrame("approvals", (data) => {
  told += 1;
  show(data.approvals);
});
onRefresh(load);
