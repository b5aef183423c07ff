import assert from "node:assert/strict";
import { test } from "node:test";
import { rows } from "../src/logic/placement.ts";
import type { Instance, Node } from "../src/model.ts";

const node = (name: string, mtotal: number | null) => ({ name, mtotal }) as Node;
const instance = (name: string, pnode: string, memory: number) =>
  ({ name, pnode, "be/memory": memory, status: "running" }) as Instance;

test("blocks stand side by side by name, as shares of the node with the most memory", () => {
  const placed = rows(
    [node("n1", 1000), node("n2", 500)],
    [instance("b10", "n1", 250), instance("b9", "n1", 500), instance("c", "n2", 100), instance("d", "elsewhere", 9)],
  );
  assert.deepEqual(
    placed.map((row) => [row.capacity, row.memory, row.blocks.map((each) => [each.name, each.left, each.width])]),
    [
      [
        1,
        750,
        [
          ["b9", 0, 0.5],
          ["b10", 0.5, 0.25],
        ],
      ],
      [0.5, 100, [["c", 0, 0.1]]],
    ],
  );
});

test("instances with more memory than their node go beyond its frame, and a silent node has none", () => {
  const [over, silent] = rows([node("n1", 100), node("n2", null)], [instance("a", "n1", 200)]);
  assert.equal(over?.capacity, 0.5);
  assert.equal(over?.blocks[0]?.width, 1);
  assert.equal(silent?.capacity, null);
  assert.deepEqual(rows([], []), []);
});
