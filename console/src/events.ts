// The event stream: one for the page, which resumes from its last serial. No other source of changes, no polling.

import { signal } from "@preact/signals";
import { findSession, request, session } from "./api.ts";
import type { Event, LogEntry } from "./logic/changes.ts";

export type Connection = "connecting" | "live" | "lost";

export interface JobNews {
  readonly id: number;
  readonly status: string;
  readonly log: readonly LogEntry[];
  readonly progress: string; // empty without any
}

export const connection = signal<Connection>("connecting");

const FIRST_DELAY = 1_000;
const LONGEST_DELAY = 15_000;
const BEGIN_MILLISECONDS = 3_000;
/** A tab that nobody sees gives its connection back after this time: a browser has six of them to a server. */
const HIDDEN_MILLISECONDS = 20_000;

let source: EventSource | null = null;
let serial: number | null = null;
let followed: number | null = null;
let delay = FIRST_DELAY;
let timer = 0;
let isLate = false;
let begun: () => void;

/**
 * Resolves when the stream has begun: what is read from then on cannot miss a change. If it does not begin in time, the
 * page shows what there is, and reads it again when the stream begins.
 */
export const hasBegun = new Promise<void>((resolve) => {
  begun = resolve;
});

const listeners = {
  change: new Set<(event: Event) => void>(),
  lost: new Set<() => void>(),
  job: new Set<(news: JobNews) => void>(),
  webhooks: new Set<() => void>(),
};

export function onChange(listener: (event: Event) => void): () => void {
  listeners.change.add(listener);
  return () => listeners.change.delete(listener);
}

export function onLost(listener: () => void): () => void {
  listeners.lost.add(listener);
  return () => listeners.lost.delete(listener);
}

/** Listen to a job's log and progress, too; the page has one stream, so it follows one job at a time. */
export function followJob(id: number, listener: (news: JobNews) => void): () => void {
  listeners.job.add(listener);
  followed = id;
  open();
  return () => {
    listeners.job.delete(listener);
    if (followed !== id) return;
    followed = null;
    open();
  };
}

/** Listen to how far the receivers of webhooks are, too: that has no events. */
export function followWebhooks(listener: () => void): () => void {
  listeners.webhooks.add(listener);
  open();
  return () => {
    listeners.webhooks.delete(listener);
    open();
  };
}

export function start(): void {
  open();
  setTimeout(() => {
    isLate = serial === null;
    begun();
  }, BEGIN_MILLISECONDS);
  addEventListener("online", open);
  let hiding = 0;
  addEventListener("visibilitychange", () => {
    clearTimeout(hiding);
    if (document.hidden) hiding = setTimeout(close, HIDDEN_MILLISECONDS);
    else if (!source) open();
  });
}

/** End the stream; the next one continues after the last serial. */
function close(): void {
  clearTimeout(timer);
  source?.close();
  source = null;
  connection.value = "connecting";
}

function open(): void {
  if (!session.peek()) return;
  clearTimeout(timer);
  source?.close();
  const query = new URLSearchParams();
  if (serial !== null) query.set("after", String(serial));
  if (followed !== null) query.set("job", String(followed));
  if (listeners.webhooks.size) query.set("webhooks", "1");
  const stream = new EventSource(`/2/events${query.size ? `?${query}` : ""}`);
  source = stream;
  stream.addEventListener("begin", (message) => {
    serial ??= (JSON.parse(message.data) as { serial: number }).serial;
    delay = FIRST_DELAY;
    connection.value = "live";
    begun();
    if (isLate) for (const listener of listeners.lost) listener();
    isLate = false;
  });
  stream.addEventListener("change", (message) => {
    const event = JSON.parse(message.data) as Event;
    serial = event.serial;
    for (const listener of listeners.change) listener(event);
  });
  stream.addEventListener("lost", () => {
    serial = null;
    for (const listener of listeners.lost) listener();
  });
  stream.addEventListener("job", (message) => {
    const news = JSON.parse(message.data) as JobNews;
    for (const listener of listeners.job) listener(news);
  });
  stream.addEventListener("webhooks", () => {
    for (const listener of listeners.webhooks) listener();
  });
  stream.addEventListener("error", () => {
    connection.value = "lost";
    if (stream === source && stream.readyState === EventSource.CLOSED) void reopen();
  });
}

/** The browser gave up, because the answer was not a stream: the session may have ended, or the server restarts. */
async function reopen(): Promise<void> {
  source = null;
  // A session that has ended is found out here, and the request waits for the log-in.
  await request("GET", "/2/session").catch(() => undefined);
  clearTimeout(timer);
  timer = setTimeout(open, delay);
  delay = Math.min(delay * 2, LONGEST_DELAY);
}

/** Called once at the start: the session, then the stream. */
export async function connect(): Promise<void> {
  if (session.peek() === undefined) await findSession();
  if (session.peek()) start();
}
