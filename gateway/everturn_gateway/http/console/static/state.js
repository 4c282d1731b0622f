// What the page knows, and what becomes of it with each frame of the stream.

import { get, Problem } from "./api.js";
import { keptFiles, readDraft } from "./drafts.js";
import { changeRows, loadList } from "./list.js";
import { plain } from "./parts/text.js";
import { t } from "./parts/texts.js";
import { loadRole } from "./role.js";

const NOTE_MS = 6000;
const AGAIN_MS = 1500;
const BEHIND_MS = 1000; // so long may an event be on its way when its row has come
const PAGE_EVENTS = 200;
const EVENTS_MOST = 600; // in the page at once; older ones are fetched when they are asked for

export const state = {
  connection: "connecting", // connecting, live, lost, login
  hello: null,
  isOutdated: false, // the gateway is of another version than this page
  restartedAt: "",
  route: { view: "sessions" },
  agents: [],
  agentsError: "",
  areAgentsKnown: false,
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

let isBehind = false; // something was asked for while the gateway was away
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

// What went wrong, in words; others may have chosen some of them.
export function failed(error) {
  isBehind ||= error.status === 0;
  return plain(error instanceof Problem ? error.message : String(error));
}

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
  else if (type === "event") happened(data);
  else if (type === "token") grew(data);
  else if (type === "ended" && state.session?.id === data.session_id) {
    if (data.problem) state.session.errors.set("stream", plain(data.problem.detail ?? data.problem.title));
  } else if (frames.has(type)) frames.get(type)(data);
  else if (TAKEN_LATER.has(type)) early.push({ type, data });
  if (type === "agents") refreshAgents();
  draw();
}

function greeted(hello) {
  const before = state.hello;
  state.hello = hello;
  state.connection = "live";
  if (before && before.boot !== hello.boot) {
    // One address may lead to several nodes: this one was there before.
    state.restartedAt = before.node === hello.node ? (hello.starts[0]?.at ?? hello.started_at) : "";
    // The model is asked again: the old half of a reply goes.
    if (state.session) state.session.live = null;
    state.isOutdated ||= before.version !== hello.version;
  }
  if (!hello.fresh && !isBehind) return;
  if (before || isBehind) refreshAll();
  else {
    // What changed between the answers that the page began with and this frame, no other one tells.
    loadList();
    if (isKnown) refreshers.forEach((work) => work());
  }
}

function changed({ sessions, fresh }) {
  changeRows(sessions, fresh);
  const row = sessions.find(({ id }) => id === state.session?.id);
  if (row?.gone) loadDocument(state.session); // which says so
  else if (row) setTimeout(() => hasHappened(row), BEHIND_MS);
}

// Of a session that has come so far. A browser follows no more than eight of them, and an answer may
// have been lost: then what is missing is fetched.
function hasHappened({ id, last_event: last }) {
  const { session } = state;
  if (session?.id !== id || session.isLoading || !session.isAtEnd) return;
  session.told = Math.max(session.told, last);
  catchUp(session);
}

function happened({ session_id: id, seq, event }) {
  const { session } = state;
  if (session?.id !== id || seq <= session.last) return;
  session.told = Math.max(session.told, seq);
  if (seq > session.last + 1 && session.isAtEnd) catchUp(session);
  else take(session, [event]);
}

