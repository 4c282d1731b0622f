// The keys, when somebody asks for them.

import { html, nothing } from "../vendor/lit-html/lit-html.js";
import { say } from "../state.js";
import { t } from "./texts.js";

let isShown = false;

export function showHelp(is) {
  isShown = is;
  say("");
}

export function helpDialog(places) {
  if (!isShown) return nothing;
  const close = (event) => {
    event.preventDefault();
    showHelp(false);
  };
  const keys = [
    ["/", t("Search")],
    ...places.filter(({ name }) => name !== "search").map(({ key, label }) => [`g ${key}`, label]),
    ["j", t("Further down")],
    ["k", t("Further up")],
    ["Enter", t("Open, or send what was written")],
    ["Shift+Enter", t("Begin a line")],
    ["?", t("These keys")],
  ];
  return html`<dialog class="ask" aria-labelledby="keys-title" @cancel=${close}>
    <form @submit=${close}>
      <h2 id="keys-title">${t("Keys")}</h2>
      <dl class="keyboard">${keys.map(([key, what]) => html`<div><dt>${key.split(" ").map((each) => html`<kbd>${each}</kbd>`)}</dt><dd>${what}</dd></div>`)}</dl>
      <div class="answers"><button class="main" autofocus>${t("Close")}</button></div>
    </form>
  </dialog>`;
}
