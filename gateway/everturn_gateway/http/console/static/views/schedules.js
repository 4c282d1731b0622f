// The scheduled jobs: when each is due, how its runs came out, and a form for a new one.

import { html, nothing, svg } from "../vendor/lit-html/lit-html.js";
import { repeat } from "../vendor/lit-html/directives/repeat.js";
import { folded, plain } from "../parts/text.js";
import { locale, rich, t } from "../parts/texts.js";
import { ago, ahead, spanOf, took, when } from "../parts/time.js";
import { form, makeJob, setField, showForm } from "../job_form.js";
import { actOn, jobs, loadJobs } from "../schedules.js";
import { state } from "../state.js";

const STATES = { scheduled: t("scheduled"), running: t("running"), paused: t("paused"), waiting: t("cannot run"), done: t("done") };
const MARKS = { running: "runs", waiting: "failed", done: "done" };
const OUTCOMES = { answered: t("done"), sent: t("sent"), silent: t("nothing to say"), failed: t("failed"), cancelled: t("cancelled"), misfired: t("missed") };
const SHAPES = {
  answered: svg`<circle cx="6" cy="6" r="5"></circle>`,
  sent: svg`<circle cx="6" cy="6" r="5"></circle>`,
  silent: svg`<circle class="hollow" cx="6" cy="6" r="4"></circle>`,
  failed: svg`<path d="M2 2l8 8M10 2l-8 8"></path>`,
  cancelled: svg`<path d="M2 2l8 8M10 2l-8 8"></path>`,
  misfired: svg`<path d="M1 6h10"></path>`,
  running: svg`<circle class="hollow" cx="6" cy="6" r="4"></circle><circle cx="6" cy="6" r="1.5"></circle>`,
};
const HOWS = [
  ["cron", t("By the clock"), "30 8 * * mon-fri"],
  ["every", t("Again and again"), "90 minutes"],
  ["at", t("Once"), "2026-12-01T08:30"],
];
const here = Intl.DateTimeFormat().resolvedOptions().timeZone;

export function schedulesView() {
  const shown = [...jobs.rows.values()].sort(soonestFirst);
  return html`
    <header class="top">
      <h1>${t("Schedules")}</h1>
      <div class="grow"></div>
      <button class="main" aria-expanded=${form.isShown} @click=${() => showForm(!form.isShown)}>${t("New job")}</button>
    </header>
    ${form.isShown ? newJob() : nothing}
    ${jobs.error ? html`<p class="error" role="alert">${plain(jobs.error)}</p>` : nothing}
    ${jobs.comingError && !jobs.rows.has(jobs.opened) ? html`<p class="error" role="alert">${jobs.comingError}</p>` : nothing}
    ${faults(jobs.faults.filter(({ message }) => !shown.some((job) => message === `${job.id}: ${job.why}`)))}
    <ul class="things" aria-label=${t("Schedules")}>${repeat(shown, (each) => each.id, jobRow)}</ul>
    ${!jobs.isLoading && !shown.length && !jobs.error ? empty() : nothing}
    ${jobs.next ? html`<button class="more" ?disabled=${jobs.isLoading} @click=${() => loadJobs({ more: true })}>${t("Show more")}</button>` : nothing}
  `;
}

function soonestFirst(one, other) {
  const rank = (each) => (each.state === "waiting" ? "" : (each.next_at ?? "9999"));
  return rank(one).localeCompare(rank(other)) || one.id.localeCompare(other.id);
}

const empty = () => html`<div class="empty">
  <h2>${t("No job yet")}</h2>
  <p>${t("A job says something, or has an agent do something, at its times: the news at eight, a look at the servers each hour. Make one here, have an agent make one in a chat, or with")}</p>
  <pre class="mono">everturn schedule add</pre>
</div>`;

const faults = (found) => found.length === 0 ? nothing : html`<details class="note failed" open>
  <summary>${t("Definitions that are set aside, and jobs that cannot run")}</summary>
  <ul>${found.map((each) => html`<li><code>${plain(each.file)}${each.line ? `:${each.line}` : ""}</code> ${each.field ? html`<code>${plain(each.field)}</code> ` : nothing}${plain(each.message)}</li>`)}</ul>
</details>`;

