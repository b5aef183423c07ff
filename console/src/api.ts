// Requests of the remote API, and the session. Everything that the console knows comes from here and from events.ts.

import { signal } from "@preact/signals";
import { type Right, type Rule, type Ruled, ruleAllows, ruleAllowsSome } from "./logic/access.ts";

export interface Session {
  readonly user: string;
  readonly may: "write" | "read" | "";
  /** The access rules of a user who may not do everything. */
  readonly rules: readonly Rule[];
  readonly csrf: string;
}

/** undefined: not known yet; null: nobody is logged in. */
export const session = signal<Session | null | undefined>(undefined);

/** Whether a session ended while the page is open: the log-in is then shown over it, and requests wait. */
export const sessionEnded = signal(false);

function mayWrite(): boolean {
  return session.value?.may === "write";
}

/** Whether the user has a right on an object, or on the cluster as a whole; the master decides about each request. */
export function may(right: Right, object: Ruled | null = null): boolean {
  return mayWrite() || ruleAllows(session.value?.rules ?? [], right, object);
}

/** Whether the user may start and stop some instance, or create some. */
export function maySome(right: "operate" | "populate"): boolean {
  return mayWrite() || ruleAllowsSome(session.value?.rules ?? [], right);
}

/** Whether the user may change anything; the master decides about each request. */
export function mayChange(): boolean {
  return mayWrite() || !!session.value?.rules.some((rule) => rule.role !== "viewer");
}

/** What the server answered instead of a result; `explain` is the text for people. */
export class ApiError extends Error {
  readonly code: number;
  readonly explain: string;

  constructor(code: number, message: string, explain: string) {
    super(explain || message);
    this.code = code;
    this.explain = explain || message;
  }
}

/** The text of any error for people. */
export function explanation(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

type Method = "GET" | "PUT" | "POST" | "DELETE";

let waiting: (() => void)[] = [];

/**
 * Send a request; if the session has ended, wait for the log-in and send it again. With `serial`, the object of the path
 * must still have this serial number: otherwise the answer is 412, and nothing is changed.
 */
export async function request<Answer>(method: Method, path: string, body?: unknown, serial?: number): Promise<Answer> {
  for (;;) {
    try {
      return await send<Answer>(method, path, body, serial);
    } catch (error) {
      if (!(error instanceof ApiError && error.code === 401)) throw error;
      await loggedIn();
    }
  }
}

/** Show the log-in and return when somebody has logged in. */
function loggedIn(): Promise<void> {
  sessionEnded.value = true;
  return new Promise((resolve) => waiting.push(resolve));
}

async function send<Answer>(method: Method, path: string, body?: unknown, serial?: number): Promise<Answer> {
  const headers: Record<string, string> = { "X-Gantry-CSRF": session.peek()?.csrf ?? "", Accept: "application/json" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (serial !== undefined) headers["If-Match"] = `"${serial}"`;
  let response: Response;
  try {
    response = await fetch(path, {
      method,
      headers,
      credentials: "same-origin",
      body: body === undefined ? null : JSON.stringify(body),
    });
  } catch {
    throw new ApiError(0, "", "The server does not answer. Check the connection, then try again.");
  }
  const text = await response.text();
  let answer: unknown = null;
  try {
    answer = text ? JSON.parse(text) : null;
  } catch {
    if (response.ok) throw new ApiError(response.status, "", "The answer of the server is not JSON.");
  }
  if (response.ok) return answer as Answer;
  const failure = (answer ?? {}) as { message?: string; explain?: string | null };
  const status = `${response.status} ${response.statusText}`.trim();
  throw new ApiError(response.status, failure.message ?? status, failure.explain ?? "");
}

/** Find out whether somebody is logged in. */
export async function findSession(): Promise<void> {
  try {
    session.value = await send<Session>("GET", "/2/session");
  } catch (error) {
    if (!(error instanceof ApiError && error.code === 401)) throw error;
    session.value = null;
  }
}

export interface LoginMethods {
  /** The OpenID provider: its name, and where a browser begins a log-in by it. */
  readonly provider: { readonly name: string; readonly login: string } | null;
  /** Why the last log-in by the provider failed in this browser; the server says it once. */
  readonly failure: string;
}

/** How people may log in. */
export async function loginMethods(): Promise<LoginMethods> {
  return await send<LoginMethods>("GET", "/2/session/methods");
}

export async function logIn(user: string, password: string): Promise<void> {
  goOn(await send<Session>("POST", "/2/session", { user, password }));
}

/** Continue with the session of a log-in in another tab, if there is one. */
export async function adoptSession(): Promise<void> {
  try {
    goOn(await send<Session>("GET", "/2/session"));
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
  }
}

function goOn(known: Session): void {
  session.value = known;
  sessionEnded.value = false;
  const resumed = waiting;
  waiting = [];
  for (const resume of resumed) resume();
}

export async function logOut(): Promise<void> {
  const answer = await send<{ readonly logout: string } | null>("DELETE", "/2/session");
  if (answer) location.assign(answer.logout);
  else location.reload();
}

type Cell = readonly [status: number, value: unknown];

interface Answered {
  readonly data: readonly (readonly Cell[])[];
}

/** The status of a cell whose object does not have the value, or does not show it to this user. */
const UNAVAILABLE = 3;

/**
 * Return the objects of a kind as records by field name; a value that is missing is null. Nodes have the names of their
 * unavailable fields in `unavailable`: a node without memory is silent, unless it is not asked.
 */
export async function query<Row>(kind: string, fields: readonly string[], filter?: readonly unknown[]): Promise<Row[]> {
  const body = filter ? { fields, qfilter: filter } : { fields };
  const answer = await request<Answered>("PUT", `/2/query/${kind}`, body).catch((error: unknown) => {
    // A filter that is nothing but names fails if one of them does not exist; inside "&" it is an ordinary filter.
    if (!filter || !(error instanceof ApiError && error.code === 404)) throw error;
    return request<Answered>("PUT", `/2/query/${kind}`, { fields, qfilter: ["&", filter] });
  });
  return answer.data.map((cells) => {
    const row: Record<string, unknown> = {};
    for (const [i, field] of fields.entries()) row[field] = cells[i]?.[0] === 0 ? cells[i][1] : null;
    if (kind === "node") row.unavailable = fields.filter((_, i) => cells[i]?.[0] === UNAVAILABLE);
    return row as Row;
  });
}
