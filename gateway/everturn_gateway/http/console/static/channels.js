// The channels and who asks to be let in there, as they come in the stream.

import { call, get, post } from "./api.js";
import { t } from "./parts/texts.js";
import { may, role } from "./role.js";
import { failed, needsLogin, onFrame, onRefresh, say } from "./state.js";

export const channels = { rows: [], isLoading: true, error: "", checks: new Map() };
export const pairing = { waiting: [], approved: [], version: -1, busy: "", error: "", actError: "" };

const isValid = (each) => new Date(each.expires_at) > Date.now();
export const askingPeople = () => pairing.waiting.filter(isValid);
export const wantingChannels = () =>
  askingPeople().length + channels.rows.filter((each) => each.state === "failed setup").length;

let told = 0; // counts what told of the channels: an answer is let go when something newer did
let asked = 0; // for who waits: the answer to the newest question is shown

async function load() {
  if (!role.me || !may("operate")) return;
  const mine = ++told;
  try {
    const found = await get("channels");
    if (mine === told) Object.assign(channels, { rows: found.channels, error: "" });
  } catch (error) {
    if (!needsLogin(error) && mine === told) channels.error = failed(error);
  }
  channels.isLoading = false;
  await loadPairing();
}

async function loadPairing() {
  const mine = ++asked;
  try {
    const { waiting, approved } = await get("pairing");
    if (mine === asked) Object.assign(pairing, { waiting, approved, error: "" });
  } catch (error) {
    if (!needsLogin(error) && mine === asked) pairing.error = failed(error);
  }
  say("");
}

// Approvals of the command line come in no frame.
export function openChannels() {
  pairing.actError = "";
  load();
}

export async function check(name) {
  channels.checks.set(name, { isBusy: true });
  say("");
  try {
    channels.checks.set(name, await post(`admin/channels/${encodeURIComponent(name)}/check`));
  } catch (error) {
    if (!needsLogin(error)) channels.checks.set(name, { error: failed(error) });
  }
  say("");
}

async function act(what, work, done) {
  pairing.busy = what;
  pairing.actError = "";
  say("");
  try {
    await work();
    say(done);
  } catch (error) {
    if (!needsLogin(error)) pairing.actError = failed(error);
  }
  pairing.busy = "";
  await loadPairing();
}

export const letIn = ({ code }) => act(code, () => post("admin/pairing/approve", { code }), t("Let in."));
export const turnAway = ({ code }) => act(code, () => post("admin/pairing/deny", { code }), t("Turned away."));
export const takeBack = ({ channel, sender }) =>
  act(
    `${channel} ${sender}`,
    () => call("DELETE", `api/v1/admin/pairing/${encodeURIComponent(channel)}/${encodeURIComponent(sender)}`),
    t("Taken back."),
  );

onRefresh(load);
onFrame("channels", ({ channels: rows, pairing: version }) => {
  told += 1;
  Object.assign(channels, { rows, isLoading: false, error: "" });
  if (version !== pairing.version) loadPairing();
  pairing.version = version;
});
