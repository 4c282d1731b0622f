// Sends what was written in a session; what cannot be sent stays where it was written.

import { post } from "./api.js";
import { forgetFiles, keepDraft } from "./drafts.js";
import { t } from "./parts/texts.js";
import { failed, needsLogin, say } from "./state.js";

export async function send(session, newKey) {
  const text = session.draft.trim();
  if ((!text && !session.files.length) || session.isSending) return;
  // The key is made with the draft, so that the same message sent again is not said twice.
  session.key ||= newKey();
  session.isSending = true;
  session.sendError = "";
  keepDraft(session);
  say("");
  const body = { content: text };
  if (session.files.length) {
    body.attachments = session.files.map(({ name, type, data }) => ({
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
    session.draft = "";
    session.files = [];
    forgetFiles(session);
    session.key = "";
    session.follows = true;
    keepDraft(session);
  } catch (error) {
    if (!needsLogin(error)) session.sendError = t("Not sent: {reason} What you wrote is kept.", { reason: failed(error) });
  }
  session.isSending = false;
  say("");
}
