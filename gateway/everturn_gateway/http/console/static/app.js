// The shell: which view is shown, what stands around it, and when it is drawn.

import { html, nothing, render } from "./vendor/lit-html/lit-html.js";
import { login, logout } from "./api.js";
import { useList } from "./list.js";
import { afterRole, roleDialog, roleLine } from "./parts/role.js";
import { ifLoaded, lazy, load, maybe, once } from "./parts/lazy.js";
import { plain } from "./parts/text.js";
import { choose, language, LANGUAGES, onFormatters, rich, t } from "./parts/texts.js";
import { when } from "./parts/time.js";
import { may, role } from "./role.js";
import { closeSession, failed, onChange, openSession, say, start, state } from "./state.js";
import { sessionsView } from "./views/sessions.js";

const place = document.getElementById("app");
// In the side bar; `key` follows `g`, `badge` is how many things want a person, `need` a scope, and
// `isThere` says whether there is such a thing.
const PLACES = [
  { name: "sessions", label: t("Sessions"), key: "s", icon: "M4 6h16M4 12h16M4 18h10", view: sessionsView },
  { name: "search", label: t("Search"), key: "f", icon: "M11 18a7 7 0 1 0 0-14 7 7 0 0 0 0 14zM20 20l-4-4", view: lazy("search", "searchView"), open: once("views/search", "openSearch") },
  { name: "approvals", label: t("Approvals"), key: "a", icon: "M5 13l4 4L19 7", view: lazy("approvals", "approvalsView"), badge: () => state.approvals.items.length },
  { name: "schedules", label: t("Schedules"), key: "t", icon: "M12 7v5l3 2M21 12a9 9 0 1 1-18 0 9 9 0 0 1 18 0", view: lazy("schedules", "schedulesView"), open: once("schedules", "openSchedules"), badge: maybe("schedules", "stuckJobs"), need: "operate" },
  { name: "channels", label: t("Channels"), key: "c", icon: "M5 5h14v10h-7l-4 4v-4H5z", view: lazy("channels", "channelsView"), open: once("channels", "openChannels"), badge: maybe("channels", "wantingChannels"), need: "operate" },
  { name: "agents", label: t("Agents"), key: "e", icon: "M12 3l8 4.5v9L12 21l-8-4.5v-9zM12 12l8-4.5M12 12v9M12 12L4 7.5", view: lazy("agents", "agentsView"), open: once("agents", "openAgents"), badge: maybe("agents", "faultyAgents") },
  { name: "usage", label: t("Usage"), key: "u", icon: "M5 20V10M12 20V4M19 20v-7", view: lazy("usage", "usageView"), open: once("views/usage", "openUsage") },
  { name: "nodes", label: t("Nodes"), key: "n", icon: "M12 8a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM5 22a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM19 22a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM11 8l-5 8M13 8l5 8", view: lazy("nodes", "nodesView"), open: once("views/nodes", "openNodes"), isThere: () => Boolean(state.hello?.node), need: "operate" },
  { name: "doctor", label: t("Doctor"), key: "d", icon: "M3 12h4l3-8 4 16 3-8h4", view: lazy("doctor", "doctorView"), need: "operate" },
  { name: "log", label: t("Log"), key: "l", icon: "M5 5h14v14H5zM8 9h8M8 12h8M8 15h5", view: lazy("log", "logView"), open: once("views/log", "openLog"), need: "operate" },
];
const loginView = lazy("login", "loginView");
const sessionView = lazy("session", "sessionView");
const helpDialog = maybe("parts/help", "helpDialog");
const showHelp = once("parts/help", "showHelp");
const LATER = ["approvals", "agents", "channels", "schedules"]; // what badges count
const openPast = once("views/request", "openPast");
const PAST = { request: lazy("request", "requestView"), then: lazy("then", "thenView") };
const placeOf = (view) => PLACES.find(({ name }) => name === view);
const addressOf = (name) => (name === "sessions" ? "#/" : `#/${name}`);
let isPlanned = false;
let isEmptied = false;
let isMoved = false; // to another view
let isFurnished = false; // what the first look can do without is on its way

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
  const focused = document.activeElement;
  document.title = `${waiting ? `(${waiting}) ` : ""}${titleOf()} - Everturn`;
  render(state.connection === "login" ? loginView(signIn) : shell(), place);
  if (state.route.view === "session") ifLoaded("views/session")?.afterSession();
  else if (state.route.view === "then") ifLoaded("views/then")?.afterThen();
  else if (state.route.view === "search") ifLoaded("views/search")?.afterSearch();
  afterRole();
  if (!focused.isConnected) goOn();
  // On a phone not all places fit.
  if (isMoved) document.querySelector(".place[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  isMoved = false;
  if (!isFurnished && state.connection === "live") furnish();
}

// What had the focus is gone: whoever answers by keyboard is at the next question.
function goOn() {
  const next = document.querySelector(".question") ?? document.getElementById("main");
  if (document.activeElement === document.body) next?.focus({ preventScroll: true });
}

async function furnish() {
  isFurnished = true;
  const found = await Promise.all(LATER.map(load));
  if (!found.every(Boolean)) setTimeout(() => (isFurnished = false), 1000);
}

function titleOf() {
  if (state.route.view === "session") {
    const id = state.session?.id;
    return plain(state.list.rows.get(id)?.title || state.session?.document?.chat || t("Session"));
  }
  if (state.route.view === "request") return t("What the model saw");
  if (state.route.view === "then") return t("The conversation then");
  return placeOf(state.route.view).label;
}

const icon = (path) => html`<svg viewBox="0 0 24 24" aria-hidden="true"><path d=${path}></path></svg>`;