function jobRow(job) {
  const isOpen = jobs.opened === job.id;
  return html`<li class="thing job ${job.state}">
    <a class="line" href=${isOpen ? "#/schedules" : `#/schedules/${encodeURIComponent(job.id)}`} aria-expanded=${isOpen}>
      <span class="title">${plain(job.label || job.id)}</span>
      <span class="mark ${MARKS[job.state] ?? ""}">${STATES[job.state]}</span>
      <span class="preview">${plain(job.payload.task ?? job.payload.message)}</span>
    </a>
    <div class="under">
      <span class="about">${plain(job.agent)}<span class="dot">·</span>${times(job)}${job.next_at ? html`<span class="dot">·</span>${rich("next {time}", { time: html`${when(job.next_at)} (${ahead(job.next_at)})` })}` : nothing}</span>
      ${dots(job)}
    </div>
    ${job.why ? html`<p class="error">${plain(job.why)}</p>` : nothing}
    ${isOpen ? details(job) : nothing}
  </li>`;
}

function times({ when: how }) {
  if (how.at) return rich("once, {time}", { time: when(how.at) });
  if (how.every_seconds) return t("every {time}", { time: spanOf(how.every_seconds) });
  return html`<code>${plain(how.cron)}</code> ${plain(how.timezone)}`;
}

function dots(job) {
  const runs = [...(job.runs ?? [])].reverse();
  if (!runs.length) return html`<span class="faint">${t("has not run yet")}</span>`;
  return html`<span class="dots" role="group" aria-label=${t("The newest runs")}>${runs.map((run) => {
    const kind = run.outcome ?? "running";
    const label = `${new Date(run.scheduled_at).toLocaleString(locale)}: ${OUTCOMES[run.outcome] ?? t("running")}`;
    const shape = html`<svg class=${`o-${kind}`} viewBox="0 0 12 12" aria-hidden="true">${SHAPES[kind]}</svg>`;
    return run.session_id
      ? html`<a class="run" href=${`#/s/${encodeURIComponent(run.session_id)}`} title=${label} aria-label=${label}>${shape}</a>`
      : html`<span class="run" role="img" title=${label} aria-label=${label}>${shape}</span>`;
  })}</span>`;
}

function details(job) {
  const { id, state: how, last } = job;
  const isBusy = jobs.busy === id;
  const isPaused = how === "paused";
  const lasted = last?.finished_at ? took(last.started_at, last.finished_at) : "";
  const button = (action, label, done) => html`<button ?disabled=${isBusy} @click=${() => actOn(id, action, done)}>${label}</button>`;
  return html`<div class="inside">
    ${[jobs.comingError, jobs.actError].filter(Boolean).map((each) => html`<p class="error" role="alert">${each}</p>`)}
    ${folded(job.payload.task ?? job.payload.message)}
    ${jobs.coming?.next.length ? coming(jobs.coming) : nothing}
    ${last
      ? html`<p class="about">${rich("Last run {time}: {outcome}", { time: ago(last.scheduled_at), outcome: OUTCOMES[last.outcome] ?? last.outcome })}${lasted ? html`<span class="dot">·</span>${lasted}` : nothing}${last.session_id ? html`<span class="dot">·</span><a href=${`#/s/${encodeURIComponent(last.session_id)}`}>${t("its session")}</a>` : nothing}${last.error ? html`<br>${plain(last.error)}` : nothing}</p>`
      : nothing}
    <p class="about">${t("Told to: {where}", { where: target(job.to) })}<span class="dot">·</span><code>${plain(job.file)}${job.line ? `:${job.line}` : ""}</code></p>
    <div class="answers">
      ${how === "done" ? nothing : button("run", t("Run now"), t("It runs."))}
      ${isPaused ? button("resume", t("Resume"), t("It goes on.")) : how === "done" ? nothing : button("pause", t("Pause"), t("Paused."))}
      <button class="deny" ?disabled=${isBusy} @click=${() => confirm(t("Call this job off for good?")) && actOn(id, "cancel", t("Called off."))}>${t("Call off")}</button>
    </div>
  </div>`;
}

function target(to) {
  if (!to) return t("nobody; the result stays in the session");
  return plain(to.webhook ?? to.session ?? `${to.channel} ${to.chat}`);
}

// Each time by the clock of the job's zone and by that of whoever looks.
function coming({ timezone, next }) {
  const inZone = (zone) => new Intl.DateTimeFormat(locale, { timeZone: zone, weekday: "short", day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit" });
  const isOther = timezone !== here;
  return html`<table class="times">
    <caption>${t("Next times")}</caption>
    <thead><tr><th scope="col">${plain(timezone)}</th>${isOther ? html`<th scope="col">${t("your clock ({zone})", { zone: here })}</th>` : nothing}</tr></thead>
    <tbody>${next.map(({ at }) => html`<tr><td><time datetime=${at}>${inZone(timezone).format(new Date(at))}</time></td>${isOther ? html`<td>${inZone(here).format(new Date(at))}</td>` : nothing}</tr>`)}</tbody>
  </table>`;
}

// --- a new one ---

function newJob() {
  const { fields, errors } = form;
  const submit = (event) => {
    event.preventDefault();
    makeJob(state.agents);
  };
  const set = (name) => (event) => setField(name, event.target.value);
  const fault = (name) => (errors[name] ? html`<p class="error" id=${`fault-${name}`} role="alert">${plain(errors[name])}</p>` : nothing);
  const about = (name) => (errors[name] ? `fault-${name}` : nothing);
  const line = (name, label, example = "") => html`<label>${label}
    <input name=${name} .value=${fields[name] ?? ""} placeholder=${example} aria-invalid=${Boolean(errors[name])} aria-describedby=${about(name)} @input=${set(name)}></label>${fault(name)}`;
  const [, , example] = HOWS.find(([how]) => how === fields.how);
  return html`<form class="make" aria-label=${t("New job")} @submit=${submit}>
    <div class="pair">
      <label>${t("Agent")}<select name="agent" @change=${set("agent")}>${state.agents.map(({ name }) => html`<option value=${name} ?selected=${name === fields.agent}>${plain(name)}</option>`)}</select>${fault("agent")}</label>
      <label>${t("What it does")}<select name="kind" @change=${set("kind")}>
        <option value="task" ?selected=${fields.kind === "task"}>${t("The agent works on a task")}</option>
        <option value="message" ?selected=${fields.kind === "message"}>${t("A text is sent as it stands")}</option>
      </select></label>
    </div>
    <label>${fields.kind === "task" ? t("Task") : t("Text")}
      <textarea name="text" rows="3" required .value=${fields.text ?? ""} aria-describedby=${about("text")} @input=${set("text")}></textarea></label>${fault("text")}
    <div class="pair">
      <label>${t("When")}<select name="how" @change=${set("how")}>${HOWS.map(([how, label]) => html`<option value=${how} ?selected=${how === fields.how}>${label}</option>`)}</select></label>
      <div>${line("when", fields.how === "cron" ? t("Minute, hour, day, month, weekday") : t("Time"), example)}</div>
      <div>${line("timezone", t("Time zone"), "Europe/Berlin")}</div>
    </div>
    <div role="status">${form.preview ? (form.preview.next.length ? coming(form.preview) : html`<p class="error">${t("None of its times is to come.")}</p>`) : nothing}</div>
    <div class="pair">
      <div>${line("channel", t("Told in the channel"), "telegram")}</div>
      <div>${line("chat", t("Chat"), "123456789")}</div>
      <div>${line("label", t("Name"))}</div>
    </div>
    ${form.error ? html`<p class="error" role="alert">${plain(form.error)}</p>` : nothing}
    <div class="answers"><button class="main" ?disabled=${form.isBusy}>${t("Make the job")}</button><button type="button" @click=${() => showForm(false)}>${t("Not now")}</button></div>
  </form>`;
}
