// The end of a job: changes that a form waits for, and dry runs, whose result is the plan.

import { effect } from "@preact/signals";
import { ApiError, request } from "./api.ts";
import { errorText } from "./logic/errors.ts";
import { hasEnded } from "./model.ts";
import { version } from "./store.ts";

interface JobResult {
  readonly status: string | null;
  readonly opstatus: readonly string[];
  readonly opresult: readonly unknown[];
}

/** A job that did not succeed; the message is the reason for people. */
export class JobError extends Error {
  readonly job: number;

  constructor(job: number, message: string) {
    super(message);
    this.job = job;
  }
}

/** Wait for the end of a job and return the result of its first opcode; JobError if it did not succeed. */
export function outcome(job: number): Promise<unknown> {
  return new Promise((resolve, reject) => {
    let isSettled = false;
    const read = async () => {
      const result = await request<JobResult>("GET", `/2/jobs/${job}`);
      if (isSettled || (result.status !== null && !hasEnded({ status: result.status }))) return;
      isSettled = true;
      queueMicrotask(() => stop());
      if (result.status === "success") return resolve(result.opresult[0]);
      const failed = result.opstatus.indexOf("error");
      const reason = failed >= 0 ? errorText(result.opresult[failed]) : "";
      reject(new JobError(job, reason || `Job ${job} was canceled or does not exist.`));
    };
    const stop = effect(() => {
      void version("job", String(job)).value;
      read().catch((error: unknown) => {
        if (error instanceof ApiError && error.code === 0) return; // it is read again when the connection is back
        isSettled = true;
        queueMicrotask(() => stop());
        reject(error);
      });
    });
  });
}

type Method = "PUT" | "POST" | "DELETE";

/** Carry out a dry run and return the lines of its plan; nothing is changed. */
export async function plan(method: Method, path: string, body: unknown): Promise<string[]> {
  const job = await request<number>(method, `${path}${path.includes("?") ? "&" : "?"}dry-run=1`, body);
  const lines = await outcome(job);
  return Array.isArray(lines) ? lines.map(String) : [];
}
