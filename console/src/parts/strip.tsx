// The strip at the bottom of every page: the jobs that run, and the latest ones.

import { useSignal } from "@preact/signals";
import { keep, kept } from "../kept.ts";
import * as format from "../logic/format.ts";
import { href } from "../logic/routes.ts";
import { type Job, hasEnded, jobStatus } from "../model.ts";
import { jobs } from "../store.ts";
import { useLists } from "./hooks.ts";
import { Ago, Badge, JobWords, Took } from "./text.tsx";

const SHOWN = 5;

function latest(rows: readonly Job[]): Job[] {
  const running = rows.filter((job) => !hasEnded(job)).sort((a, b) => a.id - b.id);
  const ended = rows.filter(hasEnded).sort((a, b) => b.id - a.id);
  return [...running, ...ended].slice(0, SHOWN);
}

export function TaskStrip() {
  useLists(jobs);
  const choice = kept("strip");
  const isOpen = useSignal(choice ? choice === "open" : innerHeight >= 800 && innerWidth >= 700);
  const rows = jobs.rows.value;
  const shown = latest(rows);
  const running = rows.filter((job) => job.status === "running" || job.status === "canceling").length;
  const waiting = rows.filter((job) => job.status === "waiting" || job.status === "queued").length;
  const toggle = () => {
    isOpen.value = !isOpen.value;
    keep("strip", isOpen.value ? "open" : "closed");
  };
  const last = shown[0];
  return (
    <aside class="strip" aria-label="Jobs">
      <div class="strip-head">
        <button type="button" class="quiet" aria-expanded={isOpen.value} onClick={toggle}>
          <span aria-hidden="true">{isOpen.value ? "▾" : "▸"}</span> Jobs
        </button>
        <span class="strip-count">
          {format.number(running)} running, {format.number(waiting)} waiting
        </span>
        {!isOpen.value && last && (
          <span class="strip-last">
            <Badge status={jobStatus(last.status)} /> <a href={href(["jobs", last.id])}>{last.id}</a>{" "}
            <JobWords summary={last.summary} isDryRun={last.dry_run} />
          </span>
        )}
      </div>
      {isOpen.value && (
        <table>
          <caption class="unseen">Running and latest jobs</caption>
          <tbody>
            {shown.map((job) => (
              <tr key={job.id}>
                <td class="number">
                  <a href={href(["jobs", job.id])}>{job.id}</a>
                </td>
                <td>
                  <Badge status={jobStatus(job.status)} />
                </td>
                <td class="grows">
                  <JobWords summary={job.summary} isDryRun={job.dry_run} />
                  {job.error && <span class="error-text"> {job.error}</span>}
                </td>
                <td class="low">{job.user}</td>
                <td class="middle">
                  <Ago time={job.received_ts} />
                </td>
                <td class="number low">
                  <Took start={job.start_ts} end={job.end_ts} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </aside>
  );
}
