// The agents: what each is, what is wrong with it, and its files where they may be edited.

import { html, nothing } from "../vendor/lit-html/lit-html.js";
import { repeat } from "../vendor/lit-html/directives/repeat.js";
import { live } from "../vendor/lit-html/directives/live.js";
import { begin } from "../acts.js";
import { check, isChanged, replaceTheirs, save, takeTheirs, type } from "../agent_files.js";
import { agents, faultsOf, folderOf, loadFaults, reload, reopen, validate } from "../agents.js";
import { roleNotice } from "../parts/role.js";
import { folded, plain } from "../parts/text.js";
import { t, tn } from "../parts/texts.js";
import { askForRole, may } from "../role.js";
import { state } from "../state.js";
import { knowledgeView } from "./knowledge.js";

export function agentsView() {
  if (agents.files || agents.filesError || agents.file) return filesView();
  if (agents.name && agents.part) return knowledgeView(back(href(agents.name), t("Back to the agent")));
  return agents.name ? agentView() : listView();
}

const href = (name, more = "") => `#/agents/${encodeURIComponent(name)}${more}`;
const back = (to, label) => html`<a class="back" href=${to} aria-label=${label}><svg viewBox="0 0 24 24" aria-hidden="true"><path d="M15 5l-7 7 7 7"></path></svg></a>`;

function listView() {
  return html`
    <header class="top"><h1>${t("Agents")}</h1><div class="grow"></div>
      ${may("admin") ? nothing : html`<button @click=${async () => (await askForRole(t("Faults of agents are shown to administrators"))) && loadFaults()}>${t("Show faults")}</button>`}
      <button ?disabled=${agents.isBusy} @click=${reload}>${t("Reload")}</button></header>
    ${agents.faults?.length ? faultList(agents.faults) : nothing}
    <ul class="things" aria-label=${t("Agents")}>${repeat(state.agents, (each) => each.name, agentRow)}</ul>
    ${state.agentsError ? html`<p class="error" role="alert">${state.agentsError}</p>` : nothing}
    ${state.agents.length || !state.areAgentsKnown ? nothing : html`<div class="empty"><h2>${t("No agent yet")}</h2><p>${t("An agent is a folder with an agent.yaml. Make one:")}</p><pre class="mono">everturn agent create my-agent</pre></div>`}
  `;
}

const agentRow = (agent) => html`<li class="thing">
  <a class="line" href=${href(agent.name)}>
    <span class="title">${plain(agent.name)}</span>
    <span class="mark">${plain(agent.model.provider)}/${plain(agent.model.name)}</span>
    ${agent.description ? html`<span class="preview">${plain(agent.description)}</span>` : nothing}
  </a>
</li>`;

export function faultList(faults) {
  if (!faults.length) return html`<p class="well" role="status">${t("Nothing is wrong with it.")}</p>`;
  return html`<section class="faults" aria-label=${t("Faults")}>
    <h2>${tn("{count} fault", "{count} faults", faults.length)}</h2>
    <ul>${faults.map((each) => html`<li>${fileOf(each)}${each.field ? html` <b>${plain(each.field)}</b>` : nothing} ${plain(each.message)}</li>`)}</ul>
  </section>`;
}

// Leads to the agent whose file it is.
function fileOf({ file, line }) {
  const text = html`<code>${plain(file)}${line ? `:${line}` : ""}</code>`;
  const folder = folderOf(file);
  return folder && !agents.name ? html`<a href=${href(folder)}>${text}</a>` : text;
}

function agentView() {
  const { name, detail, error, validated } = agents;
  const faults = validated ?? faultsOf(name);
  return html`
    <header class="top">${back("#/agents", t("All agents"))}
      <div class="heading"><h1>${plain(name)}</h1>${detail?.description ? html`<p class="about">${plain(detail.description)}</p>` : nothing}</div>
      <div class="acts">
        <button ?disabled=${agents.isBusy} @click=${validate}>${t("Validate")}</button>
        ${may("operate") ? html`<a class="button" href=${href(name, "/memory")}>${t("Memory")}</a><a class="button" href=${href(name, "/skills")}>${t("Skills")}</a>` : nothing}
        <a class="button" href=${href(name, "/files")}>${t("Files")}</a>
        ${detail ? html`<button class="main" @click=${() => begin(name)}>${t("New session")}</button>` : nothing}
      </div></header>
    ${error ? html`<p class="error" role="alert">${plain(error.message)}</p>` : nothing}
    ${validated || faults.length ? faultList(faults) : nothing}
    ${faults.length && !detail ? html`<p class="faint">${t("It answers nobody until this is mended. It is read again when its folder is reloaded.")}</p>` : nothing}
    ${detail ? about(detail) : nothing}
  `;
}

