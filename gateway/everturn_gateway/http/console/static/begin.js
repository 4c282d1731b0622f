// Asks for what the address names while the modules are on their way. Behind them it does nothing.

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

if (!self.begun) {
  self.begun = new Map(); // address -> its answer on the way; `api.js` takes it from here
  const [, id, more] = /^#\/s\/([^/]+)(.*)$/u.exec(location.hash) ?? [];
  const here = location.href.split("#")[0];
  const ask = (path) => {
    const { href } = new URL(`../api/v1/${path}`, here);
    const answer = fetch(href);
    answer.catch(() => {}); // whoever takes it is told
    self.begun.set(href, answer);
  };
  if (!location.hash.startsWith("#/login/")) ask("sessions?order=activity&limit=50");
  if (id && !more) {
    for (const path of ["", "/context", "/log?limit=200"]) ask(`sessions/${id}${path}`);
    for (const name of SESSION) {
      document.head.append(Object.assign(document.createElement("link"), { rel: "modulepreload", href: name }));
    }
  }
}
