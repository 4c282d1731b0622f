// Connects this tab to the one stream of its browser.

import { makeLive } from "./live.js";

const PING_MS = 20_000;

// Trusted Types: the one address that a worker may come from.
const made = { createScriptURL: () => new URL("worker.js", location.href.split("#")[0]).href };
const policy = self.trustedTypes?.createPolicy("everturn", made) ?? made;

// Where there is no shared worker, or it does not come, the tab has a stream of its own.
export function connect(onMessage) {
  let watched = ["", 0];
  let way;
  const alone = () => {
    way = inPage(onMessage);
    way.watch(...watched);
  };
  try {
    way = shared(onMessage, alone);
  } catch {
    alone(); // a browser has none, or may keep nothing
  }
  addEventListener("pageshow", (event) => {
    if (event.persisted) location.reload();
  });
  return {
    watch(id, after) {
      watched = [id, after];
      way.watch(id, after);
    },
  };
}

function shared(onMessage, instead) {
  const worker = new SharedWorker(policy.createScriptURL(""), { type: "module", name: "everturn" });
  const pinging = setInterval(() => worker.port.postMessage({ type: "ping" }), PING_MS);
  worker.port.onmessage = ({ data }) => onMessage(data);
  worker.onerror = () => {
    clearInterval(pinging);
    worker.port.onmessage = null;
    worker.onerror = null;
    instead();
  };
  addEventListener("pagehide", () => worker.port.postMessage({ type: "bye" }));
  return { watch: (id, after) => worker.port.postMessage({ type: "watch", id, after }) };
}

function inPage(onMessage) {
  const live = makeLive(onMessage);
  live.open();
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) live.close();
    else live.open();
  });
  return { watch: (id, after) => live.watch(id ? new Map([[id, after]]) : new Map(), id) };
}
