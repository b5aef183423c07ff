import { may } from "../api.ts";
import * as format from "../logic/format.ts";
import { href } from "../logic/routes.ts";
import { matches, orderText, parseOrder, sorted, terms } from "../logic/rows.ts";
import { parseSummary } from "../logic/summaries.ts";
import { type Job, jobStatus } from "../model.ts";
import { FilterBox, useFilter } from "../parts/filter.tsx";
import { useLists, useTitle } from "../parts/hooks.ts";
import { type Column, Table } from "../parts/table.tsx";
import { Ago, Badge, Failure, JobWords, Loading, None, Took } from "../parts/text.tsx";
import { WaitsPart } from "../parts/waits.tsx";
import { replaceQuery, route } from "../router.ts";
import { jobs } from "../store.ts";

const COLUMNS: readonly Column<Job>[] = [
  {
    name: "id",
    title: "Job",
    width: "4.2rem",
    isNumber: true,
    first: "descending",
    sort: (row) => row.id,
    cell: (row) => <a href={href(["jobs", row.id])}>{row.id}</a>,
  },
  {
    name: "status",
    title: "Status",
    width: "6rem",
    sort: (row) => jobStatus(row.status).word,
    cell: (row) => <Badge status={jobStatus(row.status)} />,
  },
  {
    name: "what",
    title: "What",
    sort: (row) => row.summary,
    cell: (row) => <JobWords summary={row.summary} isDryRun={row.dry_run} />,
  },
  {
    name: "user",
    title: "User",
    width: "10rem",
    rank: "low",
    sort: (row) => row.user ?? "",
    cell: (row) => row.user ?? <None />,
  },
  {
    name: "submitted",
    title: "Submitted",
    width: "10rem",
    rank: "middle",
    first: "descending",
    sort: (row) => format.seconds(row.received_ts),
    cell: (row) => <Ago time={row.received_ts} />,
  },
  {
    name: "took",
    title: "Took",
    width: "7rem",
    rank: "low",
    isNumber: true,
    cell: (row) => <Took start={row.start_ts} end={row.end_ts} />,
  },
  {
    name: "error",
    title: "Error",
    rank: "low",
    cell: (row) => (row.error ? <span title={row.error}>{row.error}</span> : <None />),
  },
];

const SORTS = new Map(COLUMNS.map((column) => [column.name, column.sort]));
const FALLBACK = { column: "id", direction: "descending" } as const;
const CHOICES = ["", "running", "waiting", "success", "error", "canceled"];

function isChosen(job: Job, status: string): boolean {
  if (!status) return true;
  if (status === "running") return job.status === "running" || job.status === "canceling";
  if (status === "waiting") return job.status === "waiting" || job.status === "queued";
  return job.status === status;
}

export function JobsPage() {
  useTitle("Jobs");
  useLists(jobs);
  const { query } = route.value;
  const text = useFilter();
  const status = query.get("status") ?? "";
  const order = parseOrder(query.get("sort"), FALLBACK);
  const words = terms(text.value);
  const found = jobs.rows.value.filter((job) =>
    matches(
      `${job.id} ${parseSummary(job.summary).words} ${job.summary} ${job.user ?? ""} ${job.error ?? ""}`.toLowerCase(),
      words,
    ),
  );
  const shown = found.filter((job) => isChosen(job, status));
  if (jobs.failure.value && !jobs.ready.value) return <Failure text={jobs.failure.value} />;
  return (
    <div class="page-fills">
      <header class="head">
        <h1>Jobs</h1>
        <p class="about" role="status">
          {jobs.ready.value && format.plural(shown.length, "job")}
          {jobs.ready.value && !jobs.isComplete.value && (
            <>
              {" of the latest · "}
              <button type="button" class="quiet" onClick={() => void jobs.readAll()}>
                show all that are not archived
              </button>
            </>
          )}
        </p>
        {may("administer") && (
          <p class="actions">
            <a href={href(["audit"])}>Who did what: the audit</a>
          </p>
        )}
      </header>
      <WaitsPart />
      <div class="tools">
        <FilterBox text={text} label="Filter jobs" placeholder="what, name, user, error" />
        <div class="chips" role="group" aria-label="Status">
          {CHOICES.map((choice) => {
            const count = found.filter((job) => isChosen(job, choice)).length;
            if (choice && !count && choice !== status) return null;
            return (
              <button
                key={choice}
                type="button"
                aria-pressed={choice === status}
                onClick={() => replaceQuery({ status: choice })}
              >
                {choice ? jobStatus(choice).word : "all"} <span class="count">{format.number(count)}</span>
              </button>
            );
          })}
        </div>
      </div>
      {jobs.ready.value ? (
        <Table
          caption="Jobs"
          fills
          columns={COLUMNS}
          rows={sorted(shown, SORTS.get(order.column) ?? ((row) => row.id), order.direction)}
          rowKey={jobs.key}
          order={order}
          onOrder={(next) => replaceQuery({ sort: orderText(next) })}
          empty={jobs.rows.value.length ? "No job matches the filter." : "There are no jobs that are not archived."}
        />
      ) : (
        <Loading what="jobs" />
      )}
    </div>
  );
}
