// The list of sessions, as it is asked for, and as rows come in the stream.

import { get } from "./api.js";
import { failed, needsLogin, say, state } from "./state.js";

const PAGE_ROWS = 50;

let listing = 0;
let told = []; // rows that the stream told of since the list was asked for: newer than its answer

export async function loadList({ more = false } = {}) {
  const { list } = state;
  const mine = ++listing;
  told = [];
  list.isLoading = true;
  say("");
  const query = new URLSearchParams({ order: "activity", limit: PAGE_ROWS });
  for (const [name, value] of Object.entries(list.filter)) if (value) query.set(name, value);
  if (more && list.next) query.set("after", list.next);
  try {
    const page = await get(`sessions?${query}`);
    if (mine !== listing) return;
    if (!more) {
      list.rows = new Map();
      list.order = [];
      list.newer = new Set();
    }
    for (const row of page.sessions) {
      if (!list.rows.has(row.id)) list.order.push(row.id);
      list.rows.set(row.id, row);
    }
    list.next = page.next;
    list.error = "";
    putRows(told);
  } catch (error) {
    if (mine !== listing) return;
    if (!needsLogin(error)) list.error = failed(error);
  }
  list.isLoading = false;
  say("");
}

export function showNewer() {
  const { list } = state;
  const newer = [...list.newer].reverse().filter((id) => list.rows.has(id));
  const order = [...newer, ...list.order.filter((id) => !list.newer.has(id))];
  const isPinned = (id) => list.rows.get(id).pinned;
  list.order = [...order.filter(isPinned), ...order.filter((id) => !isPinned(id))];
  list.newer = new Set();
  say("");
}

export function useList(isInUse) {
  state.list.isInUse = isInUse;
  if (!isInUse && state.list.newer.size) showNewer();
}

// Rows are states: each as it is now. `isFresh` says that there were more than were told.
export function changeRows(sessions, isFresh) {
  if (state.list.isLoading) told.push(...sessions);
  putRows(sessions);
  if (isFresh) loadList();
}

function putRows(sessions) {
  const { list } = state;
  for (const row of sessions) {
    const before = list.rows.get(row.id);
    if (row.gone) {
      list.rows.delete(row.id);
      list.order = list.order.filter((id) => id !== row.id);
      continue;
    }
    if (!admits(row)) {
      if (before) list.rows.set(row.id, row);
      if (before && before.archived !== row.archived) list.order = list.order.filter((id) => id !== row.id);
      continue;
    }
    // A row of the list may know the title that the stream could not tell.
    list.rows.set(row.id, { ...row, title: row.title || before?.title || "" });
    place(list, row, before);
  }
}

// What is pinned stands first, and otherwise what happened last; to sort a session moves it no further.
function place(list, row, before) {
  const isSame = before && before.pinned === row.pinned && before.updated_at === row.updated_at;
  if (isSame && list.order.includes(row.id)) return;
  const others = list.order.filter((id) => id !== row.id);
  const comesFirst = (other) => (row.pinned === other.pinned ? row.updated_at >= other.updated_at : row.pinned);
  let at = others.findIndex((id) => comesFirst(list.rows.get(id)));
  if (at < 0 && list.next) return; // its page is not shown yet
  if (at < 0) at = others.length;
  if (list.order[at] === row.id) return;
  if (list.isInUse && before?.pinned === row.pinned) list.newer.add(row.id);
  else list.order = [...others.slice(0, at), row.id, ...others.slice(at)];
}

function admits(row) {
  const { wants, agent, channel, archived, q } = state.list.filter;
  if (row.archived !== Boolean(archived) && !["approval", "running"].includes(wants)) return false;
  if (agent && row.agent !== agent) return false;
  if (channel && row.channel !== channel) return false;
  if (wants === "approval" && !row.approvals) return false;
  if (wants === "running" && !row.running) return false;
  if (wants === "failed" && !row.failed) return false;
  const text = q.toLowerCase();
  return !q || [row.id, row.chat, row.title, row.preview].some((e) => e.toLowerCase().includes(text));
}
