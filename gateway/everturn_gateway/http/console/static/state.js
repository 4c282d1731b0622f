// What the page knows, and what becomes of it with each frame of the stream.

import { get, Problem } from "./api.js";
import { keptFiles, readDraft } from "./drafts.js";
import { t } from "./parts/texts.js";
import { loadRole } from "./role.js";

const NOTE_MS = 6000;
const AGAIN_MS = 1500;
const PAGE_ROWS = 50;
const PAGE_EVENTS = 200;
const EVENTS_MOST = 600; // in the page at once; older ones are fetched when they are asked for

export const state = {
  connection: "connecting", // connecting, live, lost, login
  hello: null,
  isOutdated: false, // the gateway is of another version than this page
  restartedAt: "",
  route: { view: "sessions" },
  agents: [],
  list: {
    filter: { wants: "", agent: "", channel: "", archived: "", q: "" },
    rows: new Map(),
    order: [],
    newer: new Set(), // rows that would jump to the top while the list is in use
    next: null,
    isLoading: true,
    error: "",
    isInUse: false,
  },
  approvals: { items: [], answered: [], isLoading: true, error: "" },
  session: null,
  note: "", // what was done last, for whoever listens
  loginError: "",
};

let draw = () => {};
let stream = null;

export function onChange(work) {
  draw = work;
}

export function start() {
  refreshLists(); // a session that the address names is being opened
  follow();
}

// The stream tells what changes: what is shown first does not wait for it.
async function follow() {
  try {
    const { connect } = await import("./stream.js");
    stream = connect(receive);
    if (state.session?.last) stream.watch(state.session.id, state.session.last);
  } catch {
    receive({ type: "lost" });
    setTimeout(follow, AGAIN_MS);
  }
}

export const failed = (error) => (error instanceof Problem ? error.message : String(error));

export function needsLogin(error) {
  if (!(error instanceof Problem) || error.status !== 401 || error.needsAdmin) return false;
  state.connection = "login";
  draw();
  return true;
}

let forgetting = 0;

// A line that everybody sees, or hears, for a moment; empty = only draw anew.
export function say(text) {
  if (text) {
    state.note = text;
    clearTimeout(forgetting);
    forgetting = setTimeout(() => {
      state.note = "";
      draw();
    }, NOTE_MS);
  }
  draw();
}

// --- frames ---

const TAKEN_LATER = new Set(["approvals", "channels", "schedules"]);
const frames = new Map();
const refreshers = [];
let early = []; // frames that came before what takes them was there
let isKnown = false; // who looks

// For views that keep what they show themselves.
export function onFrame(type, work) {
  frames.set(type, work);
  early.filter((each) => each.type === type).forEach(({ data }) => work(data));
  early = early.filter((each) => each.type !== type);
}

// `work` is done as soon as it is known who looks, and when what the page knows may be outdated.
export function onRefresh(work) {
  refreshers.push(work);
  if (isKnown) work();
}

function receive({ type, data }) {
  if (type === "lost") {
    // Without a login there is nothing to lose: the form stays, with what was typed.
    if (state.connection !== "login") state.connection = "lost";
  } else if (type === "login") state.connection = "login";
  else if (type === "hello") greeted(data);
  else if (type === "rows") changed(data);
  else if (type === "event") {
    happened(data);
    frames.get(type)?.(data);
  }
  else if (type === "token") grew(data);
  else if (type === "ended" && state.session?.id === data.session_id) {
    if (data.problem) state.session.error = data.problem.detail ?? data.problem.title;
  } else if (frames.has(type)) frames.get(type)(data);
  else if (TAKEN_LATER.has(type)) early.push({ type, data });
  draw();
}

function greeted(hello) {
  const before = state.hello;
  state.hello = hello;
  state.connection = "live";
  if (before && before.boot !== hello.boot) {
    state.restartedAt = hello.starts[0]?.at ?? hello.started_at;
    // The model is asked again: the old half of a reply goes.
    if (state.session) state.session.live = null;
    state.isOutdated ||= before.version !== hello.version;
  }
  if (!hello.fresh) return;
  if (before) refreshAll();
  else {
    // What changed between the answers that the page began with and this frame, no other one tells.
    loadList();
    if (isKnown) refreshers.forEach((work) => work());
  }
}

