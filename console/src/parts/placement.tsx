// A picture of the placement of instances on nodes, for the mouse. Beside each bar are its sums in words, and the lists
// say which instances they are, so screen readers and the keyboard skip the blocks.

import * as format from "../logic/format.ts";
import { type Row, rows } from "../logic/placement.ts";
import { href } from "../logic/routes.ts";
import { type Node, instanceStatus } from "../model.ts";
import { instances } from "../store.ts";
import { useLists } from "./hooks.ts";
import { Loading } from "./text.tsx";

export function Placement({ nodes }: { nodes: readonly Node[] }) {
  useLists(instances);
  if (!instances.ready.value) return <Loading what="instances" />;
  return (
    <section aria-label="Placement of instances">
      <p class="none">
        A block is an instance, as wide as its memory; the frame is the memory of the node. Pale blocks do not run.
      </p>
      <div class="placement">
        {rows(nodes, instances.rows.value).map((row) => (
          <NodeRow key={row.node.uuid} row={row} />
        ))}
      </div>
    </section>
  );
}

function NodeRow({ row }: { row: Row }) {
  const { node, blocks, capacity } = row;
  const words = `${format.plural(blocks.length, "instance")}, ${format.size(row.memory)}`;
  const whole = node.mtotal === null ? "" : ` of ${format.size(node.mtotal)}`;
  return (
    <div class="row">
      <a href={href(["nodes", node.name])}>{node.name}</a>
      <div class="bar" aria-hidden="true">
        {capacity !== null && <span class="frame" style={{ width: `${capacity * 100}%` }} />}
        {blocks.map((block) => (
          <a
            key={block.name}
            class={`block ${instanceStatus(block.status).tone}`}
            style={{ left: `${block.left * 100}%`, width: `${block.width * 100}%` }}
            href={href(["instances", block.name])}
            title={`${block.name}: ${format.size(block.memory)}, ${instanceStatus(block.status).word}`}
            tabIndex={-1}
          />
        ))}
      </div>
      <span class="none">
        {words}
        {whole}
      </span>
    </div>
  );
}
