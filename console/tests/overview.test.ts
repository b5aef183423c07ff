import assert from "node:assert/strict";
import { test } from "node:test";
import { capacity, concerns, countByStatus } from "../src/logic/overview.ts";
import { type Instance, type Job, type Network, type Node, nodeStatus } from "../src/model.ts";

const NOW = 1_800_000_000;
const node = (more: Partial<Node>): Node => ({
  uuid: "n",
  name: "node1",
  role: "C",
  group: "default",
  pip: "192.0.2.1",
  vm_capable: true,
  pinst_cnt: 0,
  sinst_cnt: 0,
  mtotal: 1024,
  mfree: 256,
  dtotal: 4096,
  dfree: 4096,
  ctotal: 4,
  certificate_end: NOW + 365 * 86_400,
  stray_guests: [],
  ...more,
});
const instance = (status: string): Instance => ({
  uuid: status,
  name: "web1",
  status,
  pnode: "node1",
  "be/memory": 128,
  vcpus: 1,
  disk_usage: 0,
  "nic.ips": [],
  "nic.networks.names": [],
  tags: [],
  project: "",
});
const network = (name: string, utilization: number | null): Network => ({
  uuid: name,
  name,
  cidrs: [],
  free_count: 0,
  reserved_count: 0,
  quarantined_count: 0,
  utilization,
  group_list: [],
  inst_cnt: 0,
  network_type: null,
  segment: null,
});
const job = (status: string, end: number): Job => ({
  id: 1,
  status,
  summary: "",
  dry_run: false,
  user: null,
  error: null,
  received_ts: end,
  start_ts: end,
  end_ts: [end, 0],
});
const calm = {
  nodes: [node({})],
  instances: [instance("running")],
  networks: [],
  jobs: [],
  now: NOW,
  thresholds: [80, 95] as const,
};

test("a healthy cluster has no concerns", () => {
  assert.deepEqual(concerns(calm), []);
});

test("errors come before warnings, whatever they are about", () => {
  const found = concerns({
    ...calm,
    nodes: [node({}), node({ name: "node2", mtotal: null }), node({ name: "node3", role: "O", mtotal: null })],
    instances: [instance("running"), instance("ERROR_down")],
    networks: [network("roomy", 10), network("fuller", 80), network("full", 100), network("poolless", null)],
    jobs: [job("error", NOW - 60), job("error", NOW - 90_000), job("success", NOW)],
  });
  assert.deepEqual(
    found.map(({ tone, text }) => `${tone}: ${text}`),
    [
      "bad: Node node2 is silent",
      "bad: 1 instance: It should run, but does not (ERROR_down)",
      "bad: The pools of network full are 100\u00a0% in use",
      "warn: Node node3 is offline",
      "warn: The pools of network fuller are 80\u00a0% in use",
      "warn: 1 job failed in the last 24 hours",
    ],
  );
});

test("a node that is seen in part is not silent", () => {
  const inPart = node({ name: "node2", mtotal: null, unavailable: ["mtotal"] });
  assert.deepEqual(concerns({ ...calm, nodes: [node({}), inPart] }), []);
  assert.equal(nodeStatus(inPart).word, "in part");
});

test("many silent nodes are one line", () => {
  const nodes = ["1", "2", "3", "4"].map((n) => node({ name: `node${n}`, mtotal: null }));
  assert.deepEqual(
    concerns({ ...calm, nodes }).map(({ text }) => text),
    ["4 nodes are silent"],
  );
  assert.deepEqual(
    concerns({ ...calm, nodes: nodes.slice(0, 2) }).map(({ text }) => text),
    ["Nodes node1 and node2 are silent"],
  );
});

test("a certificate that ends soon is a warning, one that has ended an error", () => {
  const tone = (end: number) => concerns({ ...calm, nodes: [node({ certificate_end: end })] }).map((each) => each.tone);
  assert.deepEqual(tone(NOW + 40 * 86_400), []);
  assert.deepEqual(tone(NOW + 7 * 86_400), ["warn"]);
  assert.deepEqual(tone(NOW - 1), ["bad"]);
});

test("silent nodes do not count as capacity", () => {
  const { memory } = capacity([node({}), node({ mtotal: null, mfree: null })]);
  assert.deepEqual(memory, { used: 768, total: 1024 });
});

test("statuses are counted, the most first", () => {
  const rows = [instance("ADMIN_down"), instance("running"), instance("running")];
  assert.deepEqual(countByStatus(rows), [
    { status: "running", count: 2 },
    { status: "ADMIN_down", count: 1 },
  ]);
});
