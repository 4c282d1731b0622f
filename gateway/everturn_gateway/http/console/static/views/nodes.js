// The gateways that share the store: what each of them holds, and in what they differ.

import { html, nothing } from "../vendor/lit-html/lit-html.js";
import { repeat } from "../vendor/lit-html/directives/repeat.js";
import { get } from "../api.js";
import { roleNotice } from "../parts/role.js";
import { plain } from "../parts/text.js";
import { number, t } from "../parts/texts.js";
import { may, role } from "../role.js";
import { failed, needsLogin, onRefresh, say, state } from "../state.js";

const LOOK_MS = 2000;
const AGENT = "agent:"; // how the seat of an agent with a folder begins

const nodes = { rows: [], homes: {}, differences: [], isLoading: true, error: "" };
let looking = 0;
let asking = 0; // the answer to the newest look is shown

async function look() {
  clearTimeout(looking);
  const mine = ++asking;
  if (state.route.view !== "nodes" || !role.me || !may("admin")) return;
  if (!document.hidden) {
    try {
      const found = await get("admin/nodes");
      if (mine !== asking) return;
      Object.assign(nodes, { rows: found.nodes, homes: found.homes, differences: found.differences, error: "" });
    } catch (error) {
      if (mine !== asking) return;
      if (!needsLogin(error)) nodes.error = failed(error);
    }
    nodes.isLoading = false;
    say("");
  }
  clearTimeout(looking);
  looking = setTimeout(look, LOOK_MS);
}

export const openNodes = () => look();
onRefresh(look);

export function nodesView() {
  return html`<header class="top"><h1>${t("Nodes")}</h1></header>${role.me && !may("admin") ? roleNotice({ message: t("The nodes are for administrators") }, look) : list()}`;
}

function list() {
  const { rows, differences, isLoading, error } = nodes;
  const all = rows.reduce((sum, each) => sum + each.partitions, 0);
  return html`
    ${error ? html`<p class="error" role="alert">${plain(error)}</p>` : nothing}
    ${differences.length ? html`<ul class="note failed" aria-label=${t("What differs")}>${differences.map((line) => html`<li>${plain(line)}</li>`)}</ul>` : nothing}
    <ul class="things" aria-label=${t("Nodes")}>${repeat(rows, (each) => each.name, (each) => nodeRow(each, all))}</ul>
    ${!isLoading && !rows.length && !error ? html`<div class="empty"><h2>${t("This gateway is alone")}</h2><p>${t("Several gateways that share a database stand here, with what each of them works on.")}</p></div>` : nothing}
  `;
}

// Of the others nothing is known while the one that tells of them is away.
function stateOf({ is_this: isThis, drains }) {
  if (nodes.error) return isThis && state.connection === "lost" ? html`<span class="mark failed">${t("out of reach")}</span>` : nothing;
  return html`<span class="mark ${drains ? "asks" : "done"}">${drains ? t("is leaving") : t("works")}</span>`;
}

function nodeRow(node, all) {
  const share = all ? node.partitions / all : 0;
  const homes = Object.keys(nodes.homes).filter((seat) => seat.startsWith(AGENT) && nodes.homes[seat] === node.name);
  const agents = homes.map((seat) => seat.slice(AGENT.length));
  return html`<li class="thing node">
    <div class="line">
      <span class="title">${plain(node.name)}</span>
      ${node.is_this ? html`<span class="mark">${t("shows this page")}</span>` : nothing}
      ${stateOf(node)}
    </div>
    <p class="about">${node.address ? html`${plain(node.address)}<span class="dot">·</span>` : nothing}${t("version {version}", { version: plain(node.version) })}</p>
    <svg class="share" viewBox="0 0 1000 8" preserveAspectRatio="none" role="img" aria-label=${t("{percent} % of the sessions", { percent: Math.round(share * 100) })}><rect class="all" width="1000" height="8"></rect><rect class="part" width=${share * 1000} height="8"></rect></svg>
    <dl class="counts">
      <div><dt>${t("Of the sessions")}</dt><dd>${number(Math.round(share * 100))} %</dd></div>
      <div><dt>${t("Parts of them")}</dt><dd>${t("{count} of {all}", { count: node.partitions, all })}</dd></div>
      ${agents.length ? html`<div><dt>${t("Home of the agents")}</dt><dd>${agents.map((agent) => html`<code>${plain(agent)}</code> `)}</dd></div>` : nothing}
      <div><dt>${t("Does for all")}</dt><dd>${node.seats.length ? node.seats.map((seat) => html`<code>${plain(seat)}</code> `) : t("nothing")}</dd></div>
    </dl>
  </li>`;
}
