// What was written or added in a session and is not sent yet: texts outlive the page, files a look elsewhere.

import { address } from "./api.js";

const added = new Map(); // files by session

export const keptFiles = (id) => added.get(id) ?? [];

export function setFiles(session, files) {
  session.files = files;
  session.key = ""; // with other files it is another message
  if (files.length) added.set(session.id, files);
  else added.delete(session.id);
}

const draftKey = (id) => `everturn draft ${address("")} ${id}`;

export function keepDraft(session) {
  try {
    const { draft, key } = session;
    if (draft) localStorage.setItem(draftKey(session.id), JSON.stringify({ text: draft, key }));
    else localStorage.removeItem(draftKey(session.id));
  } catch {
    // a browser that keeps nothing
  }
}

export function readDraft(id) {
  try {
    return JSON.parse(localStorage.getItem(draftKey(id)) ?? "{}");
  } catch {
    return {};
  }
}
