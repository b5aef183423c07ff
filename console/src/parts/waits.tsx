// What waits for what: the jobs that wait for locks, below the jobs that have them.

import { query } from "../api.ts";
import { type Branch, type LockRow, MOST, lockWords, obstacles, trees, waiterCount } from "../logic/locks.ts";
import * as format from "../logic/format.ts";
import { href } from "../logic/routes.ts";
import { groups, jobs, networks, nodes } from "../store.ts";
import { type Reading, useLists, useReading } from "./hooks.ts";
import { Failure, JobWords } from "./text.tsx";

const read = () => query<LockRow>("lock", ["name", "waits"]);

/** The locks, read again whenever a job changes; what has its name elsewhere is in the lists. */
function useLocks(): Reading<readonly LockRow[]> {
  useLists(jobs, nodes, groups, networks);
  return useReading<readonly LockRow[]>(read, [], [["job", ""]]);
}

const LISTS = { node: nodes, nodegroup: groups, network: networks };

function nameOf(kind: string, key: string): string {
  const list = LISTS[kind as keyof typeof LISTS];
  return list?.rows.value.find((row) => row.uuid === key)?.name ?? key;
}

/** All trees; nothing at all while no job waits. */
export function WaitsPart() {
  const { value, failure } = useLocks();
  if (failure) return <Failure text={failure} />;
  const count = waiterCount(value ?? []);
  if (!value || !count) return null;
  return (
    <details class="waiting">
      <summary>{format.plural(count, "job waits", "jobs wait")} for locks of others</summary>
      <ul class="waits">
        {trees(value).map((root) => (
          <Tree key={root.job} branch={root} />
        ))}
      </ul>
      {count > MOST && <p class="none">These are the first {MOST}.</p>}
    </details>
  );
}

function Tree({ branch }: { branch: Branch }) {
  return (
    <li>
      <JobLink id={branch.job} />
      {branch.lock && <span class="none"> waits for {lockWords(branch.lock, nameOf)}</span>}
      {branch.behind.length > 0 && (
        <ul>
          {branch.behind.map((each) => (
            <Tree key={`${each.job} ${each.lock}`} branch={each} />
          ))}
        </ul>
      )}
    </li>
  );
}

/** What one job waits for; nothing if it does not wait for locks. */
export function ObstaclesPart({ job }: { job: number }) {
  const { value } = useLocks();
  const before = obstacles(value ?? [], job);
  if (!before.length) return null;
  return (
    <section>
      <h2>It waits for</h2>
      <ul class="waits">
        {before.map((each) => (
          <li key={`${each.job} ${each.lock}`}>
            <JobLink id={each.job} />
            <span class="none">, which has {lockWords(each.lock, nameOf)}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}

function JobLink({ id }: { id: number }) {
  const job = jobs.rows.value.find((row) => row.id === id);
  return (
    <>
      <a href={href(["jobs", id])}>Job {id}</a>
      {job && (
        <>
          {": "}
          <JobWords summary={job.summary} isDryRun={job.dry_run} />
        </>
      )}
    </>
  );
}