function about(detail) {
  const { tool_policy: policy, tools, skills, tool_faults: faults, inactive } = detail;
  return html`
    <dl class="facts">
      <div><dt>${t("Model")}</dt><dd>${plain(detail.model.provider)}/${plain(detail.model.name)}</dd></div>
      <div><dt>${t("Version")}</dt><dd><code>${plain(detail.version.slice(0, 12))}</code></dd></div>
      <div><dt>${t("Context policy")}</dt><dd>${plain(detail.context_policy)}</dd></div>
      <div><dt>${t("Tool policy")}</dt><dd>${t("mode {mode}; patterns: {allow} allowed, {deny} denied", { mode: policy.mode, allow: policy.allow, deny: policy.deny })}</dd></div>
    </dl>
    ${faults.length ? html`<section class="faults"><h2>${t("Tools that do not work")}</h2><ul>${faults.map((each) => html`<li>${plain(each)}</li>`)}</ul></section>` : nothing}
    <h2>${t("Tools")}</h2>
    ${tools.length ? html`<ul class="names">${tools.map((each) => html`<li><code>${plain(each)}</code></li>`)}</ul>` : html`<p class="faint">${t("It has none.")}</p>`}
    <h2>${t("Skills")}</h2>
    ${skills.length ? html`<ul class="skills">${skills.map((each) => html`<li><b>${plain(each.name)}</b> ${plain(each.description)}</li>`)}</ul>` : html`<p class="faint">${t("It has none.")}</p>`}
    ${inactive.length ? html`<h2>${t("Set without effect")}</h2><ul class="skills">${inactive.map((each) => html`<li>${plain(each)}</li>`)}</ul>` : nothing}
  `;
}

// --- files ---

function filesView() {
  const { name, files, filesError, file } = agents;
  return html`
    <header class="top">${back(href(name, file ? "/files" : ""), t("Back to the agent"))}
      <div class="heading"><h1>${file ? plain(file.path) : t("Files of {agent}", { agent: plain(name) })}</h1>${file ? html`<p class="about">${plain(name)}</p>` : nothing}</div>
      ${file ? html`<div class="acts">
        <span class="faint" role="status">${file.isNew && !file.draft ? t("new file") : isChanged(file) ? t("not saved yet") : nothing}</span>
        <button ?disabled=${file.isSaving} @click=${check}>${t("Validate")}</button>
        <button class="main" ?disabled=${file.isSaving || !isChanged(file)} @click=${save}>${t("Save")}</button>
      </div>` : nothing}</header>
    ${filesError ? (filesError.needsAdmin ? roleNotice(filesError, reopen) : html`<p class="error" role="alert">${plain(filesError.message)}</p>`) : nothing}
    ${file ? editor(file) : files && !filesError ? fileList(name, files) : nothing}
  `;
}

function fileList(name, files) {
  const add = (event) => {
    event.preventDefault();
    const path = new FormData(event.target).get("path").trim();
    if (path) location.hash = fileHref(name, path);
  };
  return html`
    <ul class="things" aria-label=${t("Files")}>${repeat(files, (path) => path, (path) => html`<li class="thing"><a class="line" href=${fileHref(name, path)}><span class="title">${plain(path)}</span></a></li>`)}</ul>
    <form class="filters adding" @submit=${add}><label>${t("New file")} <input name="path" required placeholder="skills/greeting/SKILL.md"></label><button>${t("Begin")}</button></form>
  `;
}

const fileHref = (name, path) => href(name, `/files/${path.split("/").map(encodeURIComponent).join("/")}`);

function editor(file) {
  const press = (event) => {
    if (event.key === "s" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      if (isChanged(file)) save();
    }
  };
  return html`
    ${file.error ? html`<p class="error" role="alert">${plain(file.error)}</p>` : nothing}
    ${file.theirs ? html`<section class="question theirs" aria-label=${t("Changed meanwhile")}>
      <p class="what"><b>${t("Somebody else changed this file meanwhile")}</b></p>
      <p class="why">${t("What you wrote is below, and not saved. This stands in the file now:")}</p>
      ${folded(file.theirs.text)}
      <div class="answers"><button class="main" @click=${replaceTheirs}>${t("Replace it with mine")}</button><button class="deny" @click=${() => window.confirm(t("Let go of what you wrote?")) && takeTheirs()}>${t("Take theirs")}</button></div>
    </section>` : nothing}
    ${file.faults ? faultList(file.faults) : nothing}
    <textarea class="code editor" spellcheck="false" autocapitalize="off" aria-label=${t("Text of {file}", { file: plain(file.path) })} .value=${live(file.draft)} @input=${(e) => type(e.target.value)} @keydown=${press}></textarea>
  `;
}
