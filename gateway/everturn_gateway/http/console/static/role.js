// As whom the page asks, and the second login that lets it administer for 15 minutes.

import { call, login, whenAdminIsNeeded } from "./api.js";
import { t } from "./parts/texts.js";
import { failed, say, state } from "./state.js";

export const role = {
  me: null, // {name, scopes, is_login, raised_seconds}
  raisedUntil: 0,
  asked: null, // {why, answer}: somebody is asked for the admin token
  isBusy: false,
  error: "",
};
const AGAIN_MS = 5000;
let ending = 0;

// Tells whether there was an answer; without one, what was known before stays.
export async function loadRole() {
  try {
    role.me = await call("GET", "console/login");
  } catch (error) {
    if (error.status !== 401) return false;
    role.me = null; // without a login nobody asks
  }
  const { raised_seconds: left } = role.me ?? { raised_seconds: 0 };
  role.raisedUntil = left ? Date.now() + left * 1000 : 0;
  clearTimeout(ending);
  if (left) ending = setTimeout(fallBack, left * 1000 + 500);
  say("");
  return Boolean(role.me);
}

async function fallBack() {
  if (!(await loadRole()) && state.connection !== "login") ending = setTimeout(fallBack, AGAIN_MS);
  if (role.me && !role.raisedUntil) say(t("The 15 minutes as administrator are over."));
}

export const may = (scope) => role.me?.scopes.includes(scope) ?? false;

// Asks for the admin token; tells whether the page may administer now.
export function askForRole(why) {
  role.asked?.answer(false);
  role.error = "";
  return new Promise((resolve) => {
    role.asked = {
      why,
      answer(isRaised) {
        role.asked = null;
        resolve(isRaised);
        say("");
      },
    };
    say("");
  });
}

export async function raise(token) {
  role.isBusy = true;
  role.error = "";
  say("");
  try {
    await login(token);
    await loadRole();
    if (may("admin")) role.asked?.answer(true);
    else role.error = t("This token is none for the administration.");
  } catch (error) {
    role.error = failed(error);
  }
  role.isBusy = false;
  say("");
}

whenAdminIsNeeded((problem) => askForRole(problem.message));
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && role.me) loadRole(); // another tab may have raised it, or logged out
});
