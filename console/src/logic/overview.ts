// What the overview says: totals, and what needs attention, worst first.

import { type Instance, type Job, type Network, type Node, instanceStatus, isSilent, nodeStatus } from "../model.ts";
import { list, plural, seconds, share } from "./format.ts";
import { href } from "./routes.ts";

export interface Concern {
  readonly tone: "bad" | "warn";
  readonly text: string;
  readonly link: string;
}

const DAY = 86_400;
const CERTIFICATE_DAYS = 30;
const NAMED = 3; // names in a text; the link leads to all

export interface Facts {
  readonly nodes: readonly Node[];
  readonly instances: readonly Instance[];
  readonly networks: readonly Network[];
  readonly jobs: readonly Job[];
  readonly thresholds: readonly [warn: number, full: number];
  readonly now: number;
}

export function concerns(facts: Facts): Concern[] {
  const all = [...ofNodes(facts), ...ofInstances(facts), ...ofNetworks(facts), ...ofJobs(facts)];
  return [...all.filter((concern) => concern.tone === "bad"), ...all.filter((concern) => concern.tone === "warn")];
}

function ofNodes({ nodes, now }: Facts): Concern[] {
  const found: Concern[] = [];
  const silent = nodes.filter(isSilent);
  if (silent.length) {
    found.push({ tone: "bad", text: `${named(silent, "node")} silent`, link: href(["nodes"], { q: "silent" }) });
  }
  for (const node of nodes) {
    const link = href(["nodes", node.name]);
    if (node.stray_guests?.length) {
      const guests = plural(node.stray_guests.length, "guest");
      found.push({ tone: "bad", text: `${node.name} runs ${guests} that should not run there`, link });
    }
    const days = node.certificate_end === null ? CERTIFICATE_DAYS : (node.certificate_end - now) / DAY;
    if (days < 0) found.push({ tone: "bad", text: `The certificate of ${node.name} has ended`, link });
    else if (days < CERTIFICATE_DAYS) {
      const left = plural(Math.floor(days), "day");
      found.push({ tone: "warn", text: `The certificate of ${node.name} ends in ${left}`, link });
    }
  }
  const offline = nodes.filter((node) => node.role === "O");
  if (offline.length) {
    found.push({
      tone: "warn",
      text: `${named(offline, "node")} offline`,
      link: href(["nodes"], { q: "offline" }),
    });
  }
  return found;
}

function ofInstances({ instances }: Facts): Concern[] {
  return countByStatus(instances)
    .filter(({ status }) => instanceStatus(status).tone === "bad")
    .map(({ status, count }) => ({
      tone: "bad",
      text: `${plural(count, "instance")}: ${instanceStatus(status).about}`,
      link: href(["instances"], { status }),
    }));
}

function ofNetworks({ networks, thresholds }: Facts): Concern[] {
  const [warn, full] = thresholds;
  return fullest(networks)
    .filter((network) => (network.utilization ?? 0) >= warn)
    .map((network) => ({
      tone: (network.utilization ?? 0) >= full ? "bad" : "warn",
      text: `The pools of network ${network.name} are ${share(network.utilization ?? 0)} in use`,
      link: href(["networks", network.name]),
    }));
}

function ofJobs({ jobs, now }: Facts): Concern[] {
  const failed = failedLately(jobs, now);
  if (!failed.length) return [];
  const text = `${plural(failed.length, "job")} failed in the last 24 hours`;
  return [{ tone: "warn", text, link: href(["jobs"], { status: "error" }) }];
}

export function failedLately(jobs: readonly Job[], now: number): Job[] {
  return jobs.filter((job) => job.status === "error" && (seconds(job.end_ts) ?? 0) > now - DAY);
}

function named(objects: readonly { readonly name: string }[], noun: string): string {
  if (objects.length > NAMED) return `${plural(objects.length, noun)} are`;
  const names = list(objects.map((object) => object.name));
  return objects.length === 1 ? `Node ${names} is` : `Nodes ${names} are`;
}

/** The instances by status, the most first. */
export function countByStatus(instances: readonly Instance[]): { status: string; count: number }[] {
  const counts = new Map<string, number>();
  for (const instance of instances) {
    const status = instance.status ?? "unknown";
    counts.set(status, (counts.get(status) ?? 0) + 1);
  }
  return Array.from(counts, ([status, count]) => ({ status, count })).sort((a, b) => b.count - a.count);
}

export function fullest(networks: readonly Network[]): Network[] {
  return networks
    .filter((network) => network.utilization !== null)
    .sort((a, b) => (b.utilization ?? 0) - (a.utilization ?? 0));
}

/** The nodes that answer, those with the largest share of memory in use first. */
export function fullestNodes(nodes: readonly Node[]): Node[] {
  const used = (node: Node) => 1 - (node.mfree ?? 0) / (node.mtotal || 1);
  return nodes.filter((node) => node.mtotal !== null).sort((a, b) => used(b) - used(a));
}

/** Memory and disk of the nodes that answer, in MiB. */
export function capacity(nodes: readonly Node[]): Record<"memory" | "disk", { used: number; total: number }> {
  const memory = { used: 0, total: 0 };
  const disk = { used: 0, total: 0 };
  for (const node of nodes) {
    if (node.mtotal !== null) {
      memory.total += node.mtotal;
      memory.used += node.mtotal - (node.mfree ?? node.mtotal);
    }
    if (node.dtotal !== null) {
      disk.total += node.dtotal;
      disk.used += node.dtotal - (node.dfree ?? node.dtotal);
    }
  }
  return { memory, disk };
}

export function countNodes(nodes: readonly Node[]): { word: string; count: number }[] {
  const counts = new Map<string, number>();
  for (const node of nodes) {
    const { word } = nodeStatus(node);
    counts.set(word, (counts.get(word) ?? 0) + 1);
  }
  return Array.from(counts, ([word, count]) => ({ word, count }));
}
