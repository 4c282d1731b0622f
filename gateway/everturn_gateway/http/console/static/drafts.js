// What was written or added and is not sent yet: texts outlive the page, files a look elsewhere.

import { address } from "./api.js";

const added = new Map(); // files by session

// A reload would lose them, and the browser asks first.
addEventListener("beforeunload", (event) => added.size && event.preventDefault());

export const keptFiles = (id) => added.get(id) ?? [];

export function setFiles(session, files) {
  session.files = files;
  session.key = ""; // with other files it is another message
  if (files.length) added.set(session.id, files);
  else added.delete(session.id);
}

// By the kind of what is written, and the names of what it belongs to; null is forgotten.
const keyOf = (kind, names) => [`everturn ${kind}`, address(""), ...names].join(" ");

export function keep(value, kind, ...names) {
  try {
    if (value === null) localStorage.removeItem(keyOf(kind, names));
    else localStorage.setItem(keyOf(kind, names), JSON.stringify(value));
  } catch {
    // a browser that keeps nothing
  }
}

export function kept(kind, ...names) {
  try {
    return JSON.parse(localStorage.getItem(keyOf(kind, names)));
  } catch {
    return null;
  }
}

export const keepDraft = ({ id, draft, key }) => keep(draft ? { text: draft, key } : null, "draft", id);
export const readDraft = (id) => kept("draft", id) ?? {};
