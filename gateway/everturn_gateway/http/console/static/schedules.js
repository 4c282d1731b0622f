// The scheduled jobs, as they come in the stream, and what is done with them.

import { call, get, post } from "./api.js";
import { may, role } from "./role.js";
import { failed, needsLogin, onFrame, onRefresh, say } from "./state.js";

const PAGE_JOBS = 50;
const RUNS = 10;
const COMING = 3;

export const jobs = {
  rows: new Map(), // by id
  faults: [],
  next: null,
  isLoading: true,
  error: "",
  opened: "", // the id of the job that is looked into
  coming: null, // its next times
  busy: "", // the id of the job with which something is done
  actError: "",
  comingError: "",
};

export const stuckJobs = () => [...jobs.rows.values()].filter((each) => each.state === "waiting").length;

let asking = 0;
const told = new Set(); // jobs that the stream told of since the list was asked for: newer than its answer

export async function loadJobs({ more = false } = {}) {
  if (!role.me || !may("operate")) return;
  const mine = ++asking;
  told.clear();
  jobs.isLoading = true;
  const after = more && jobs.next ? `&after=${encodeURIComponent(jobs.next)}` : "";
  try {
    const page = await get(`schedules?limit=${PAGE_JOBS}&runs=${RUNS}${after}`);
    if (mine !== asking) return;
    if (!more) {
      jobs.rows = new Map([...jobs.rows].filter(([id]) => told.has(id)));
      jobs.faults = page.faults;
    }
    for (const each of page.schedules) if (!told.has(each.id)) jobs.rows.set(each.id, each);
    jobs.next = page.next;
    jobs.error = "";
  } catch (error) {
    if (mine !== asking) return;
    if (!needsLogin(error)) jobs.error = failed(error);
  }
  jobs.isLoading = false;
  if (jobs.opened) loadComing();
  say("");
}

export function openSchedules(id) {
  jobs.opened = id;
  jobs.coming = null;
  jobs.actError = "";
  jobs.comingError = "";
  if (id) loadComing();
}

let looking = 0; // the answer to the newest look at the next times is shown

async function loadComing() {
  const id = jobs.opened;
  const mine = ++looking;
  try {
    const found = jobs.rows.get(id) ?? (await get(`schedules/${encodeURIComponent(id)}`));
    const coming = await get(`schedules/${encodeURIComponent(id)}/next?count=${COMING}`);
    if (mine !== looking) return;
    if (!jobs.rows.has(id) && !told.has(id)) jobs.rows.set(id, found); // else it is newer, or gone
    Object.assign(jobs, { coming, comingError: "" });
  } catch (error) {
    if (!needsLogin(error) && mine === looking) jobs.comingError = failed(error);
  }
  say("");
}

export async function actOn(id, action, done) {
  jobs.busy = id;
  jobs.actError = "";
  say("");
  const path = `schedules/${encodeURIComponent(id)}`;
  try {
    if (action === "cancel") {
      await call("DELETE", `api/v1/${path}`);
      location.hash = "#/schedules";
    } else {
      await post(`${path}/${action}`);
    }
    say(done);
  } catch (error) {
    if (!needsLogin(error)) jobs.actError = failed(error);
  }
  jobs.busy = "";
  say("");
}

onRefresh(loadJobs);
onFrame("schedules", ({ schedules, gone, fresh }) => {
  if (fresh) loadJobs();
  for (const id of [...gone, ...schedules.map((each) => each.id)]) told.add(id);
  for (const id of gone) jobs.rows.delete(id);
  for (const each of schedules) jobs.rows.set(each.id, each);
  if (schedules.some(({ id }) => id === jobs.opened)) loadComing();
});