function changed({ sessions, fresh }) {
  if (state.list.isLoading) told.push(...sessions);
  putRows(sessions);
  if (fresh) loadList();
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

function happened({ session_id: id, seq, type, event }) {
  const { session } = state;
  if (session?.id !== id || seq <= session.last) return;
  if (seq > session.last + 1 && session.isAtEnd) {
    catchUp(session);
    return;
  }
  session.last = seq;
  if (session.isAtEnd) put(session, [event]);
  if (["model_replied", "reply_broken", "model_call_failed", "turn_finished"].includes(type)) {
    session.live = null;
  }
  if (type === "step_started") session.waits = true;
  if (type === "model_replied" || type === "turn_finished") session.waits = false;
  if (ABOUT_STATE.has(type)) loadDocument(session);
  if (type === "turn_finished" || type === "summarised") loadContext(session);
  if (type === "turn_finished") {
    const last = session.events.findLast((each) => each.type === "model_replied");
    session.said = last?.text ? t("Reply: {text}", { text: last.text }) : t("The turn ended.");
  }
}

// Adds events behind those that are shown; no more than a window of them stays in the page.
function put(session, events) {
  session.events.push(...events);
  if (session.events.length <= EVENTS_MOST) return;
  if (session.follows) {
    session.events = session.events.slice(-PAGE_EVENTS);
    session.first = session.events[0].seq;
  } else {
    // Somebody reads further up: what comes now is fetched on the way down.
    session.events.length = EVENTS_MOST;
    session.isAtEnd = false;
  }
}

const ABOUT_STATE = new Set([
  "approval_asked",
  "approval_decided",
  "turn_started",
  "turn_finished",
  "status_changed",
  "session_ended",
  "received",
  "discarded",
]);

function grew({ session_id: id, turn_id: turn, step, offset, text }) {
  const { session } = state;
  if (session?.id !== id) return;
  const before = session.live?.turn === turn && session.live.step === step ? session.live.text : "";
  // `offset` counts code points; JavaScript counts halves of them.
  const known = [...before];
  if (offset > known.length) return; // its beginning is missing; the whole reply comes in a moment
  const kept = offset === known.length ? before : known.slice(0, offset).join("");
  session.live = { turn, step, text: kept + text };
}

// --- lists ---

function refreshLists() {
  loadRole().then(() => {
    isKnown = true;
    refreshers.forEach((work) => work());
  });
  loadList();
  refreshAgents();
}

export function refreshAll() {
  refreshLists();
  // Who reads further up is left there.
  if (state.session?.isAtEnd) openSession(state.session.id);
}

export async function refreshAgents() {
  try {
    state.agents = (await get("agents")).agents ?? [];
  } catch (error) {
    needsLogin(error);
  }
  draw();
}

let listing = 0;
let told = []; // rows that the stream told of since the list was asked for: newer than its answer

export async function loadList({ more = false } = {}) {
  const { list } = state;
  const mine = ++listing;
  told = [];
  list.isLoading = true;
  draw();
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
  draw();
}

export function showNewer() {
  const { list } = state;
  const newer = [...list.newer].reverse().filter((id) => list.rows.has(id));
  const order = [...newer, ...list.order.filter((id) => !list.newer.has(id))];
  const isPinned = (id) => list.rows.get(id).pinned;
  list.order = [...order.filter(isPinned), ...order.filter((id) => !isPinned(id))];
  list.newer = new Set();
  draw();
}

export function useList(isInUse) {
  state.list.isInUse = isInUse;
  if (!isInUse && state.list.newer.size) showNewer();
}

// --- one session ---

let opening = 0; // counts what is asked for of the log: an answer to an older question is let go

// Shows the newest events of a session, or those around one of them.
export async function openSession(id, at = 0) {
  const isSame = state.session?.id === id;
  const session = isSame ? state.session : newSession(id);
  const mine = ++opening;
  state.session = session;
  if (!isSame) stream?.watch("", 0);
  draw();
  // Beside the log: none of the three waits for another.
  const others = Promise.all([loadDocument(session), loadContext(session)]);
  try {
    const around = at ? `&before=${at + PAGE_EVENTS / 2}` : "";
    const page = await get(`sessions/${id}/log?limit=${PAGE_EVENTS}${around}`);
    if (mine !== opening || state.session !== session) return;
    session.events = page.events;
    session.first = page.first;
    session.last = page.last_event;
    session.isAtEnd = page.last >= page.last_event;
    session.follows = !at;
    session.target = at;
    session.isLoading = false;
    session.error = "";
    stream?.watch(id, session.last);
    draw();
    await others;
    // It was asked for beside the log, and may have been read before the newest of these events.
    if (session.document?.last_event < page.last_event) await loadDocument(session);
  } catch (error) {
    if (mine !== opening) return;
    session.isLoading = false;
    if (!needsLogin(error)) session.error = failed(error);
  }
  draw();
}

export function closeSession() {
  if (!state.session) return;
  state.session = null;
  stream?.watch("", 0);
}

function newSession(id) {
  const draft = readDraft(id);
  return {
    id,
    events: [],
    first: 1,
    last: 0,
    live: null,
    isAtEnd: true, // whether the newest event is among those that are shown
    target: 0, // the event that an address names
    waits: false,
    document: null,
    context: null,
    isLoading: true,
    isRaw: false,
    follows: true,
    error: "",
    said: "",
    draft: draft.text ?? "",
    key: draft.key ?? "",
    files: keptFiles(id),
    isSending: false,
    sendError: "",
    asked: {}, // how often each thing was asked for
  };
}

async function catchUp(session) {
  if (session.isCatchingUp) return;
  session.isCatchingUp = true;
  try {
    let page;
    do {
      page = await get(`sessions/${session.id}/log?after=${session.last}&limit=500`);
      if (state.session !== session) return;
      put(session, page.events.filter((each) => each.seq > session.last));
      session.last = Math.max(session.last, page.last);
    } while (page.events.length && session.last < page.last_event);
    loadDocument(session);
  } catch (error) {
    if (!needsLogin(error)) session.error = failed(error);
  } finally {
    session.isCatchingUp = false;
  }
  draw();
}

export async function loadOlder(session) {
  if (session.first <= 1 || session.isLoadingOlder) return;
  const { first } = session;
  session.isLoadingOlder = true;
  draw();
  try {
    const page = await get(`sessions/${session.id}/log?before=${first}&limit=${PAGE_EVENTS}`);
    if (session.first === first) showOlder(session, page); // else others are shown by now
  } catch (error) {
    if (!needsLogin(error)) session.error = failed(error);
  }
  session.isLoadingOlder = false;
  draw();
}

function showOlder(session, page) {
  session.events = [...page.events, ...session.events];
  session.first = page.first;
  if (session.events.length <= EVENTS_MOST) return;
  session.events.length = EVENTS_MOST;
  session.isAtEnd = false;
}

export async function loadNewer(session) {
  if (session.isAtEnd || session.isLoadingNewer) return;
  session.isLoadingNewer = true;
  draw();
  try {
    const after = session.events.at(-1)?.seq ?? 0;
    const page = await get(`sessions/${session.id}/log?after=${after}&limit=${PAGE_EVENTS}`);
    if ((session.events.at(-1)?.seq ?? 0) === after) showNext(session, page); // else others are shown by now
  } catch (error) {
    if (!needsLogin(error)) session.error = failed(error);
  }
  session.isLoadingNewer = false;
  draw();
}

function showNext(session, page) {
  session.events = [...session.events, ...page.events].slice(-EVENTS_MOST);
  session.first = session.events[0]?.seq ?? 1;
  session.last = Math.max(session.last, page.last_event);
  session.isAtEnd = page.last >= session.last;
}

// Answers may overtake each other: the one to the newest question is what is shown.
const isNewest = (session, what) => {
  const mine = (session.asked[what] = (session.asked[what] ?? 0) + 1);
  return () => session.asked[what] === mine;
};

export async function loadDocument(session) {
  const isMine = isNewest(session, "document");
  try {
    const found = await get(`sessions/${session.id}`);
    if (isMine()) session.document = found;
  } catch (error) {
    if (!needsLogin(error)) session.error = failed(error);
  }
  draw();
}

async function loadContext(session) {
  const isMine = isNewest(session, "context");
  let found = null; // an agent that is gone has none; the transcript stands without it
  try {
    found = await get(`sessions/${session.id}/context`);
  } catch {
    // as said
  }
  if (isMine()) session.context = found;
  draw();
}
