// Asks the HTTP API, as any other client does. The cookie of the login goes with it by itself.

import { t } from "./parts/texts.js";

const HERE = location.href.split("#")[0];
self.begun ??= new Map();

export class Problem extends Error {
  constructor(status, document) {
    super(document.detail || document.title || t("the gateway answered {status}", { status }));
    this.status = status;
    this.document = document;
  }

  // Somebody who shows the admin token may do it.
  get needsAdmin() {
    return this.document.scope === "admin";
  }
}

let askForAdmin = async () => false;

// `work` gets the problem, and tells whether the page may administer from now on.
export function whenAdminIsNeeded(work) {
  askForAdmin = work;
}

export function address(path) {
  return new URL(`../${path}`, HERE).href;
}

// What `begin.js` has asked for already; each answer is taken once.
function begun(method, path) {
  if (method !== "GET" || !self.begun.size) return undefined;
  const found = self.begun.get(address(path));
  self.begun.delete(address(path));
  return found;
}

export async function call(method, path, body, headers = {}) {
  let answer;
  try {
    answer = await (begun(method, path) ?? fetch(address(path), {
      method,
      headers: body === undefined ? headers : { "Content-Type": "application/json", ...headers },
      body: body === undefined ? undefined : JSON.stringify(body),
    }));
  } catch {
    throw new Problem(0, { detail: t("The gateway cannot be reached.") });
  }
  const text = await answer.text();
  let document = {};
  try {
    document = text ? JSON.parse(text) : {};
  } catch {
    document = { detail: text.slice(0, 200) };
  }
  if (answer.ok) return document;
  const problem = new Problem(answer.status, document);
  // Whoever acts is asked, and the act is done again; what is only shown says what it needs.
  const isAct = method !== "GET" && problem.needsAdmin;
  if (isAct && (await askForAdmin(problem))) return call(method, path, body, headers);
  throw problem;
}

export const get = (path) => call("GET", `api/v1/${path}`);
export const post = (path, body = {}, headers = {}) => call("POST", `api/v1/${path}`, body, headers);

export const login = (token) =>
  call("POST", "console/login", undefined, { Authorization: `Bearer ${token}` });
export const logout = () => call("DELETE", "console/login");

// `crypto.randomUUID` is missing where the page comes over plain HTTP from another machine.
export function newKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((each) => each.toString(16).padStart(2, "0")).join("");
}
