// What is not looked at first comes when it is wanted: so the first visit stays light.

import { html } from "../vendor/lit-html/lit-html.js";
import { say } from "../state.js";
import { t } from "./texts.js";

const loading = new Map(); // name of a module -> promise of it
const modules = new Map(); // name of a module -> it, or why it did not come

export const ifLoaded = (name) => (modules.get(name) instanceof Error ? undefined : modules.get(name));

// A module by its place, without the ending: `views/search`.
export async function load(name) {
  if (!loading.has(name)) loading.set(name, import(`../${name}.js`));
  try {
    modules.set(name, await loading.get(name));
  } catch (error) {
    loading.delete(name); // with the gateway back it comes
    modules.set(name, error);
  }
  say("");
  return ifLoaded(name);
}

// A view, by the name of its file and of what draws it there.
export const lazy = (view, draws) => (...given) => {
  const name = `views/${view}`;
  const module = ifLoaded(name);
  if (module) return module[draws](...given);
  const again = () => {
    modules.delete(name);
    say("");
  };
  if (modules.has(name)) {
    return html`<div class="empty"><h1>${t("The gateway cannot be reached.")}</h1><p><button @click=${again}>${t("Try again")}</button></p></div>`;
  }
  load(name);
  return html`<p class="boot" aria-busy="true">${t("Loading")}</p>`;
};

// Something of a module that is done as soon as that is there.
export const once = (name, does) => async (...given) => (await load(name))?.[does](...given);

// Something of a module for which nobody waits: nothing before that is there.
export const maybe = (name, does) => (...given) => ifLoaded(name)?.[does](...given);
