// What the event stream says, gathered: which objects must be read again. Many changes become one request.

export interface Change {
  readonly kind: string;
  readonly key: string;
  readonly name: string;
  readonly what: string;
}

export interface Cause {
  readonly job?: number;
  readonly opcode?: string;
  readonly user?: string;
  readonly reason?: string;
}

export interface Event {
  readonly serial: number;
  readonly time: number;
  readonly cause: Cause;
  readonly changes: readonly Change[];
}

/** The objects of one kind to read again, and those that no longer exist, by key. */
export interface Touched {
  readonly changed: Set<string>;
  readonly removed: Set<string>;
}

const GONE: ReadonlySet<string> = new Set(["removed", "archived"]);

/** Adds changes to what is gathered; the last change of an object decides whether it still exists. */
export function gather(gathered: Map<string, Touched>, changes: readonly Change[]): void {
  for (const change of changes) {
    let touched = gathered.get(change.kind);
    if (!touched) {
      touched = { changed: new Set(), removed: new Set() };
      gathered.set(change.kind, touched);
    }
    const gone = GONE.has(change.what);
    (gone ? touched.removed : touched.changed).add(change.key);
    (gone ? touched.changed : touched.removed).delete(change.key);
  }
}

export type Filter = readonly unknown[];

/** A filter for objects by the value of one field. */
export function anyOf(field: string, keys: Iterable<string | number>): Filter {
  return ["|", ...Array.from(keys, (key) => ["=", field, key])];
}

/**
 * Return rows with an answer merged in: rows of the answer replace those with their key or are added, and rows that were
 * asked for and are not in the answer are removed. The order of the others stays.
 */
export function merged<Row>(
  rows: readonly Row[],
  key: (row: Row) => string,
  asked: ReadonlySet<string>,
  answer: readonly Row[],
): Row[] {
  const fresh = new Map(answer.map((row) => [key(row), row]));
  const result: Row[] = [];
  for (const row of rows) {
    const id = key(row);
    const replacement = fresh.get(id);
    if (replacement !== undefined) {
      result.push(replacement);
      fresh.delete(id);
    } else if (!asked.has(id)) {
      result.push(row);
    }
  }
  return [...result, ...fresh.values()];
}

export type LogEntry = readonly [serial: number, time: unknown, type: string, message: unknown];

/** Return a job's log with more entries, each serial once, in order. */
export function mergedLog(log: readonly LogEntry[], more: readonly LogEntry[]): LogEntry[] {
  const entries = new Map(log.map((entry) => [entry[0], entry]));
  for (const entry of more) entries.set(entry[0], entry);
  return [...entries.values()].sort((a, b) => a[0] - b[0]);
}
