// Begins: what the screen shows first is painted, and then everything comes at once: what the address
// names, and all modules that it takes. Without this file there is no page.

// What the first view stands on: all at once, not one by one as each names the next.
const FIRST = [
  "app.js",
  "acts.js",
  "api.js",
  "drafts.js",
  "list.js",
  "role.js",
  "state.js",
  "parts/labels.js",
  "parts/lazy.js",
  "parts/role.js",
  "parts/text.js",
  "parts/texts.js",
  "parts/time.js",
  "views/sessions.js",
  "vendor/lit-html/directive-helpers.js",
  "vendor/lit-html/directive.js",
  "vendor/lit-html/directives/repeat.js",
  "vendor/lit-html/lit-html.js",
];

// What the view of a session stands on, beside the page: all at once, not one by one.
const SESSION = [
  "approvals.js",
  "fork.js",
  "parts/bar.js",
  "parts/delivery.js",
  "parts/dispositions.js",
  "parts/entries.js",
  "parts/timing.js",
  "parts/todo.js",
  "parts/transcript.js",
  "vendor/lit-html/directives/live.js",
  "send.js",
  "views/approvals.js",
  "views/session.js",
];

function bring(names) {
  for (const name of names) {
    document.head.append(Object.assign(document.createElement("link"), { rel: "modulepreload", href: name }));
  }
}

function begin() {
  const [, id, more] = /^#\/s\/([^/]+)(.*)$/u.exec(location.hash) ?? [];
  const here = location.href.split("#")[0];
  const ask = (path) => {
    const { href } = new URL(`../api/v1/${path}`, here);
    const answer = fetch(href);
    answer.catch(() => {}); // whoever takes it is told
    self.begun.set(href, answer);
  };
  bring(FIRST);
  import("./app.js").catch(() => {
    const place = document.querySelector("#app > .boot");
    if (place) place.textContent = "The gateway went away while the page was loading. Load it again.";
  });
  if (!location.hash.startsWith("#/login/")) ask("sessions?order=activity&limit=50");
  if (id && !more) {
    for (const path of ["", "/context", "/log?limit=200"]) ask(`sessions/${id}${path}`);
    bring(SESSION);
  }
}

const HIDDEN_MS = 500; // a hidden tab paints nothing
let isBegun = false;

function beginOnce() {
  if (!isBegun) begin();
  isBegun = true;
}

self.begun = new Map(); // address -> its answer on the way; `api.js` takes it from here
requestAnimationFrame(() => setTimeout(beginOnce));
setTimeout(beginOnce, HIDDEN_MS);
