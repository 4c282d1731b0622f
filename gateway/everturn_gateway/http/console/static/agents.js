// One agent, its faults and its files, for whoever looks at them or edits them.

import { call, get, post } from "./api.js";
import { keep, kept } from "./drafts.js";
import { t } from "./parts/texts.js";
import { may } from "./role.js";
import { failed, needsLogin, onFrame, onRefresh, refreshAgents, say, state } from "./state.js";

export const agents = {
  faults: null, // of all, for administrators; null = not known
  name: "",
  opened: [], // what the address names below the agents
  part: "", // memory or skills, where one of them is read
  known: null, // what stands there
  detail: null,
  error: null, // what keeps the agent from being shown
  validated: null, // faults of the agent as it stands, or of what is typed
  isBusy: false,
  files: null,
  filesError: null,
  file: null, // {path, version, text, draft, isNew, theirs, error, faults, isSaving}
};

export const faultyAgents = () => agents.faults?.length ?? 0;
// Of an agent that cannot be used, by its folder.
export const faultsOf = (name) => (state.agents.some((each) => each.name === name) ? [] : (agents.faults ?? []).filter(({ file }) => folderOf(file) === name));
export const folderOf = (file) => /([^/]+)\/agent\.ya?ml$/u.exec(file)?.[1] ?? "";
const pathOf = (name) => `admin/agents/${encodeURIComponent(name)}`;
const fileOf = (name, path) => `${pathOf(name)}/files/${path.split("/").map(encodeURIComponent).join("/")}`;

export async function loadFaults() {
  if (!may("admin")) agents.faults = null;
  else {
    try {
      agents.faults = (await get("admin/agents")).faults;
    } catch {
      agents.faults = null; // the list stands without them
    }
  }
  say("");
}

let opening = 0; // what was asked for before something else was opened, is let go

export async function openAgents(name, part, ...path) {
  const mine = ++opening;
  agents.opened = [name, part, ...path];
  if (name !== agents.name) Object.assign(agents, { name, known: null, detail: null, error: null, validated: null, files: null, filesError: null });
  if (!name) {
    agents.file = null;
    refreshAgents();
    await loadFaults();
    return;
  }
  if (part === "files") {
    await openFiles(name, path.join("/"), () => mine === opening);
    return;
  }
  agents.file = null;
  agents.files = null;
  agents.filesError = null;
  const isRead = part === "memory" || part === "skills";
  if (!isRead || part !== agents.part) agents.known = null;
  agents.part = isRead ? part : "";
  if (!agents.faults) await loadFaults();
  if (mine !== opening) return;
  if (!isRead && faultsOf(name).length) {
    agents.error = null; // it is not among those that can be used: its faults stand in its place
    say("");
    return;
  }
  try {
    const path = `agents/${encodeURIComponent(name)}`;
    const found = await get(isRead ? `${path}/${part}` : path);
    if (mine !== opening) return;
    agents[isRead ? "known" : "detail"] = found;
    agents.error = null;
  } catch (error) {
    if (mine !== opening) return;
    if (!needsLogin(error)) agents.error = error;
  }
  say("");
}

export const reopen = () => openAgents(...agents.opened);

export async function reload() {
  agents.isBusy = true;
  say("");
  try {
    const { added, changed, removed, faults } = await post("admin/reload");
    Object.assign(agents, { faults, validated: null });
    refreshAgents();
    const many = added.length + changed.length + removed.length;
    say(many ? t("Agents added: {added}, changed: {changed}, removed: {removed}.", { added: added.length, changed: changed.length, removed: removed.length }) : t("Nothing has changed."));
  } catch (error) {
    if (!needsLogin(error)) say(failed(error));
  }
  agents.isBusy = false;
  say("");
}

export async function validate() {
  agents.isBusy = true;
  say("");
  try {
    agents.validated = (await post(`${pathOf(agents.name)}/validate`, { files: {} })).faults;
  } catch (error) {
    if (!needsLogin(error)) say(failed(error));
  }
  agents.isBusy = false;
  say("");
}

// --- files ---

async function openFiles(name, path, isStill) {
  if (agents.file?.path !== path) agents.file = null;
  say("");
  try {
    const { files } = await get(`${pathOf(name)}/files`);
    if (!isStill()) return;
    Object.assign(agents, { files, filesError: null });
    if (path && !agents.file) await openFile(name, path, isStill);
  } catch (error) {
    if (!isStill()) return;
    if (!needsLogin(error)) agents.filesError = error;
  }
  say("");
}

async function openFile(name, path, isStill) {
  const typed = kept("file", name, path);
  let found = { path, version: "", text: "" };
  try {
    found = await get(fileOf(name, path));
  } catch (error) {
    if (error.status !== 404) throw error;
  }
  if (!isStill()) return;
  // What was typed before stands on the version that it was typed into.
  agents.file = {
    ...found,
    isNew: !found.version,
    name,
    version: typed && typed.text !== found.text ? typed.version : found.version,
    draft: typed ? typed.text : found.text,
    theirs: null,
    error: "",
    faults: null,
    isSaving: false,
  };
}

export const isChanged = (file) => file.draft !== file.text;

export function type(text) {
  agents.file.draft = text;
  keepDraft(agents.file);
  say("");
}

export async function check() {
  await withFile(async (file) => {
    file.faults = (await post(`${pathOf(file.name)}/validate`, { files: { [file.path]: file.draft } })).faults;
  });
}

export async function save() {
  await withFile(async (file) => {
    const { name, draft: sent } = file;
    const headers = file.version ? { "If-Match": `"${file.version}"` } : { "If-None-Match": "*" };
    try {
      const { version, faults } = await call("PUT", `api/v1/${fileOf(name, file.path)}`, { text: sent }, headers);
      Object.assign(file, { text: sent, version, faults, theirs: null, isNew: false });
      keepDraft(file);
      say(faults.length ? t("Saved. The agent goes on as it was before until its faults are mended.") : t("Saved."));
      loadFaults();
    } catch (error) {
      if (error.status !== 412) throw error;
      file.theirs = await get(fileOf(name, file.path));
    }
  });
}

export function takeTheirs() {
  const { file } = agents;
  const { version, text } = file.theirs;
  Object.assign(file, { version, text, draft: text, theirs: null, faults: null });
  keepDraft(file);
  say("");
}

export function replaceTheirs() {
  const { file } = agents;
  Object.assign(file, { version: file.theirs.version, text: file.theirs.text, theirs: null });
  save();
}

async function withFile(work) {
  const { file } = agents;
  if (file.isSaving) return;
  file.isSaving = true;
  file.error = "";
  say("");
  try {
    await work(file);
  } catch (error) {
    if (!needsLogin(error)) file.error = `${failed(error)} ${t("What you wrote is kept.")}`;
  }
  file.isSaving = false;
  say("");
}

// Kept in the browser until it is saved: a reload, a logout or a lost gateway costs nothing.
const keepDraft = (file) =>
  keep(isChanged(file) ? { version: file.version, text: file.draft } : null, "file", file.name, file.path);

// Agents were read anew, or the gateway is back.
async function refresh() {
  await loadFaults();
  if (state.route.view === "agents") reopen();
}

onRefresh(refresh);
onFrame("agents", refresh);
