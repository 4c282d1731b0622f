// The agents, and one of them with its faults.

import { get, post } from "./api.js";
import { once } from "./parts/lazy.js";
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
export const pathOf = (name) => `admin/agents/${encodeURIComponent(name)}`;

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

const openFiles = once("agent_files", "openFiles");
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

// Agents were read anew, or the gateway is back.
async function refresh() {
  await loadFaults();
  if (state.route.view === "agents") reopen();
}

onRefresh(refresh);
onFrame("agents", refresh);
