// What a person does with a session as a whole.

import { call, post } from "./api.js";
import { keepDraft } from "./drafts.js";
import { failed, fault, loadDocument, needsLogin, say, state } from "./state.js";

export async function act(session, action, done) {
  session.errors.delete("act");
  try {
    await post(`sessions/${session.id}/${action}`);
    say(done);
    loadDocument(session);
  } catch (error) {
    fault(session, "act", error);
    say("");
  }
}

let labelling = Promise.resolve(); // one after another: what was chosen last is what stands

// All that show the session hear of it by the stream.
export function label(id, labels, done) {
  labelling = labelling.then(async () => {
    try {
      await call("PATCH", `api/v1/sessions/${id}`, labels);
      say(done);
      if (state.session?.id === id) loadDocument(state.session);
    } catch (error) {
      if (!needsLogin(error)) say(failed(error));
    }
  });
}

export async function remove(session) {
  try {
    await call("DELETE", `api/v1/sessions/${session.id}`);
    keepDraft({ ...session, draft: "" });
    location.hash = "#/";
  } catch (error) {
    fault(session, "act", error);
    say("");
  }
}

export async function begin(agent) {
  try {
    const made = await post("sessions", { agent });
    location.hash = `#/s/${made.id}`;
  } catch (error) {
    if (!needsLogin(error)) say(failed(error));
  }
}
