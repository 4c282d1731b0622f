// The way in, where the gateway asks for a token.

import { html, nothing } from "../vendor/lit-html/lit-html.js";
import { rich, t } from "../parts/texts.js";
import { state } from "../state.js";

export function loginView(signIn) {
  const submit = (event) => {
    event.preventDefault();
    const token = new FormData(event.target).get("token").trim();
    if (token) signIn(token);
  };
  return html`<main class="login" id="main" tabindex="-1">
    <form @submit=${submit}>
      <h1>Everturn</h1>
      <p>${rich("This gateway asks for a token: that of its configuration, or one of {command}. The page keeps a cookie for twelve hours, never the token.", { command: html`<code>everturn token create</code>` })}</p>
      <input class="hidden" name="username" autocomplete="username" value="everturn" aria-hidden="true" tabindex="-1">
      <label for="token">${t("Token")}</label>
      <input id="token" name="token" type="password" autocomplete="current-password" required autofocus>
      ${state.loginError ? html`<p class="error" role="alert">${state.loginError}</p>` : nothing}
      <button class="main">${t("Log in")}</button>
    </form>
  </main>`;
}
