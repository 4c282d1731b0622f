// What stands on the page of its role: as whom it asks, and the question for the admin token.

import { html, nothing } from "../vendor/lit-html/lit-html.js";
import { plain } from "./text.js";
import { rich, t } from "./texts.js";
import { when } from "./time.js";
import { askForRole, raise, role } from "../role.js";

export function roleLine() {
  const { me, raisedUntil } = role;
  if (!me) return nothing;
  return html`${me.name === "local" || me.name === "api_token" ? nothing : html`<span class="faint version">${t("as {name}", { name: plain(me.name) })}</span>`}${raisedUntil
    ? html`<span class="state raised">${rich("administrator until {time}", { time: when(new Date(raisedUntil).toISOString()) })}</span>`
    : nothing}`;
}

// In place of what only an administrator sees: what is missing, and how to get it.
export function roleNotice(problem, again) {
  return html`<div class="empty">
    <h2>${t("For administrators")}</h2>
    <p>${plain(problem.message)}.</p>
    <p><button class="main" @click=${async () => (await askForRole(problem.message)) && again()}>${t("Enter the admin token")}</button></p>
  </div>`;
}

export function roleDialog() {
  if (!role.asked) return nothing;
  const submit = (event) => {
    event.preventDefault();
    const token = new FormData(event.target).get("admin").trim();
    if (token) raise(token);
  };
  const cancel = (event) => {
    event.preventDefault();
    role.asked.answer(false);
  };
  return html`<dialog class="ask" aria-labelledby="ask-title" @cancel=${cancel}>
    <form @submit=${submit}>
      <h2 id="ask-title">${t("Admin token needed")}</h2>
      <p>${plain(role.asked.why)}.</p>
      <p class="faint">${t("With it the page may administer for 15 minutes; what you wanted to do is done at once.")}</p>
      <input class="hidden" name="username" autocomplete="username" value="everturn admin" aria-hidden="true" tabindex="-1">
      <label for="admin-token">${t("Admin token")}</label>
      <input id="admin-token" name="admin" type="password" autocomplete="current-password" required autofocus>
      ${role.error ? html`<p class="error" role="alert">${plain(role.error)}</p>` : nothing}
      <div class="answers"><button class="main" ?disabled=${role.isBusy}>${t("Continue")}</button><button type="button" @click=${cancel}>${t("Not now")}</button></div>
    </form>
  </dialog>`;
}

// A dialog is modal only when it is told to be.
export function afterRole() {
  const dialog = document.querySelector("dialog.ask");
  if (dialog && !dialog.open) dialog.showModal();
}
