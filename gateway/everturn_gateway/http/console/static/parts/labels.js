// How people sort a session: its title, whether it is pinned, whether it is archived.

import { html } from "../vendor/lit-html/lit-html.js";
import { t } from "./texts.js";
import { label } from "../acts.js";

const TITLE_MOST = 120;

export function labelActions({ id, title, pinned, archived }) {
  const pin = () => label(id, { pinned: !pinned }, pinned ? t("No longer pinned.") : t("Pinned."));
  const archive = () => label(id, { archived: !archived }, archived ? t("Back in the list.") : t("Archived."));
  return html`
    <button class="plain" @click=${() => rename(id, title)}>${t("Rename")}</button>
    <button class="plain" @click=${pin}>${pinned ? t("Unpin") : t("Pin")}</button>
    <button class="plain" @click=${archive}>${archived ? t("Take out of the archive") : t("Archive")}</button>
  `;
}

function rename(id, before) {
  const title = window.prompt(t("Title (empty: its first words)"), before);
  if (title !== null) label(id, { title: title.trim().slice(0, TITLE_MOST) }, t("Renamed."));
}

export function exportLinks(id) {
  const path = `../api/v1/sessions/${id}/export`;
  return html`
    <a class="plain" href=${path} download>${t("Export as text")}</a>
    <a class="plain" href=${`${path}?format=jsonl`} download>${t("Export the events")}</a>
  `;
}

// Closes an open menu when the focus leaves it, and after a choice.
export const closes = (event) => {
  const menu = event.currentTarget;
  const isChosen = event.type === "click" && event.target.closest(".sheet button, .sheet a");
  const isLeft = event.type === "focusout" && !menu.contains(event.relatedTarget);
  if (isChosen || isLeft) menu.removeAttribute("open");
};
