// Messages after an action: the job that was submitted, or why it was not. Errors stay until they are dismissed.

import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { ApiError, explanation, request } from "../api.ts";
import { href } from "../logic/routes.ts";
import { hasEnded } from "../model.ts";
import { jobs } from "../store.ts";
import { JobWords } from "./text.tsx";

interface Notice {
  readonly id: number;
  readonly tone: "good" | "bad";
  readonly text: ComponentChildren;
}

const notices = signal<readonly Notice[]>([]);
const VISIBLE_MILLISECONDS = 8_000;
let last = 0;

export function notify(tone: Notice["tone"], text: ComponentChildren): void {
  last += 1;
  const id = last;
  notices.value = [...notices.peek().slice(-4), { id, tone, text }];
  if (tone === "good") setTimeout(() => dismiss(id), VISIBLE_MILLISECONDS);
}

function dismiss(id: number): void {
  notices.value = notices.peek().filter((notice) => notice.id !== id);
}

export function Notices() {
  return (
    <div class="notices-place">
      <div class="notices" role="status" aria-live="polite">
        {notices.value.map((notice) => (
          <div key={notice.id} class={`notice ${notice.tone}`}>
            <span>{notice.text}</span>
            <button type="button" class="quiet" aria-label="Dismiss this message" onClick={() => dismiss(notice.id)}>
              ×
            </button>
          </div>
        ))}
      </div>
    </div>
  );
}

/** Jobs that this page submitted and that have not ended: their failure is reported wherever the person is then. */
const mine = new Set<number>();

jobs.rows.subscribe((rows) => {
  if (mine.size === 0) return;
  for (const job of rows) {
    if (!mine.has(job.id) || !hasEnded(job)) continue;
    mine.delete(job.id);
    if (job.status !== "error") continue;
    notify(
      "bad",
      <>
        <a href={href(["jobs", job.id])}>Job {job.id}</a> failed: <JobWords summary={job.summary} />
        <br />
        {job.error}
      </>,
    );
  }
});

/** Report a failure of this job wherever the person is when it fails. */
export function track(job: number): void {
  mine.add(job);
}

type Method = "PUT" | "POST" | "DELETE";

/** Submit a change; the answer is the number of its job, or null with the reason shown. */
export async function submit(method: Method, path: string, body?: unknown): Promise<number | null> {
  try {
    const job = await request<number>(method, path, body);
    mine.add(job);
    return job;
  } catch (error) {
    const code = error instanceof ApiError && error.code ? ` (${error.code})` : "";
    notify("bad", `${explanation(error)}${code}`);
    return null;
  }
}

/** Submit a change of one object and say which job it became. */
export async function submitOne(what: string, method: Method, path: string, body?: unknown): Promise<void> {
  const job = await submit(method, path, body);
  if (job === null) return;
  notify(
    "good",
    <>
      {what}: <a href={href(["jobs", job])}>job {job}</a>
    </>,
  );
}
