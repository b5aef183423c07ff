// The placement of instances on nodes: a row for each node, a block for each instance as wide as its memory.

import { type Instance, type Node, byName } from "../model.ts";

export interface Block {
  readonly name: string;
  /** In MiB. */
  readonly memory: number;
  readonly status: string | null;
  /** Shares of the width of the widest row. */
  readonly left: number;
  readonly width: number;
}

export interface Row {
  readonly node: Node;
  /** The memory of the node, as a share of the widest row; null if the node does not say it. */
  readonly capacity: number | null;
  /** The memory of its instances together, in MiB. */
  readonly memory: number;
  readonly blocks: readonly Block[];
}

/** The rows of nodes in their order; instances of one node are sorted by name, so that they keep their places. */
export function rows(nodes: readonly Node[], instances: readonly Instance[]): readonly Row[] {
  const of = new Map<string, Instance[]>(nodes.map((node) => [node.name, []]));
  for (const instance of instances) of.get(instance.pnode)?.push(instance);
  const sums = new Map([...of].map(([name, own]) => [name, own.reduce((sum, each) => sum + each["be/memory"], 0)]));
  const widest = Math.max(1, ...nodes.map((node) => Math.max(node.mtotal ?? 0, sums.get(node.name) ?? 0)));
  return nodes.map((node) => {
    let left = 0;
    const blocks = byName(of.get(node.name) ?? []).map((instance) => {
      const width = instance["be/memory"] / widest;
      left += width;
      return {
        name: instance.name,
        memory: instance["be/memory"],
        status: instance.status,
        left: left - width,
        width,
      };
    });
    const capacity = node.mtotal === null ? null : node.mtotal / widest;
    return { node, capacity, memory: sums.get(node.name) ?? 0, blocks };
  });
}
