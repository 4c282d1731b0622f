// The scheduled jobs, as they come in the stream, what is done with them, and the form of a new one.

import { call, get, post, Problem } from "./api.js";
import { keep, kept } from "./drafts.js";
import { t } from "./parts/texts.js";
import { may, role } from "./role.js";
import { failed, needsLogin, onFrame, onRefresh, say } from "./state.js";

const PAGE_JOBS = 50;
const RUNS = 10;
const COMING = 3;
const PREVIEW_MS = 300;

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

const written = kept("job"); // before the page was loaded
export const form = { isShown: Boolean(written), fields: written ?? {}, errors: {}, error: "", preview: null, isBusy: false };

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
  if (form.isShown && !form.preview) preview(); // written before the page was loaded
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

// --- a new one ---

export function showForm(isShown) {
  form.isShown = isShown;
  form.fields.timezone ??= Intl.DateTimeFormat().resolvedOptions().timeZone;
  form.fields.kind ??= "task";
  form.fields.how ??= "cron";
  if (!isShown) keep(null, "job"); // as long as the page lives, it still has it
  say("");
}

let previewing = 0;
let asked = 0;

export function setField(name, value) {
  form.fields[name] = value;
  keep(form.fields, "job");
  delete form.errors[name];
  if (["how", "when", "timezone"].includes(name)) {
    clearTimeout(previewing);
    previewing = setTimeout(preview, PREVIEW_MS);
  }
  say("");
}

function times() {
  const { how, when, timezone } = form.fields;
  return { [how]: (when ?? "").trim(), ...(timezone ? { timezone: timezone.trim() } : {}) };
}

async function preview() {
  const mine = ++asked;
  form.preview = null;
  form.errors = {};
  form.error = "";
  if (form.fields.when?.trim()) {
    try {
      const found = await post("schedules/preview?count=5", times());
      if (mine === asked) form.preview = found;
    } catch (error) {
      if (mine === asked) showFaults(error);
    }
  }
  say("");
}

export async function makeJob(agents) {
  const { agent, kind, text, channel, chat, label } = form.fields;
  clearTimeout(previewing); // what is wrong stands there in a moment, and stays
  form.isBusy = true;
  say("");
  const body = { agent: agent ?? agents[0]?.name ?? "", [kind]: text ?? "", ...times() };
  if (label) body.label = label;
  if (channel || chat) body.to = { channel: channel ?? "", chat: chat ?? "" };
  try {
    const made = await post("schedules", body);
    Object.assign(form, { isShown: false, fields: {}, errors: {}, error: "", preview: null });
    keep(null, "job");
    say(t("The job was made."));
    location.hash = `#/schedules/${encodeURIComponent(made.id)}`;
  } catch (error) {
    showFaults(error);
  }
  form.isBusy = false;
  say("");
}

// What is wrong stands at its field, and above the button where it is no field of the form.
function showFaults(error) {
  if (needsLogin(error)) return;
  const where = { at: "when", every: "when", cron: "when", task: "text", message: "text" };
  const faults = error instanceof Problem ? (error.document.errors ?? []) : [];
  form.errors = {};
  const others = [];
  for (const { pointer, detail } of faults) {
    const [, first, second] = (pointer ?? "").split("/");
    const name = second ?? where[first] ?? first;
    if (["when", "timezone", "text", "agent", "channel", "chat", "label"].includes(name)) form.errors[name] = detail;
    else others.push(detail);
  }
  form.error = others.join("; ") || (faults.length ? "" : failed(error));
}

onRefresh(loadJobs);
onFrame("schedules", ({ schedules, gone, fresh }) => {
  if (fresh) loadJobs();
  for (const id of [...gone, ...schedules.map((each) => each.id)]) told.add(id);
  for (const id of gone) jobs.rows.delete(id);
  for (const each of schedules) jobs.rows.set(each.id, each);
  if (schedules.some(({ id }) => id === jobs.opened)) loadComing();
});
