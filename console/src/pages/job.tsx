import { useEffect, useState } from "preact/hooks";
import { explanation, mayChange, request } from "../api.ts";
import { draft } from "../draft.ts";
import { type JobNews, followJob } from "../events.ts";
import { type LogEntry, mergedLog } from "../logic/changes.ts";
import { errorText } from "../logic/errors.ts";
import * as format from "../logic/format.ts";
import { progressOf } from "../logic/progress.ts";
import { NEW_INSTANCE, href } from "../logic/routes.ts";
import { parseSummary } from "../logic/summaries.ts";
import { hasEnded, jobStatus } from "../model.ts";
import { Confirmation, openDialog } from "../parts/dialog.tsx";
import { useReading, useTitle } from "../parts/hooks.ts";
import { notify } from "../parts/notices.tsx";
import { Ago, Badge, Fact, Facts, Failure, JobWords, Loading, Meter, None, Took } from "../parts/text.tsx";
import { ObstaclesPart } from "../parts/waits.tsx";

interface Details {
  readonly id: number;
  readonly status: string | null;
  readonly summary: string;
  readonly ops: readonly Readonly<Record<string, unknown>>[];
  readonly opstatus: readonly string[];
  readonly opresult: readonly unknown[];
  readonly oplog: readonly (readonly LogEntry[])[];
  readonly received_ts: unknown;
  readonly start_ts: unknown;
  readonly end_ts: unknown;
}

export function JobPage({ id }: { id: string }) {
  useTitle(`Job ${id}`);
  const { value, failure } = useReading(() => request<Details>("GET", `/2/jobs/${id}`), [id], [["job", id]]);
  const [news, setNews] = useState<JobNews | null>(null);
  const [log, setLog] = useState<readonly LogEntry[]>([]);
  const isOpen = value?.status !== null && value !== undefined && !hasEnded({ status: value.status });

  useEffect(() => {
    setNews(null);
    setLog([]);
  }, [id]);
  useEffect(() => {
    if (value?.oplog) setLog((present) => mergedLog(present, value.oplog.flat()));
  }, [value]);
  useEffect(() => {
    if (!isOpen) return;
    return followJob(Number(id), (heard) => {
      if (heard.id !== Number(id)) return;
      setNews(heard);
      setLog((present) => mergedLog(present, heard.log));
    });
  }, [id, isOpen]);

  const status = value?.status && hasEnded({ status: value.status }) ? value.status : (news?.status ?? value?.status);
  return (
    <>
      <header class="head">
        <p class="crumbs">
          <a href={href(["jobs"])}>Jobs</a> /
        </p>
        <h1>Job {id}</h1>
        {status && <Badge status={jobStatus(status)} />}
        {status && !hasEnded({ status }) && mayChange() && <Cancel id={id} status={status} />}
        {value && status && <Creation job={value} status={status} />}
      </header>
      {failure && <Failure text={failure} />}
      {!value && !failure && <Loading what={`job ${id}`} />}
      {value?.status === null && <p class="empty">There is no job {id}.</p>}
      {value?.status && <Body job={value} log={log} news={isOpen ? news : null} />}
    </>
  );
}

/** Where the job of a new instance leads: to the instance, or back to the form that the browser still has. */
function Creation({ job, status }: { job: Details; status: string }) {
  const op = job.ops[0] ?? {};
  if (op["OP_ID"] !== "OP_INSTANCE_CREATE" || op["dry_run"]) return null;
  const name = String(op["instance_name"]);
  if (status === "success") {
    return (
      <div class="actions">
        <a class="button primary" href={href(["instances", name])}>
          Open {name}
        </a>
      </div>
    );
  }
  if (status !== "error" || !draft.value) return null;
  return (
    <div class="actions">
      <a class="button" href={href([NEW_INSTANCE])}>
        Back to the form
      </a>
    </div>
  );
}

