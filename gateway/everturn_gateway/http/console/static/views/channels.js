// The status of the chat channels, who asks to be let in there, and who was.

import { html, nothing } from "../vendor/lit-html/lit-html.js";
import { repeat } from "../vendor/lit-html/directives/repeat.js";
import { askingPeople, channels, check, letIn, pairing, takeBack, turnAway } from "../channels.js";
import { plain } from "../parts/text.js";
import { number, rich, t, tn } from "../parts/texts.js";
import { ago, left, when } from "../parts/time.js";

const STATES = { starting: t("starting"), connected: t("connected"), retrying: t("out of reach"), "failed setup": t("needs you"), stopped: t("stopped") };

export function channelsView() {
  const { rows, isLoading, error } = channels;
  const waiting = askingPeople();
  return html`
    <header class="top"><h1>${t("Channels")}</h1></header>
    ${error ? html`<p class="error" role="alert">${plain(error)}</p>` : nothing}
    ${[pairing.error, pairing.actError].filter(Boolean).map((each) => html`<p class="error" role="alert">${each}</p>`)}
    ${waiting.length
      ? html`<h2>${t("Who asks to be let in")}</h2>
          <p class="about">${t("Names are what people call themselves, and anybody can choose any: let in whoever tells you this code.")}</p>
          ${repeat(waiting, (each) => each.code, asking)}`
      : nothing}
    <ul class="things" aria-label=${t("Channels")}>${repeat(rows, (each) => each.name, channelRow)}</ul>
    ${!isLoading && !rows.length && !error ? empty() : nothing}
    ${pairing.approved.length ? people() : nothing}
  `;
}

const empty = () => html`<div class="empty">
  <h2>${t("No channel yet")}</h2>
  <p>${t("A channel is a bot on Telegram, Discord or elsewhere. Name it in everturn.yaml with its token, and start the gateway anew:")}</p>
  <pre class="mono">channels:
  telegram:
    enabled: true
    bot_token: "…"</pre>
</div>`;

function asking(each) {
  const isBusy = pairing.busy === each.code;
  return html`<section class="question" tabindex="-1" aria-label=${t("{name} asks to be let in", { name: plain(each.name || each.sender) })}>
    <p class="what"><b>${plain(each.name) || t("somebody without a name")}</b> <span class="faint">${rich("asked {time}", { time: ago(each.asked_at) })}, ${left(each.expires_at)}</span></p>
    <p class="from">${plain(each.channel)}${each.platform && each.platform !== each.channel ? html`<span class="dot">·</span>${plain(each.platform)}` : nothing}<span class="dot">·</span><code>${plain(each.sender)}</code></p>
    <p><code class="code">${plain(each.code)}</code></p>
    <div class="answers">
      <button class="main" ?disabled=${isBusy} @click=${() => letIn(each)}>${t("Let in")}</button>
      <button class="deny" ?disabled=${isBusy} @click=${() => turnAway(each)}>${t("Turn away")}</button>
    </div>
  </section>`;
}

function channelRow(channel) {
  const { name, platform, state, account, error, healthy } = channel;
  const tone = healthy ? "done" : state === "starting" || state === "stopped" ? "" : "failed";
  const checked = channels.checks.get(name);
  return html`<li class="thing channel">
    <div class="line">
      <span class="title">${plain(name)}</span>
      <span class="mark ${tone}">${state === "connected" && !healthy ? t("hears nothing") : STATES[state]}</span>
      <button ?disabled=${checked?.isBusy} @click=${() => check(name)}>${checked?.isBusy ? t("Checking") : t("Check now")}</button>
    </div>
    <p class="about">${plain(platform)}${account ? html`<span class="dot">·</span>${plain(account)}` : nothing}<span class="dot">·</span>${rich("since {time}", { time: when(channel.since) })}<span class="dot">·</span>${channel.last_received_at ? rich("last heard of {time}", { time: ago(channel.last_received_at) }) : t("not heard of yet")}</p>
    ${error ? html`<p class="error">${plain(error)}${channel.retry_at ? html`<br>${rich("tried again {time}", { time: when(channel.retry_at) })}` : nothing}</p>` : nothing}
    ${channel.login?.image ? html`<img class="qr" src=${channel.login.image} alt=${t("QR code to log in")}>` : nothing}
    ${counts(channel)}
    ${channel.blocked_count ? blocked(channel) : nothing}
    <div role="status">${checked && !checked.isBusy ? result(checked) : nothing}</div>
  </li>`;
}

function counts(channel) {
  const shown = [
    [t("Received"), channel.received],
    [t("Sent"), channel.sent],
    [t("Skipped"), channel.skipped],
    [t("Given up"), channel.given_up],
    [t("Unreadable"), channel.unreadable],
  ].filter(([, count], index) => index < 2 || count);
  return html`<dl class="counts">${shown.map(([label, count]) => html`<div><dt>${label}</dt><dd>${number(count)}</dd></div>`)}</dl>`;
}

const blocked = (channel) => html`<details class="note failed"><summary>${tn("{count} chat waits", "{count} chats wait", channel.blocked_count)}</summary>
  <ul>${channel.blocked.map((each) => html`<li><code>${plain(each.chat)}</code> ${rich("since {time}", { time: when(each.since) })}: ${plain(each.why)}</li>`)}</ul>
</details>`;

function result({ ok, lines, error }) {
  if (error) return html`<p class="error">${plain(error)}</p>`;
  return html`<ul class="note ${ok ? "" : "failed"}">${lines.map((line) => html`<li>${plain(line)}</li>`)}</ul>`;
}

const people = () => html`<h2>${t("Who was let in")}</h2>
  <ul class="things">${repeat(pairing.approved, (each) => `${each.channel} ${each.sender}`, (each) => {
    const name = plain(each.name || each.sender);
    return html`<li class="thing">
      <div class="line">
        <span class="title">${name}</span>
        <button class="deny" ?disabled=${pairing.busy === `${each.channel} ${each.sender}`} aria-label=${t("Take back: {name}", { name })}
          @click=${() => confirm(t("Take back that {name} was let in?", { name })) && takeBack(each)}>${t("Take back")}</button>
      </div>
      <p class="about">${plain(each.channel)}<span class="dot">·</span><code>${plain(each.sender)}</code><span class="dot">·</span>${rich("since {time}", { time: when(each.approved_at) })}${each.by ? html`<span class="dot">·</span>${t("by {name}", { name: plain(each.by) })}` : nothing}</p>
    </li>`;
  })}</ul>`;
