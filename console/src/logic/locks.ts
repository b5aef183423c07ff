// What waits for what: the locks in use, as the server lists them, as trees of jobs.

/** A lock that jobs wait at: for each of them the jobs that it waits for, and why. Jobs are "job/17". */
export interface LockRow {
  readonly name: string;
  readonly waits: readonly (readonly [waiter: string, owners: readonly (readonly [owner: string, why: string])[]])[];
}

/** A job, at which lock it waits for the job above it, and the jobs that wait for it. */
export interface Branch {
  readonly job: number;
  readonly lock: string;
  readonly behind: readonly Branch[];
}

interface Edge {
  readonly waiter: number;
  readonly owner: number;
  readonly lock: string;
}

function jobNumber(text: string): number {
  return Number(text.replace(/^job\//, ""));
}

function edges(rows: readonly LockRow[]): Edge[] {
  return rows.flatMap((row) =>
    row.waits.flatMap(([waiter, owners]) =>
      owners.map(([owner]) => ({ waiter: jobNumber(waiter), owner: jobNumber(owner), lock: row.name })),
    ),
  );
}

/** How many jobs wait for locks. */
export function waiterCount(rows: readonly LockRow[]): number {
  return new Set(edges(rows).map((edge) => edge.waiter)).size;
}

/** Trees of more than this are cut: of 10,000 jobs at one lock, the first are enough to see why they wait. */
export const MOST = 200;

/** The trees of the waiting jobs: at the root of each is a job that waits for none. */
export function trees(rows: readonly LockRow[]): readonly Branch[] {
  const all = edges(rows).slice(0, MOST);
  const waiters = new Set(all.map((edge) => edge.waiter));
  const roots = [...new Set(all.map((edge) => edge.owner))].filter((job) => !waiters.has(job));
  return roots.sort((a, b) => a - b).map((job) => branch(all, { job, lock: "", above: new Set() }));
}

function branch(
  all: readonly Edge[],
  { job, lock, above }: { job: number; lock: string; above: ReadonlySet<number> },
): Branch {
  const path = new Set([...above, job]);
  const behind = all
    .filter((edge) => edge.owner === job && !path.has(edge.waiter))
    .sort((a, b) => a.waiter - b.waiter)
    .map((edge) => branch(all, { job: edge.waiter, lock: edge.lock, above: path }));
  return { job, lock, behind };
}

/** The jobs that a job waits for itself, each with the lock. */
export function obstacles(rows: readonly LockRow[], job: number): readonly { job: number; lock: string }[] {
  return edges(rows)
    .filter((edge) => edge.waiter === job)
    .map((edge) => ({ job: edge.owner, lock: edge.lock }));
}

const NOUNS: Readonly<Record<string, string>> = {
  instance: "instance",
  node: "node",
  nodegroup: "node group",
  network: "network",
};

/** A lock in words: "node/UUID" is "node node1", "node/[lockset]" "all nodes"; names come from the present objects. */
export function lockWords(name: string, nameOf: (kind: string, key: string) => string): string {
  const [level = "", key = ""] = name.split(/\/(.*)/s, 2);
  const noun = NOUNS[level];
  if (!noun) return level === "cluster" ? "the cluster" : name;
  return key === "[lockset]" ? `all ${noun}s` : `${noun} ${nameOf(level, key)}`;
}
