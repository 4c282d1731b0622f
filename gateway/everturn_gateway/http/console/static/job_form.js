// The form of a new job: what is typed outlives the page, and its times are shown before it is made.

import { post, Problem } from "./api.js";
import { keep, kept } from "./drafts.js";
import { t } from "./parts/texts.js";
import { failed, needsLogin, say } from "./state.js";

const PREVIEW_MS = 300;

const written = kept("job"); // before the page was loaded
export const form = { isShown: Boolean(written), fields: written ?? {}, errors: {}, error: "", preview: null, isBusy: false };

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

if (form.isShown) preview();
