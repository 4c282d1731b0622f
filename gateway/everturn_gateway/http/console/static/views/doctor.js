// What `everturn doctor` finds, as the gateway finds it.

import { html, nothing } from "../vendor/lit-html/lit-html.js";
import { address, Problem } from "../api.js";
import { plain } from "../parts/text.js";
import { t, tn } from "../parts/texts.js";
import { when } from "../parts/time.js";
import { askForRole } from "../role.js";
import { failed, needsLogin, say } from "../state.js";

const VERDICTS = { ok: t("in order"), note: t("worth a look"), repaired: t("repaired"), problem: t("problem") };
const MARKS = { ok: "done", note: "asks", repaired: "runs", problem: "failed" };

const look = { findings: [], problems: null, at: "", stop: null, error: "" };

async function examine() {
  const stop = new AbortController();
  Object.assign(look, { findings: [], problems: null, at: "", stop, error: "" });
  say("");
  try {
    const answer = await ask(stop.signal);
    for await (const { event, data } of messages(answer.body)) {
      if (event === "finding") look.findings.push(data);
      if (event === "done") Object.assign(look, { problems: data.problems, at: new Date().toISOString() });
      say("");
    }
    if (look.problems === null) look.error = t("It broke off. What was found stands here.");
  } catch (error) {
    if (!stop.signal.aborted && !needsLogin(error)) look.error = error instanceof Problem ? failed(error) : t("The gateway cannot be reached.");
  }
  if (look.stop === stop) look.stop = null;
  say("");
}

async function ask(signal) {
  const answer = await fetch(address("api/v1/admin/doctor"), { method: "POST", signal });
  if (answer.ok) return answer;
  const problem = new Problem(answer.status, await answer.json().catch(() => ({})));
  if (problem.needsAdmin && (await askForRole(problem.message))) return ask(signal);
  throw problem;
}

// Server-sent events of an answer to a POST, which no EventSource reads.
async function* messages(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const lines = block.split("\n");
      const of = (name) => lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
      if (of("data")) yield { event: of("event"), data: JSON.parse(of("data")) };
    }
  }
}

export function doctorView() {
  const { findings, problems, at, stop, error } = look;
  return html`
    <header class="top">
      <h1>${t("Doctor")}</h1>
      <div class="grow"></div>
      ${stop
        ? html`<button @click=${() => stop.abort()}>${t("Stop")}</button>`
        : html`<button class="main" @click=${examine}>${findings.length ? t("Examine again") : t("Examine")}</button>`}
    </header>
    ${error ? html`<p class="error" role="alert">${plain(error)}</p>` : nothing}
    <p class="about" role="status">${stop ? t("Looking at everything, one thing after the other") : problems === null ? nothing : html`${problems ? tn("{count} problem", "{count} problems", problems) : t("Everything is in order.")}<span class="dot">·</span>${when(at)}`}</p>
    <ul class="things" aria-label=${t("Doctor")} aria-busy=${Boolean(stop)}>${findings.map(
      ({ verdict, subject, text }) => html`<li class="thing finding"><span class="mark ${MARKS[verdict]}">${VERDICTS[verdict]}</span><b>${plain(subject)}</b><span class="said">${plain(text)}</span></li>`,
    )}</ul>
    ${!findings.length && !stop && !error
      ? html`<div class="empty"><h2>${t("Is everything in order?")}</h2><p>${t("Looks at the configuration, the agents, their tools, the channels, the jobs and the journals of all sessions, and says what to do where something is not as it should be. Nothing is changed.")}</p></div>`
      : nothing}
  `;
}
