// Lists of objects that stay current: read once when a page needs them, then again object by object as events say.

import { type ReadonlySignal, batch, effect, signal } from "@preact/signals";
import { explanation, query, request } from "./api.ts";
import * as events from "./events.ts";
import { type Event, type Filter, type Touched, anyOf, gather, merged } from "./logic/changes.ts";
import { parseSummary } from "./logic/summaries.ts";
import {
  GROUP_FIELDS,
  type Group,
  INSTANCE_FIELDS,
  type Instance,
  JOB_FIELDS,
  type Job,
  NETWORK_FIELDS,
  NODE_FIELDS,
  type Network,
  type Node,
  hasEnded,
} from "./model.ts";

const GATHER_MILLISECONDS = 100;
const RETRY_MILLISECONDS = 5_000; // after changed objects could not be read
const MOST_KEYS = 1_000; // more changed objects than this: read the whole list
const LATEST_JOBS = 300;

/** A list of all objects of a kind. Rows are replaced, never changed. */
export class Collection<Row extends object> {
  readonly kind: string;
  readonly rows: ReadonlySignal<readonly Row[]>;
  readonly ready = signal(false);
  readonly failure = signal("");
  readonly key: (row: Row) => string;
  readonly #rows = signal<readonly Row[]>([]);
  readonly #fields: readonly string[];
  readonly #keyField: string;
  #loading: Promise<void> | null = null;
  #isWanted = false;

  constructor(kind: string, fields: readonly string[], keyField: string & keyof Row) {
    this.kind = kind;
    this.rows = this.#rows;
    this.#fields = fields;
    this.#keyField = keyField;
    this.key = (row) => String(row[keyField]);
  }

  get isLoaded(): boolean {
    return this.ready.peek();
  }

  /** Whether a page has asked for the list, even if it could not be read. */
  get isWanted(): boolean {
    return this.#isWanted;
  }

  /** Read the list, once; later calls wait for the same reading. */
  load(): Promise<void> {
    this.#isWanted = true;
    this.#loading ??= this.reload();
    return this.#loading;
  }

  async reload(): Promise<void> {
    await events.hasBegun;
    try {
      const rows = await this.read();
      batch(() => {
        this.#rows.value = rows;
        this.ready.value = true;
        this.failure.value = "";
      });
    } catch (error) {
      this.failure.value = explanation(error);
      this.#loading = null;
    }
  }

