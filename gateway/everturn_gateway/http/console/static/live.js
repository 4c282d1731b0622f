// The one stream of a browser: runs in the shared worker, or in the page where there is none.

const FRAMES = ["hello", "rows", "event", "token", "ended", "approvals", "channels", "schedules", "agents"];
const FIRST_WAIT_MS = 250;
const LONGEST_WAIT_MS = 1500; // somebody may watch a restart
const WATCHED_MOST = 8;

export function makeLive(post) {
  const here = self.location.href;
  const positions = new Map(); // session -> the last event that was handed on
  let source = null;
  let place = ""; // run of the gateway and version of rows
  let waitMs = FIRST_WAIT_MS;
  let timer = 0;
  let opened = 0; // counts what was opened and closed: who waited meanwhile is not wanted any more
  let hello = null;

  function close() {
    opened += 1;
    clearTimeout(timer);
    if (source) source.close();
    source = null;
  }

  function open() {
    close();
    const url = new URL("../api/v1/stream", here);
    for (const [id, seq] of positions) url.searchParams.append("watch", `${id}:${seq}`);
    if (place) url.searchParams.set("cursor", place);
    const mine = new EventSource(url);
    source = mine;
    for (const name of FRAMES) {
      mine.addEventListener(name, (message) => {
        if (mine === source) handle(name, message);
      });
    }
    mine.onopen = () => {
      waitMs = FIRST_WAIT_MS;
    };
    mine.onerror = () => {
      if (mine !== source) return;
      post({ type: "lost" });
      // Any status but 200 ends an EventSource for good.
      if (mine.readyState === EventSource.CLOSED) again();
    };
  }

  function handle(name, message) {
    const data = JSON.parse(message.data);
    if (message.lastEventId) place = `${message.lastEventId.split(".").slice(0, 2).join(".")}.`;
    if (name === "hello") hello = data;
    if (name === "event" && positions.has(data.session_id)) {
      positions.set(data.session_id, data.seq);
    }
    post({ type: name, data });
  }

  async function again() {
    close();
    const mine = opened;
    try {
      const answer = await fetch(new URL("../api/v1/sessions?limit=1", here));
      if (mine !== opened) return;
      if (answer.status === 401) {
        post({ type: "login" });
        return;
      }
      if (answer.ok) waitMs = FIRST_WAIT_MS;
    } catch {
      if (mine !== opened) return; // else it is away
    }
    timer = setTimeout(open, waitMs);
    waitMs = Math.min(waitMs * 2, LONGEST_WAIT_MS);
  }

  return {
    open,
    close,
    hello: () => hello && source && { ...hello, fresh: true },
    // Sessions that somebody looks at, each with the last event that is known there.
    watch(wanted, begun) {
      let has_changed = Boolean(begun);
      for (const id of [...positions.keys()]) {
        if (!wanted.has(id)) {
          positions.delete(id);
          has_changed = true;
        }
      }
      for (const [id, seq] of [...wanted].slice(0, WATCHED_MOST)) {
        const known = positions.get(id);
        if (known === undefined || id === begun) {
          positions.set(id, Math.min(known ?? seq, seq));
          has_changed = true;
        }
      }
      // A new connection brings the text of a running reply from its beginning.
      if (has_changed || !source) open();
    },
  };
}
