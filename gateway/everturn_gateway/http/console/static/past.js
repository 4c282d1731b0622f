// The requests that a session sent to its model: all of them for the slider, and the one that is
// looked at. Each is made again by the gateway; nothing of it is kept beyond the page.

import { get } from "./api.js";
import { failed, needsLogin, onRefresh, say, state } from "./state.js";

const PAGE_REQUESTS = 500;
const PAGES_MOST = 40;
const SETTLE_MS = 120; // the slider has to stand still for so long
const EVENTS_AROUND = 300;

export const past = fresh("");

function fresh(id) {
  return {
    id,
    rows: [], // oldest first
    isListing: false,
    seq: 0, // the event that began the request which is shown
    than: 0, // an event of the one that it is compared with; 0 = the one before it
    isWhole: false, // all messages, not only what differs
    dispositions: null,
    isRequestShown: false,
    request: null,
    events: [],
    isLoading: false,
    error: "",
    shownRows: 0,
  };
}

export const nameOf = (row) => row.replied_seq || row.started_seq;
export const indexOf = () => past.rows.findIndex((row) => row.started_seq === past.seq);

let opened = []; // what was opened last
let opening = 0; // whoever opened another one since, is not taken back to what was asked for before
let listing = 0; // the newest list is the one that is read on

// Opens the request at an event, or next after it; 0 = the newest one.
export async function openPast(id, seq, { than = 0, isTravel = false } = {}) {
  opening += 1;
  opened = [id, seq, { than, isTravel }];
  if (past.id !== id) {
    Object.assign(past, fresh(id));
    listing += 1;
  }
  past.than = than;
  past.isTravel = isTravel;
  past.error = "";
  const isKnown = past.rows.some((row) => nameOf(row) === seq || row.started_seq === seq);
  if (!isKnown) {
    past.seq = 0; // another one than was looked at before
    await list(id, seq);
  }
  else pick(at(seq));
}

async function list(id, seq) {
  const mine = ++listing;
  const opened = opening;
  past.isListing = true;
  say("");
  try {
    let before = 0;
    let rows = [];
    for (let page = 0; page < PAGES_MOST && before !== null; page += 1) {
      const found = await get(`sessions/${id}/requests?limit=${PAGE_REQUESTS}&before=${before}`);
      if (mine !== listing) return;
      rows = [...found.requests.reverse(), ...rows];
      before = found.next;
      past.rows = rows;
      if (opened === opening && !past.seq && rows.length && (seq === 0 || rows[0].started_seq <= seq)) pick(at(seq));
      else say("");
    }
    const isHere = rows.some((row) => row.started_seq === past.seq);
    if (opened === opening && rows.length && (!isHere || (seq && nameOf(rows[indexOf()]) !== seq))) pick(at(seq));
  } catch (error) {
    if (mine !== listing) return;
    if (!needsLogin(error)) past.error = failed(error);
  }
  past.isListing = false;
  say("");
}

// The row of the request that was sent at an event, or next after it.
function at(seq) {
  const last = past.rows.length - 1;
  const found = seq ? past.rows.findIndex((row) => nameOf(row) >= seq) : last;
  return past.rows[found < 0 ? last : found];
}

let settling = 0;

// Shows a request; while the slider moves, only what the list says of it.
export function pick(row, { isMoving = false } = {}) {
  if (!row) return;
  past.seq = row.started_seq;
  const view = past.isTravel ? "then" : "request";
  const other = past.than ? `/than/${past.than}` : "";
  // Whoever went elsewhere meanwhile keeps the address of that.
  if (state.route.id === past.id && ["request", "then"].includes(state.route.view)) history.replaceState(null, "", `#/s/${encodeURIComponent(past.id)}/${view}/${nameOf(row)}${other}`);
  clearTimeout(settling);
  if (isMoving) settling = setTimeout(load, SETTLE_MS);
  else load();
  say("");
}

export function compareWith(seq) {
  past.than = seq;
  pick(past.rows[indexOf()]);
}

export function showWhole(isWhole) {
  past.isWhole = isWhole;
  load();
}

export function showRequest(isShown) {
  past.isRequestShown = isShown;
  if (isShown && !past.request) loadRequest();
}

onRefresh(() => past.error && ["request", "then"].includes(state.route.view) && openPast(...opened));

let loading = 0;

async function load() {
  const mine = ++loading;
  const index = indexOf();
  const { id, rows } = past;
  const name = nameOf(rows[index]);
  const isOld = () => mine !== loading || past.id !== id;
  past.isLoading = true;
  past.request = null;
  past.shownRows = 0;
  say("");
  try {
    if (past.isTravel) {
      const page = await get(`sessions/${id}/log?before=${name + EVENTS_AROUND / 5}&limit=${EVENTS_AROUND}`);
      const dispositions = await get(`sessions/${id}/context/${name}?since=${Math.max(page.first, 1)}`);
      if (isOld()) return;
      Object.assign(past, { events: page.events, dispositions });
    } else {
      const than = past.than || (index > 0 ? nameOf(rows[index - 1]) : 0);
      const asked = than && !past.isWhole ? `than=${than}` : "part=dispositions";
      const dispositions = await get(`sessions/${id}/context/${name}?${asked}`);
      if (isOld()) return;
      past.dispositions = dispositions;
      if (past.isRequestShown) loadRequest();
    }
    past.error = "";
  } catch (error) {
    if (isOld()) return;
    past.dispositions = null;
    if (!needsLogin(error)) past.error = failed(error);
  }
  past.isLoading = false;
  say("");
}

async function loadRequest() {
  const { id } = past;
  const name = nameOf(past.rows[indexOf()]);
  try {
    const found = (await get(`sessions/${id}/context/${name}?part=request`)).request;
    if (past.id !== id || name !== nameOf(past.rows[indexOf()])) return;
    past.request = found;
  } catch (error) {
    if (past.id !== id || name !== nameOf(past.rows[indexOf()])) return;
    if (!needsLogin(error)) past.error = failed(error);
  }
  say("");
}