// Events that stand behind those that are known.
function take(session, events) {
  if (!events.length) return;
  session.last = events.at(-1).seq;
  if (session.isAtEnd) put(session, events);
  const types = events.map(({ type }) => type);
  const hasOne = (wanted) => types.some((type) => wanted.includes(type));
  for (const type of types) {
    if (ENDS_REPLY.includes(type)) session.live = null;
    if (type === "step_started") session.waits = true;
    if (type === "model_replied" || type === "turn_finished") session.waits = false;
    frames.get("event")?.({ session_id: session.id, type });
  }
  if (hasOne(ABOUT_STATE)) loadDocument(session);
  if (hasOne(["turn_finished", "summarised"])) loadContext(session);
  if (hasOne(["turn_finished"])) {
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

const ENDS_REPLY = ["model_replied", "reply_broken", "model_call_failed", "turn_finished"];
const ABOUT_STATE = [
  "approval_asked",
  "approval_decided",
  "turn_started",
  "turn_finished",
  "status_changed",
  "session_ended",
  "received",
  "discarded",
];

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
  learnRole();
  loadList();
  refreshAgents();
}

let learning = 0;

// What shows to whom comes behind it, so it is asked for until there is an answer.
async function learnRole() {
  clearTimeout(learning);
  const isThere = await loadRole();
  clearTimeout(learning);
  if (isThere) {
    isKnown = true;
    refreshers.forEach((work) => work());
  } else if (state.connection !== "login") {
    learning = setTimeout(() => state.connection === "login" || learnRole(), AGAIN_MS);
  }
}

export function refreshAll() {
  const { session } = state;
  isBehind = false;
  refreshLists();
  // Who reads further up is left there; where nothing is shown yet, the address says what is to be.
  if (session?.isAtEnd) openSession(session.id, session.events.length ? 0 : session.at);
  else if (session) loadDocument(session);
}

let askingAgents = 0;

export async function refreshAgents() {
  const mine = ++askingAgents;
  try {
    const { agents } = await get("agents");
    if (mine === askingAgents) Object.assign(state, { agents, agentsError: "", areAgentsKnown: true });
  } catch (error) {
    if (!needsLogin(error) && mine === askingAgents) state.agentsError = failed(error);
  }
  draw();
}

// --- one session ---

let opening = 0; // counts what is asked for of the log: an answer to an older question is let go

// Shows the newest events of a session, or those around one of them.
export async function openSession(id, at = 0) {
  const isSame = state.session?.id === id;
  const session = isSame ? state.session : newSession(id);
  const mine = ++opening;
  session.at = at;
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
    session.told = page.last_event;
    session.isAtEnd = page.last >= page.last_event;
    session.follows = !at;
    session.target = at;
    session.isLoading = false;
    session.errors.clear();
    stream?.watch(id, session.last);
    draw();
    await others;
    // It was asked for beside the log, and may have been read before the newest of these events.
    if (session.document?.last_event < page.last_event) await loadDocument(session);
  } catch (error) {
    if (mine !== opening) return;
    session.isLoading = false;
    fault(session, "log", error);
  }
  draw();
}

// Says what could not be done with a session; `errors.delete` takes it back when it can.
export function fault(session, what, error) {
  if (!needsLogin(error)) session.errors.set(what, failed(error));
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
    at: 0, // the event that it was opened at; 0 = the newest
    first: 1,
    last: 0,
    told: 0, // the newest event that is known of, which may be on its way
    live: null,
    isAtEnd: true, // whether the newest event is among those that are shown
    target: 0, // the event that an address names
    waits: false,
    document: null,
    context: null,
    isLoading: true,
    isRaw: false,
    follows: true,
    errors: new Map(), // what cannot be done just now -> why
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
    while (session.isAtEnd && session.last < session.told) {
      const page = await get(`sessions/${session.id}/log?after=${session.last}&limit=500`);
      if (state.session !== session) return;
      session.told = page.events.length ? Math.max(session.told, page.last_event) : session.last;
      take(session, page.events.filter((each) => each.seq > session.last));
      session.errors.delete("log");
    }
  } catch (error) {
    fault(session, "log", error);
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
    session.errors.delete("log");
  } catch (error) {
    fault(session, "log", error);
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
    session.errors.delete("log");
  } catch (error) {
    fault(session, "log", error);
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
    if (!isMine()) return;
    session.document = found;
    session.errors.delete("document");
  } catch (error) {
    if (isMine()) fault(session, "document", error);
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
