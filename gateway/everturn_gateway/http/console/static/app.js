// The shell: which view is shown, what stands around it, and when it is drawn.

import { html, nothing, render } from "./vendor/lit-html/lit-html.js";
import { login, logout } from "./api.js";
import { afterRole, roleDialog, roleLine } from "./parts/role.js";
import { plain } from "./parts/text.js";
import { choose, language, LANGUAGES, rich, t } from "./parts/texts.js";
import { when } from "./parts/time.js";
import { role } from "./role.js";
import { closeSession, failed, onChange, openSession, start, state } from "./state.js";
import { approvalsView } from "./views/approvals.js";
import { loginView } from "./views/login.js";
import { afterSession, sessionView } from "./views/session.js";
import { sessionsView } from "./views/sessions.js";

const place = document.getElementById("app");
const PLACES = [
  ["sessions", "#/", t("Sessions"), "M4 6h16M4 12h16M4 18h10"],
  ["approvals", "#/approvals", t("Approvals"), "M5 13l4 4L19 7"],
];
let isPlanned = false;
let isEmptied = false;

function plan() {
  if (isPlanned) return;
  isPlanned = true;
  // Hidden tabs get no frames of the screen: what came would be drawn at once, later.
  if (document.hidden) setTimeout(drawNow, 250);
  else requestAnimationFrame(drawNow);
}

function drawNow() {
  isPlanned = false;
  if (!isEmptied) place.replaceChildren(); // lit-html renders beside what stands there
  isEmptied = true;
  const waiting = state.approvals.items.length;
  document.title = `${waiting ? `(${waiting}) ` : ""}${titleOf()} - Everturn`;
  render(state.connection === "login" ? loginView(signIn) : shell(), place);
  if (state.route.view === "session") afterSession();
  afterRole();
}

function titleOf() {
  if (state.route.view === "approvals") return t("Approvals");
  if (state.route.view === "session") {
    const id = state.session?.id;
    return plain(state.list.rows.get(id)?.title || state.session?.document?.chat || t("Session"));
  }
  return t("Sessions");
}

const icon = (path) => html`<svg viewBox="0 0 24 24" aria-hidden="true"><path d=${path}></path></svg>`;

function shell() {
  const { view } = state.route;
  const waiting = state.approvals.items.length;
  return html`
    <a class="skip" href="#main" @click=${skip}>${t("Skip to content")}</a>
    <nav class="side" aria-label=${t("Places")}>
      <a class="brand" href="#/"><svg viewBox="0 0 32 32" aria-hidden="true"><rect width="32" height="32" rx="8"></rect><path d="M22.5 11.2A8 8 0 1 0 24 16h-4"></path></svg><span>Everturn</span></a>
      ${PLACES.map(([name, href, label, path]) => {
        const isHere = name === view || (name === "sessions" && view === "session");
        return html`<a class="place" href=${href} aria-current=${isHere ? "page" : nothing}>
          ${icon(path)}<span>${label}</span>
          ${name === "approvals" && waiting ? html`<b class="badge">${waiting}<span class="hidden"> ${t("waiting")}</span></b>` : nothing}
        </a>`;
      })}
      <div class="foot">
        ${connection()}
        ${state.isOutdated ? html`<button @click=${() => location.reload()}>${t("Reload: new version")}</button>` : nothing}
        ${state.hello ? html`<span class="faint version">${t("version {version}", { version: state.hello.version })}</span>` : nothing}
        ${roleLine()}
        ${role.me?.is_login ? html`<button class="plain leave" @click=${leave}>${t("Log out")}</button>` : nothing}
        ${languages()}
      </div>
    </nav>
    <main id="main" tabindex="-1" class=${view}>${viewOf(view)}</main>
    ${roleDialog()}
    <p class=${state.note ? "toast" : "hidden"} role="status" aria-live="polite">${state.note}</p>
  `;
}

const languages = () => html`<select class="language" aria-label=${t("Language")} @change=${(e) => choose(e.target.value)}>
  ${Object.entries(LANGUAGES).map(([tag, name]) => html`<option value=${tag} lang=${tag} ?selected=${tag === language}>${name}</option>`)}
</select>`;

function connection() {
  const { connection: how, restartedAt } = state;
  if (how === "lost") {
    return html`<span class="state lost" role="status"><i></i>${t("connection lost, trying again")}</span>`;
  }
  if (how === "connecting") return html`<span class="state"><i></i>${t("connecting")}</span>`;
  return html`<span class="state live"><i></i>${restartedAt ? rich("live, restarted {time}", { time: when(restartedAt) }) : t("live")}</span>`;
}

function viewOf(view) {
  if (view === "approvals") return approvalsView();
  if (view === "session" && state.session) return sessionView(state.session);
  return sessionsView();
}

function skip(event) {
  event.preventDefault();
  document.getElementById("main").focus();
}

async function signIn(token) {
  try {
    await login(token);
    location.replace(location.href.split("#")[0]);
    location.reload();
  } catch (error) {
    state.connection = "login";
    state.loginError = failed(error);
    plan();
  }
}

async function leave() {
  try {
    await logout();
  } catch {
    // without a login there is none to end
  }
  location.hash = "#/";
  location.reload();
}

function route() {
  const parts = location.hash.replace(/^#\/?/u, "").split("/").filter(Boolean);
  if (parts[0] === "login" && parts[1]) {
    // A link that works once; it does not stay in the address.
    history.replaceState(null, "", "#/");
    signIn(parts[1]);
    return;
  }
  if (parts[0] === "s" && parts[1]) {
    state.route = { view: "session", id: parts[1] };
    openSession(decodeURIComponent(parts[1]));
  } else {
    closeSession();
    state.route = { view: parts[0] === "approvals" ? "approvals" : "sessions" };
  }
  plan();
  document.getElementById("main")?.focus({ preventScroll: true });
}

let awaited = ""; // the first of two keys

addEventListener("keydown", (event) => {
  const target = event.target;
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (target instanceof HTMLElement && target.matches("input, textarea, select")) return;
  const keys = `${awaited}${event.key}`;
  awaited = "";
  if (keys === "g") awaited = "g";
  else if (keys === "gs") location.hash = "#/";
  else if (keys === "ga") location.hash = "#/approvals";
  else if (keys === "/") {
    event.preventDefault();
    if (state.route.view !== "sessions") location.hash = "#/";
    setTimeout(() => document.querySelector("#search")?.focus(), 50);
  } else if (keys === "j" || keys === "k") {
    const rows = [...document.querySelectorAll(".row > a, .question")];
    const at = rows.indexOf(document.activeElement?.closest(".row > a, .question"));
    rows[keys === "j" ? Math.min(at + 1, rows.length - 1) : Math.max(at - 1, 0)]?.focus();
  }
});

onChange(plan);
addEventListener("hashchange", route);
setInterval(plan, 30_000); // times that are told as so long ago
const isLink = location.hash.startsWith("#/login/");
route();
if (!isLink) start();
