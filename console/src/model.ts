// The objects as the lists of the console have them: the fewest fields that the pages need.

import { naturalKey } from "./logic/rows.ts";

export interface Instance {
  readonly uuid: string;
  readonly name: string;
  readonly status: string | null;
  readonly pnode: string;
  readonly "be/memory": number;
  readonly vcpus: number;
  readonly disk_usage: number | null;
  readonly "nic.ips": readonly (readonly string[])[];
  readonly "nic.networks.names": readonly (string | null)[];
  readonly tags: readonly string[];
  readonly project: string;
}

export interface Node {
  readonly uuid: string;
  readonly name: string;
  readonly role: string;
  readonly group: string;
  readonly pip: string;
  readonly vm_capable: boolean;
  readonly pinst_cnt: number;
  readonly sinst_cnt: number;
  readonly mtotal: number | null;
  readonly mfree: number | null;
  readonly dtotal: number | null;
  readonly dfree: number | null;
  readonly ctotal: number | null;
  readonly certificate_end: number | null;
  readonly stray_guests: readonly string[] | null;
  readonly unavailable?: readonly string[];
}

export interface Group {
  readonly uuid: string;
  readonly name: string;
  readonly alloc_policy: string;
  readonly node_cnt: number;
  readonly pinst_cnt: number;
}

export interface Network {
  readonly uuid: string;
  readonly name: string;
  readonly cidrs: readonly string[];
  readonly free_count: number;
  readonly reserved_count: number;
  readonly quarantined_count: number;
  readonly utilization: number | null;
  readonly group_list: readonly (readonly string[])[];
  readonly inst_cnt: number;
  readonly network_type: string | null;
  readonly segment: number | null;
}

export interface Job {
  readonly id: number;
  readonly status: string;
  readonly summary: string;
  readonly dry_run: boolean;
  readonly user: string | null;
  readonly error: string | null;
  readonly received_ts: unknown;
  readonly start_ts: unknown;
  readonly end_ts: unknown;
}

export const INSTANCE_FIELDS = [
  "uuid",
  "name",
  "status",
  "pnode",
  "be/memory",
  "vcpus",
  "disk_usage",
  "nic.ips",
  "nic.networks.names",
  "tags",
  "project",
];
export const NODE_FIELDS = [
  "uuid",
  "name",
  "role",
  "group",
  "pip",
  "vm_capable",
  "pinst_cnt",
  "sinst_cnt",
  "mtotal",
  "mfree",
  "dtotal",
  "dfree",
  "ctotal",
  "certificate_end",
  "stray_guests",
];
export const GROUP_FIELDS = ["uuid", "name", "alloc_policy", "node_cnt", "pinst_cnt"];
export const NETWORK_FIELDS = [
  "uuid",
  "name",
  "cidrs",
  "free_count",
  "reserved_count",
  "quarantined_count",
  "utilization",
  "group_list",
  "inst_cnt",
  "network_type",
  "segment",
];
export const JOB_FIELDS = ["id", "status", "summary", "dry_run", "user", "error", "received_ts", "start_ts", "end_ts"];

export type Tone = "good" | "busy" | "idle" | "warn" | "bad";

export interface Status {
  readonly tone: Tone;
  readonly word: string;
  readonly about: string;
}

const INSTANCE_STATUSES: Readonly<Record<string, Status>> = {
  running: { tone: "good", word: "running", about: "It runs, and should run" },
  ADMIN_down: { tone: "idle", word: "stopped", about: "Stopped by its administrator (ADMIN_down)" },
  USER_down: { tone: "idle", word: "shut down", about: "Shut down from inside the guest (USER_down)" },
  ADMIN_offline: { tone: "idle", word: "offline", about: "Marked offline: nothing starts it (ADMIN_offline)" },
  ERROR_down: { tone: "bad", word: "not running", about: "It should run, but does not (ERROR_down)" },
  ERROR_up: { tone: "bad", word: "runs unwanted", about: "It runs, but should be stopped (ERROR_up)" },
  ERROR_nodedown: { tone: "bad", word: "node silent", about: "Its node does not answer (ERROR_nodedown)" },
  ERROR_nodeoffline: { tone: "bad", word: "node offline", about: "Its node is offline (ERROR_nodeoffline)" },
  ERROR_wrongnode: { tone: "bad", word: "wrong node", about: "It runs on another node (ERROR_wrongnode)" },
};

export function instanceStatus(status: string | null): Status {
  const known = INSTANCE_STATUSES[status ?? ""];
  return known ?? { tone: "warn", word: status ?? "unknown", about: "The status is not known" };
}

export function isRunning(status: string | null): boolean {
  return status === "running" || status === "ERROR_up" || status === "ERROR_wrongnode";
}

const ROLES: Readonly<Record<string, string>> = {
  M: "master",
  C: "master candidate",
  R: "regular",
  D: "drained",
  O: "offline",
};

export function nodeRole(role: string): string {
  return ROLES[role] ?? role;
}

/** Whether the user sees a node only because instances are on it: the master does not say what else it has. */
function isInPart(node: Node): boolean {
  return node.vm_capable && !!node.unavailable?.includes("mtotal");
}

/** Whether a node that should answer does not. */
export function isSilent(node: Node): boolean {
  return node.role !== "O" && node.vm_capable && node.mtotal === null && !isInPart(node);
}

export function nodeStatus(node: Node): Status {
  if (node.role === "O")
    return { tone: "idle", word: "offline", about: "Marked offline: the master does not contact it" };
  if (isSilent(node)) return { tone: "bad", word: "silent", about: "The node does not answer the master" };
  if (isInPart(node)) return { tone: "idle", word: "in part", about: "You see the instances on it that you may see" };
  if (node.role === "D") return { tone: "warn", word: "drained", about: "It gets no new instances" };
  return { tone: "good", word: "up", about: "The node answers the master" };
}

const JOB_STATUSES: Readonly<Record<string, Status>> = {
  queued: { tone: "idle", word: "queued", about: "It waits for its turn" },
  waiting: { tone: "busy", word: "waiting", about: "It waits for locks that other jobs hold" },
  running: { tone: "busy", word: "running", about: "It runs" },
  canceling: { tone: "busy", word: "canceling", about: "It ends at the next opportunity" },
  canceled: { tone: "idle", word: "canceled", about: "It was canceled before it ran" },
  success: { tone: "good", word: "success", about: "It ended without an error" },
  error: { tone: "bad", word: "failed", about: "It ended with an error" },
};

export function jobStatus(status: string): Status {
  return JOB_STATUSES[status] ?? { tone: "warn", word: status, about: "" };
}

export function hasEnded(job: { readonly status: string }): boolean {
  return job.status === "success" || job.status === "error" || job.status === "canceled";
}

export function addressesOf(instance: Instance): string[] {
  return instance["nic.ips"].flat();
}

export function byName<Row extends { readonly name: string }>(rows: readonly Row[]): Row[] {
  const keyed = rows.map((row) => [naturalKey(row.name), row] as const);
  return keyed.sort((a, b) => (a[0] < b[0] ? -1 : 1)).map(([, row]) => row);
}