  protected read(): Promise<Row[]> {
    return query<Row>(this.kind, this.#fields);
  }

  /** Read objects again by a field, and return what they were before and are now. */
  async refresh(field: string, keys: ReadonlySet<string>): Promise<Row[]> {
    if (!this.isLoaded || keys.size === 0) return [];
    if (keys.size > MOST_KEYS) {
      await this.reload();
      return [];
    }
    const isNumber = this.#keyField === "id";
    const filter: Filter = anyOf(field, isNumber ? Array.from(keys, Number) : keys);
    const before = this.#rows.peek().filter((row) => keys.has(String((row as Record<string, unknown>)[field])));
    const fresh = await query<Row>(this.kind, this.#fields, filter);
    const asked = field === this.#keyField ? keys : new Set(before.map(this.key));
    this.#rows.value = merged(this.#rows.peek(), this.key, asked, fresh);
    return [...before, ...fresh];
  }

  /** Return those of some names that objects of the list have. */
  existing(this: Collection<Row & { readonly name: string }>, names: ReadonlySet<string>): Set<string> {
    const found = this.#rows.peek().filter((row) => names.has(row.name));
    return new Set(found.map((row) => row.name));
  }

  drop(keys: ReadonlySet<string>): Row[] {
    if (!this.isLoaded || keys.size === 0) return [];
    const rows = this.#rows.peek();
    const dropped = rows.filter((row) => keys.has(this.key(row)));
    if (dropped.length) this.#rows.value = rows.filter((row) => !keys.has(this.key(row)));
    return dropped;
  }
}

/** The latest jobs, and all that have not ended. */
class Jobs extends Collection<Job> {
  readonly isComplete = signal(false);

  constructor() {
    super("job", JOB_FIELDS, "id");
  }

  protected override async read(): Promise<Job[]> {
    const ids = (await query<{ id: number }>("job", ["id"])).map((row) => row.id);
    const after = this.isComplete.peek() ? 0 : (ids.sort((a, b) => b - a)[LATEST_JOBS] ?? 0);
    this.isComplete.value = after === 0;
    const active = ["queued", "waiting", "running", "canceling"].map((status) => ["=", "status", status]);
    return query<Job>("job", JOB_FIELDS, ["|", [">", "id", after], ...active]);
  }

  async readAll(): Promise<void> {
    this.isComplete.value = true;
    await this.reload();
  }
}

export const instances = new Collection<Instance>("instance", INSTANCE_FIELDS, "uuid");
export const nodes = new Collection<Node>("node", NODE_FIELDS, "uuid");
export const groups = new Collection<Group>("group", GROUP_FIELDS, "uuid");
export const networks = new Collection<Network>("network", NETWORK_FIELDS, "uuid");
export const jobs = new Jobs();

const COLLECTIONS = [instances, nodes, groups, networks, jobs];

export interface Cluster {
  readonly name: string;
  readonly master: string;
  readonly software_version: string;
  readonly network_thresholds: readonly [warn: number, full: number];
}

/** The cluster's own settings; undefined until they are read. */
export const cluster = signal<Cluster | undefined>(undefined);
export const clusterFailure = signal("");

export async function loadCluster(): Promise<void> {
  await events.hasBegun;
  try {
    cluster.value = await request<Cluster>("GET", "/2/info");
    clusterFailure.value = "";
  } catch (error) {
    clusterFailure.value = explanation(error);
  }
}

/** The events since this page was opened, latest last. */
export const seen = signal<readonly Event[]>([]);
const MOST_SEEN = 500;

/**
 * Counts up when an object changed, by "kind key" and "kind name", and with an empty key when any object of the kind did:
 * what was read of it is read again.
 */
const versions = new Map<string, ReturnType<typeof signal<number>>>();

export function version(kind: string, key: string): ReturnType<typeof signal<number>> {
  const id = `${kind} ${key}`;
  let found = versions.get(id);
  if (!found) {
    found = signal(0);
    versions.set(id, found);
  }
  return found;
}

function bump(kind: string, key: string): void {
  const found = versions.get(`${kind} ${key}`);
  if (found) found.value = (found.peek() ?? 0) + 1;
}

let gathered = new Map<string, Touched>();
let names = new Map<string, Set<string>>();
let timer = 0;
let retry = 0;

function note(event: Event): void {
  seen.value = [...seen.peek().slice(1 - MOST_SEEN), event];
  gather(gathered, event.changes);
  for (const change of event.changes) {
    if (!names.has(change.kind)) names.set(change.kind, new Set());
    names.get(change.kind)?.add(change.name).add(change.key);
  }
  timer ||= setTimeout(() => void readAgain(), GATHER_MILLISECONDS);
}

async function readAgain(): Promise<void> {
  const [touched, changed] = [gathered, names];
  gathered = new Map();
  names = new Map();
  timer = 0;
  const of = (kind: string): Touched => touched.get(kind) ?? { changed: new Set(), removed: new Set() };
  batch(() => {
    for (const [kind, keys] of changed) for (const key of ["", ...keys]) bump(kind, key);
  });
  try {
    const ended = await readJobs(of("job"));
    // Exports are not in the state, so they have no events of their own.
    if (ended.some((job) => job.summary.includes("BACKUP_"))) bump("export", "");
    const [vms] = await Promise.all([readInstances(of("instance"), ended), readRest(of)]);
    await readAround(vms, ended);
    if (touched.has("cluster")) await loadCluster();
  } catch {
    // Some of the changed objects were not read: all lists are read again, and say themselves why they cannot be read.
    retry ||= setTimeout(() => {
      retry = 0;
      void reloadAll();
    }, RETRY_MILLISECONDS);
  }
}

/** Read jobs again; return those that have just ended. What a node reports about an object may differ from then on. */
async function readJobs(touched: Touched): Promise<Job[]> {
  jobs.drop(touched.removed);
  const rows = await jobs.refresh("id", touched.changed);
  return rows.filter((job) => hasEnded(job) && touched.changed.has(String(job.id)));
}

async function readInstances(touched: Touched, ended: readonly Job[]): Promise<Instance[]> {
  const dropped = instances.drop(touched.removed);
  const fresh = await instances.refresh("uuid", touched.changed);
  const named = ended.map((job) => parseSummary(job.summary)).filter((subject) => subject.kind === "instance");
  const subjects = instances.existing(new Set(named.map((subject) => subject.name)));
  for (const row of fresh) subjects.delete(row.name);
  const again = await instances.refresh("name", subjects);
  batch(() => {
    for (const row of again) bump("instance", row.name);
  });
  return [...dropped, ...fresh, ...again];
}

async function readRest(of: (kind: string) => Touched): Promise<void> {
  for (const list of [nodes, groups, networks]) {
    list.drop(of(list.kind).removed);
    await list.refresh("uuid", of(list.kind).changed);
  }
}

/** Read again what follows from instances: the memory of their nodes, and the pools of their networks. */
async function readAround(vms: readonly Instance[], ended: readonly Job[]): Promise<void> {
  const nodeNames = new Set(vms.map((vm) => vm.pnode));
  for (const job of ended) {
    const subject = parseSummary(job.summary);
    if (subject.kind === "node") nodeNames.add(subject.name);
  }
  const networkNames = new Set(vms.flatMap((vm) => vm["nic.networks.names"]).filter((name) => name !== null));
  batch(() => {
    for (const name of networkNames) bump("network", name);
  });
  await Promise.all([nodes.refresh("name", nodeNames), networks.refresh("name", networkNames)]);
}

/** Read all lists again that were read before. */
export async function reloadAll(): Promise<void> {
  for (const found of versions.values()) found.value = (found.peek() ?? 0) + 1;
  now.value = Date.now() / 1000;
  await Promise.all([...COLLECTIONS.filter((list) => list.isWanted).map((list) => list.reload()), loadCluster()]);
}

events.onChange(note);
events.onLost(() => void reloadAll());
effect(() => {
  if (events.connection.value !== "live") return;
  for (const list of COLLECTIONS) if (list.failure.peek()) void list.reload();
  if (clusterFailure.peek()) void loadCluster();
});

/**
 * What only nodes know (that a guest has ended, that a node is silent) is no change of the state and has no event, so a
 * page that a person comes back to reads its lists again.
 */
const AWAY_MILLISECONDS = 60_000;
let hiddenSince = 0;

addEventListener("visibilitychange", () => {
  if (document.hidden) hiddenSince = Date.now();
  else if (Date.now() - hiddenSince > AWAY_MILLISECONDS) void reloadAll();
});

/** The time in seconds, for texts such as "2 minutes ago"; it moves on while the page is visible. */
export const now = signal(Date.now() / 1000);
setInterval(() => {
  if (!document.hidden) now.value = Date.now() / 1000;
}, 5_000);
effect(() => {
  if (seen.value.length) now.value = Date.now() / 1000;
});
