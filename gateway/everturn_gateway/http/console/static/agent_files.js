// The files of an agent, for whoever reads or edits them.

import { agents, loadFaults, pathOf } from "./agents.js";
import { call, get, post } from "./api.js";
import { keep, kept } from "./drafts.js";
import { t } from "./parts/texts.js";
import { failed, needsLogin, say } from "./state.js";

const fileOf = (name, path) => `${pathOf(name)}/files/${path.split("/").map(encodeURIComponent).join("/")}`;

export async function openFiles(name, path, isStill) {
  if (agents.file?.name !== name || agents.file.path !== path) agents.file = null;
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
