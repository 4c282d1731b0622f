// Connects this tab to the one stream of its browser.

import { makeLive } from "./live.js";

const PING_MS = 20_000;

export function connect(onMessage) {
  return typeof SharedWorker === "undefined" ? inPage(onMessage) : shared(onMessage);
}

function shared(onMessage) {
  // Trusted Types: the one address that a worker may come from.
  const made = { createScriptURL: () => new URL("worker.js", location.href.split("#")[0]).href };
  const url = self.trustedTypes
    ? trustedTypes.createPolicy("everturn", made).createScriptURL("")
    : made.createScriptURL();
  const worker = new SharedWorker(url, { type: "module", name: "everturn" });
  worker.port.onmessage = ({ data }) => onMessage(data);
  setInterval(() => worker.port.postMessage({ type: "ping" }), PING_MS);
  addEventListener("pagehide", () => worker.port.postMessage({ type: "bye" }));
  addEventListener("pageshow", (event) => {
    if (event.persisted) location.reload();
  });
  return {
    watch: (id, after) => worker.port.postMessage({ type: "watch", id, after }),
    open: () => worker.port.postMessage({ type: "open" }),
  };
}

function inPage(onMessage) {
  const live = makeLive(onMessage);
  let watched = new Map();
  live.open();
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) live.close();
    else live.open();
  });
  return {
    watch(id, after) {
      watched = id ? new Map([[id, after]]) : new Map();
      live.watch(watched, id);
    },
    open: () => live.open(),
  };
}
