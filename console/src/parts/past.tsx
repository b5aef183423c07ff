// What happened to an object: its jobs, and the events since the page was opened.

import { href } from "../logic/routes.ts";
import { opcodeWords, parseSummary } from "../logic/summaries.ts";
import { type Job, jobStatus } from "../model.ts";
import { jobs, seen } from "../store.ts";
import { useLists } from "./hooks.ts";
import { Ago, Badge, Scrolling, Took } from "./text.tsx";

const SHOWN = 12;

function isAbout(job: Job, kind: string, name: string): boolean {
  const subject = parseSummary(job.summary);
  return (subject.kind === kind && subject.name === name) || job.summary.includes(`(${name})`);
}

export function JobList({ title, kind, name }: { title: string; kind: string; name: string }) {
  useLists(jobs);
  const rows = jobs.rows.value.filter((job) => isAbout(job, kind, name)).sort((a, b) => b.id - a.id);
  return (
    <section>
      <h2>{title}</h2>
      {rows.length === 0 && <p class="empty">None that are not archived.</p>}
      {rows.length > 0 && (
        <Scrolling label={title}>
          <table>
            <thead>
              <tr>
                <th scope="col" class="number">
                  Job
                </th>
                <th scope="col">What</th>
                <th scope="col">Status</th>
                <th scope="col">Submitted</th>
                <th scope="col" class="number">
                  Took
                </th>
              </tr>
            </thead>
            <tbody>
              {rows.slice(0, SHOWN).map((job) => (
                <tr key={job.id}>
                  <td class="number">
                    <a href={href(["jobs", job.id])}>{job.id}</a>
                  </td>
                  <td>
                    {job.dry_run && "Plan: "}
                    {parseSummary(job.summary).words}
                  </td>
                  <td>
                    <Badge status={jobStatus(job.status)} {...(job.error ? { title: job.error } : {})} />
                  </td>
                  <td>
                    <Ago time={job.received_ts} />
                  </td>
                  <td class="number">
                    <Took start={job.start_ts} end={job.end_ts} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </Scrolling>
      )}
      {rows.length > SHOWN && (
        <p>
          <a href={href(["jobs"], { q: name })}>All {rows.length} jobs</a>
        </p>
      )}
    </section>
  );
}

export function EventList({ kind, uuid }: { kind: string; uuid: string }) {
  const rows = seen.value
    .flatMap((event) =>
      event.changes.filter((c) => c.kind === kind && c.key === uuid).map((c) => ({ event, change: c })),
    )
    .reverse();
  return (
    <section>
      <h2>Events since this page was opened</h2>
      {rows.length === 0 && <p class="empty">None yet.</p>}
      {rows.length > 0 && (
        <ul class="events">
          {rows.slice(0, SHOWN).map(({ event, change }) => (
            <li key={event.serial}>
              <Ago time={event.time} /> {change.what}
              {event.cause.opcode && `: ${opcodeWords(event.cause.opcode)}`}
              {event.cause.job ? (
                <>
                  {" "}
                  (<a href={href(["jobs", event.cause.job])}>job {event.cause.job}</a>)
                </>
              ) : null}
              {event.cause.user && <span class="none"> by {event.cause.user.replace(/^.*:/, "")}</span>}
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}
