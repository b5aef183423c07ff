import assert from "node:assert/strict";
import { test } from "node:test";
import { type LockRow, lockWords, obstacles, trees } from "../src/logic/locks.ts";

const rows: readonly LockRow[] = [
  { name: "instance/web1", waits: [["job/12", [["job/9", "exclusive"]]]] },
  {
    name: "node/u1",
    waits: [
      ["job/14", [["job/12", "exclusive"]]],
      [
        "job/13",
        [
          ["job/9", "shared"],
          ["job/10", "shared"],
        ],
      ],
    ],
  },
  { name: "cluster/BGL", waits: [] },
];

test("a job that waits for none is the root of those that wait for it, also of those behind them", () => {
  assert.deepEqual(trees(rows), [
    {
      job: 9,
      lock: "",
      behind: [
        { job: 12, lock: "instance/web1", behind: [{ job: 14, lock: "node/u1", behind: [] }] },
        { job: 13, lock: "node/u1", behind: [] },
      ],
    },
    { job: 10, lock: "", behind: [{ job: 13, lock: "node/u1", behind: [] }] },
  ]);
  assert.deepEqual(trees([]), []);
});

test("jobs that wait for each other, as two readings may say, have an end", () => {
  const ring = [
    {
      name: "x",
      waits: [
        ["job/1", [["job/2", ""]]],
        [
          "job/2",
          [
            ["job/1", ""],
            ["job/3", ""],
          ],
        ],
      ],
    },
  ];
  assert.deepEqual(
    trees(ring as unknown as LockRow[]).map((each) => each.job),
    [3],
  );
});

test("a job knows what it waits for itself", () => {
  assert.deepEqual(obstacles(rows, 13), [
    { job: 9, lock: "node/u1" },
    { job: 10, lock: "node/u1" },
  ]);
  assert.deepEqual(obstacles(rows, 9), []);
});

test("locks are words", () => {
  const nameOf = (kind: string, key: string) => (kind === "node" && key === "u1" ? "node1" : key);
  assert.equal(lockWords("node/u1", nameOf), "node node1");
  assert.equal(lockWords("instance/web1", nameOf), "instance web1");
  assert.equal(lockWords("nodegroup/[lockset]", nameOf), "all node groups");
  assert.equal(lockWords("cluster/BGL", nameOf), "the cluster");
  assert.equal(lockWords("config/access", nameOf), "config/access");
});
