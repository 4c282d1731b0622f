// What an agent remembers, and the skills that it can look up: read here, written by it and its owner.

import { html, nothing } from "../vendor/lit-html/lit-html.js";
import { agents } from "../agents.js";
import { plain } from "../parts/text.js";
import { t } from "../parts/texts.js";

const TITLES = { memory: t("Memory"), skills: t("Skills") };

export function knowledgeView(back) {
  const { name, part, known, error } = agents;
  return html`
    <header class="top">${back}<div class="heading"><h1>${TITLES[part]}</h1><p class="about">${plain(name)}</p></div></header>
    ${error ? html`<p class="error" role="alert">${plain(error.message)}</p>` : nothing}
    ${!known ? nothing : part === "memory" ? notes(known.files) : skills(known.skills)}
  `;
}

const whereOf = (path) => (path.startsWith("world/") ? t("shared by all agents") : path === "MEMORY.md" ? t("read in every conversation") : t("of one day"));

function notes(files) {
  if (!files.length) {
    return html`<div class="empty"><h2>${t("It remembers nothing yet")}</h2><p>${t("With spec.memory in its agent.yaml an agent keeps notes that outlast a conversation. They stand here.")}</p></div>`;
  }
  return files.map(({ path, text }) => html`<details class="known" ?open=${path === "MEMORY.md"}>
    <summary><code>${plain(path)}</code> <span class="faint">${whereOf(path)}</span></summary>
    <pre class="mono">${plain(text)}</pre>
  </details>`);
}

function skills(found) {
  if (!found.length) {
    return html`<div class="empty"><h2>${t("It has no skills")}</h2><p>${t("A skill is a folder with a SKILL.md below the agent's skills: instructions that it reads when they fit.")}</p></div>`;
  }
  return found.map(({ name, description, allowed_tools: allowed, instructions, error }) => html`<details class="known">
    <summary><b>${plain(name)}</b> <span class="faint">${plain(description)}</span></summary>
    ${allowed.length ? html`<p class="about">${t("Allows while it is followed:")} ${allowed.map((each) => html`<code>${plain(each)}</code> `)}</p>` : nothing}
    ${error ? html`<p class="error">${plain(error)}</p>` : html`<pre class="mono">${plain(instructions)}</pre>`}
  </details>`);
}