function shell() {
  const { view } = state.route;
  return html`
    <a class="skip" href="#main" @click=${skip}>${t("Skip to content")}</a>
    <nav class="side" aria-label=${t("Places")}>
      <a class="brand" href="#/"><svg viewBox="0 0 32 32" aria-hidden="true"><rect width="32" height="32" rx="8"></rect><path d="M22.5 11.2A8 8 0 1 0 24 16h-4"></path></svg><span>Everturn</span></a>
      <div class="places">${PLACES.filter(isOpen).map(placeLink)}</div>
      <div class="foot">
        ${connection()}
        ${state.isOutdated ? html`<button class="outdated" @click=${() => location.reload()}>${t("Reload: new version")}</button>` : nothing}
        ${state.hello ? html`<span class="faint version">${t("version {version}", { version: state.hello.version })}${state.hello.node ? html`<span class="dot">·</span>${plain(state.hello.node)}` : nothing}</span>` : nothing}
        ${roleLine()}
        ${role.me?.is_login ? html`<button class="plain leave" @click=${leave}>${t("Log out")}</button>` : nothing}
        ${languages()}
      </div>
    </nav>
    <main id="main" tabindex="-1" class=${view}>${viewOf(view)}</main>
    ${role.asked ? roleDialog() : helpDialog(PLACES.filter(isOpen)) ?? nothing}
    <p class=${state.note ? "toast" : "hidden"} role="status" aria-live="polite">${state.note}</p>
  `;
}

const isAllowed = ({ need }) => !(need && role.me && !may(need));
const isOpen = (each) => (each.isThere?.() ?? true) && isAllowed(each);

function placeLink({ name, label, icon: path, badge }) {
  const { view } = state.route;
  const isHere = name === view || (name === "sessions" && ["session", "request", "then"].includes(view));
  const waiting = badge?.() ?? 0;
  return html`<a class="place" href=${addressOf(name)} aria-current=${isHere ? "page" : nothing}>
    ${icon(path)}<span>${label}</span>
    ${waiting ? html`<b class="badge">${waiting}<span class="hidden"> ${t("waiting")}</span></b>` : nothing}
  </a>`;
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
  if (view in PAST) return PAST[view]();
  if (view === "session" && state.session) return sessionView();
  const found = placeOf(view) ?? PLACES[0];
  return isAllowed(found) ? found.view() : notAllowed(found);
}

const notAllowed = ({ label }) => html`<header class="top"><h1>${label}</h1></header>
  <div class="empty"><h2>${t("No access")}</h2><p>${t("This is for those who operate the gateway.")}</p></div>`;

function skip(event) {
  event.preventDefault();
  document.getElementById("main").focus();
}

async function signIn(token) {
  try {
    await login(token);
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
  } catch (error) {
    if (error.status !== 401) return say(failed(error)); // else there is none to end
  }
  location.hash = "#/";
  location.reload();
}

// What an address says that was cut or typed wrong is taken as it stands.
function decoded(part = "") {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

const ID = /^[A-Za-z0-9-]{1,64}$/u; // of a session

function route() {
  const parts = location.hash.replace(/^#\/?/u, "").split("/").filter(Boolean);
  if (parts[0] === "login" && parts[1]) {
    // A link that works once; it does not stay in the address.
    history.replaceState(null, "", "#/");
    signIn(parts[1]);
    return;
  }
  const session = parts[0] === "s" && ID.test(parts[1]) ? parts[1] : "";
  if (session && ["request", "then"].includes(parts[2])) {
    closeSession();
    state.route = { view: parts[2], id: session };
    openPast(session, Number(parts[3]) || 0, { than: Number(parts[5]) || 0, isTravel: parts[2] === "then" });
  } else if (session) {
    state.route = { view: "session", id: session };
    openSession(session, parts[2] === "at" ? Number(parts[3]) || 0 : 0);
  } else {
    closeSession();
    const found = placeOf(parts[0]) ?? PLACES[0];
    const [id, ...more] = parts.slice(1).map(decoded);
    state.route = { view: found.name, id: id ?? "" };
    found.open?.(state.route.id, ...more);
  }
  useList(false); // whoever left it by a key has the pointer elsewhere
  isMoved = true;
  plan();
  document.getElementById("main")?.focus({ preventScroll: true });
}

const MOVES = ".hit a, .row > a, .question, .thing > a"; // what `j` and `k` go through
let awaited = ""; // the first of two keys

addEventListener("keydown", (event) => {
  const target = event.target;
  if (event.key === "Escape" && state.session?.isWindowShown) {
    state.session.isWindowShown = false;
    plan();
    return;
  }
  const menu = event.key === "Escape" && document.querySelector("details.menu[open]");
  if (menu) {
    menu.removeAttribute("open");
    menu.querySelector("summary").focus();
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (target instanceof HTMLElement && target.matches("input, textarea, select, dialog[open] *")) return;
  const keys = `${awaited}${event.key}`;
  awaited = "";
  if (keys === "g") awaited = "g";
  else if (keys[0] === "g" && PLACES.some(({ key }) => keys === `g${key}`)) {
    location.hash = addressOf(PLACES.find(({ key }) => keys === `g${key}`).name);
  }
  else if (keys === "/") {
    event.preventDefault();
    location.hash = addressOf("search");
  } else if (keys === "?") showHelp(true);
  else if (keys === "j" || keys === "k") {
    const rows = [...document.querySelectorAll(MOVES)];
    const at = rows.indexOf(document.activeElement?.closest(MOVES));
    rows[keys === "j" ? Math.min(at + 1, rows.length - 1) : Math.max(at - 1, 0)]?.focus();
  }
});

onChange(plan);
onFormatters(plan);
addEventListener("hashchange", route);
setInterval(plan, 30_000); // times that are told as so long ago
const isLink = location.hash.startsWith("#/login/");
route();
if (!isLink) start();
