// Sends what was written in a session; what cannot be sent stays where it was written.

import { post } from "./api.js";
import { keepDraft, setFiles } from "./drafts.js";
import { t } from "./parts/texts.js";
import { failed, needsLogin, say, state } from "./state.js";

export async function send(session, newKey) {
  const { draft, files } = session;
  const text = draft.trim();
  if ((!text && !files.length) || session.isSending) return;
  // The key is made with the draft, so that the same message sent again is not said twice.
  session.key ||= newKey();
  session.isSending = true;
  session.sendError = "";
  keepDraft(session);
  say("");
  const body = { content: text };
  if (files.length) {
    body.attachments = files.map(({ name, type, data }) => ({
      media_type: type || "application/octet-stream",
      data,
      file_name: name,
    }));
  }
  try {
    await post(`sessions/${session.id}/messages`, body, {
      "Idempotency-Key": session.key,
      Prefer: "respond-async",
    });
    // Whoever looked elsewhere meanwhile and came back has another picture of the same session.
    for (const each of new Set([session, state.session])) if (each?.id === session.id) wasSent(each, draft, files);
  } catch (error) {
    if (session.draft !== draft) session.key = ""; // it is another message by now
    if (!needsLogin(error)) session.sendError = t("Not sent: {reason} What you wrote is kept.", { reason: failed(error) });
  }
  session.isSending = false;
  say("");
}

// What was written or added meanwhile is no part of it, and stays.
function wasSent(session, draft, files) {
  if (session.draft.startsWith(draft)) session.draft = session.draft.slice(draft.length);
  setFiles(session, session.files.filter((each) => !files.includes(each)));
  session.follows = true;
  keepDraft(session);
}