function Cancel({ id, status }: { id: string; status: string }) {
  const isRunning = status === "running";
  const run = async () => {
    try {
      const path = `/2/jobs/${id}${isRunning ? "?kill=1" : ""}`;
      const [isCanceled, message] = await request<[boolean, string]>("DELETE", path);
      notify(isCanceled ? "good" : "bad", message);
    } catch (error) {
      notify("bad", explanation(error));
    }
  };
  const ask = () =>
    openDialog(
      <Confirmation title={`Cancel job ${id}?`} action="Cancel the job" isDangerous onConfirm={() => void run()}>
        <p>
          {isRunning ? "The job runs. What it has done is reverted where that is possible." : "The job has not begun."}
        </p>
      </Confirmation>,
    );
  return (
    <div class="actions">
      <button type="button" class="danger" disabled={status === "canceling"} onClick={ask}>
        Cancel…
      </button>
    </div>
  );
}

function Body({ job, log, news }: { job: Details; log: readonly LogEntry[]; news: JobNews | null }) {
  const progress = progressOf(news?.progress ?? "");
  return (
    <>
      {job.opstatus.map((status, i) => (
        <Outcome key={i} status={status} result={job.opresult[i]} />
      ))}
      <section>
        <Facts isWide>
          <Fact name="What">
            <JobWords summary={job.summary} isDryRun={job.ops.every((op) => op["dry_run"] === true)} />
          </Fact>
          <Fact name="Submitted">
            <Ago time={job.received_ts} />
          </Fact>
          <Fact name="Took">
            <Took start={job.start_ts} end={job.end_ts} />
          </Fact>
          {progress && (
            <Fact name="Progress">
              {progress.share === null ? (
                progress.words
              ) : (
                <Meter part={progress.share} total={1} label={progress.words} tone="busy" />
              )}
            </Fact>
          )}
        </Facts>
      </section>
      {!hasEnded({ status: job.status ?? "" }) && <ObstaclesPart job={job.id} />}
      <section>
        <h2>Log</h2>
        <div role="log" aria-label="Log of the job" class="log" tabIndex={0}>
          {log.length === 0 && <p class="empty">The job has logged nothing.</p>}
          {log.map(([serial, time, type, message]) => (
            <div key={serial} class={type === "message" ? "" : "special"}>
              <time>{format.timeOfDay(format.seconds(time) ?? 0)}</time> {format.value(message)}
            </div>
          ))}
        </div>
      </section>
      <section>
        <h2>Opcodes</h2>
        {job.ops.map((op, i) => (
          <Opcode key={i} op={op} status={job.opstatus[i] ?? ""} />
        ))}
      </section>
    </>
  );
}

/** Why an opcode failed. */
function Outcome({ status, result }: { status: string; result: unknown }) {
  const text = status === "error" ? errorText(result) : "";
  return text ? <Failure text={text} /> : null;
}

function Opcode({ op, status }: { op: Readonly<Record<string, unknown>>; status: string }) {
  const id = String(op["OP_ID"] ?? "");
  const hidden = new Set(["OP_ID", "reason", "comment", "debug_level", "priority", "depends", "dry_run"]);
  const fields = Object.entries(op).filter(([name, value]) => !hidden.has(name) && !isEmpty(value));
  return (
    <details>
      <summary>
        {parseSummary(id.replace(/^OP_/, "")).words} <Badge status={jobStatus(status)} />
      </summary>
      <Facts>
        <Fact name="Opcode">
          <code>{id}</code>
        </Fact>
        {fields.map(([name, value]) => (
          <Fact key={name} name={name}>
            {format.value(value)}
          </Fact>
        ))}
        {fields.length === 0 && (
          <Fact name="Fields">
            <None />
          </Fact>
        )}
      </Facts>
    </details>
  );
}

function isEmpty(value: unknown): boolean {
  return value === null || value === "" || value === false || (Array.isArray(value) && value.length === 0);
}
