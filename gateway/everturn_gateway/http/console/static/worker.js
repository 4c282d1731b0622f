// A browser has six connections to a host for all tabs together: this worker holds the only stream.

import { makeLive } from "./live.js";

const SILENT_MS = 150_000; // timers of hidden tabs run once a minute
const tabs = new Map(); // port -> {watch, heardAt}

const live = makeLive((message) => {
  for (const port of tabs.keys()) port.postMessage(message);
});

function wanted() {
  const found = new Map();
  for (const { watch } of tabs.values()) {
    if (watch) found.set(watch.id, Math.min(found.get(watch.id) ?? Infinity, watch.after));
  }
  return found;
}

setInterval(() => {
  const before = tabs.size;
  for (const [port, tab] of tabs) {
    if (Date.now() - tab.heardAt > SILENT_MS) tabs.delete(port);
  }
  if (tabs.size === 0) live.close();
  else if (tabs.size !== before) live.watch(wanted(), "");
}, SILENT_MS / 5);

self.onconnect = ({ ports: [port] }) => {
  tabs.set(port, { watch: null, heardAt: Date.now() });
  const hello = live.hello();
  if (hello) port.postMessage({ type: "hello", data: hello });
  else live.open();
  port.onmessage = ({ data }) => {
    const tab = tabs.get(port) ?? { watch: null };
    tab.heardAt = Date.now();
    tabs.set(port, tab);
    if (data.type === "bye") {
      tabs.delete(port);
      live.watch(wanted(), "");
      if (tabs.size === 0) live.close();
    } else if (data.type === "watch") {
      tab.watch = data.id ? { id: data.id, after: data.after } : null;
      live.watch(wanted(), data.id);
    }
  };
};
