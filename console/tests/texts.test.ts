import assert from "node:assert/strict";
import { test } from "node:test";
import { errorText } from "../src/logic/errors.ts";
import { parameterRows } from "../src/logic/parameters.ts";
import { progressOf } from "../src/logic/progress.ts";
import { addressResults, looksLikeAddress, search } from "../src/logic/search.ts";
import { opcodeWords, parseSummary } from "../src/logic/summaries.ts";

test("the summary of a job names what is done and to what", () => {
  assert.deepEqual(parseSummary("INSTANCE_STARTUP(web1)"), {
    words: "Start instance",
    kind: "instance",
    name: "web1",
    more: 0,
  });
  assert.deepEqual(parseSummary("INSTANCE_SHUTDOWN(a),INSTANCE_REINSTALL(a),INSTANCE_STARTUP(a)").more, 2);
  assert.deepEqual(parseSummary("TEST_DELAY"), { words: "Test delay", kind: "", name: "", more: 0 });
  assert.deepEqual(parseSummary("").words, "");
  assert.equal(opcodeWords("OP_NETWORK_ADD"), "Create network");
});

test("the text of a failed opcode is found in each form of its result", () => {
  assert.equal(errorText(["OpPrereqError", ["no such instance: a", "unknown_entity"]]), "no such instance: a");
  assert.equal(errorText(["node1 does not answer", []]), "node1 does not answer");
  assert.equal(errorText("plain"), "plain");
  assert.equal(errorText(null), "");
});

test("parameters that are set for the object come first", () => {
  const rows = parameterRows({ b: 2, a: 1, c: null }, { b: 2 });
  assert.deepEqual(
    rows.map((row) => [row.name, row.isSet]),
    [
      ["b", true],
      ["a", false],
      ["c", false],
    ],
  );
});

test("progress has the words of the server, and a share if the total is known", () => {
  const words = "disk 0: 512 of 4096 MiB (12 %), 210 MiB/s, 17 s to go";
  assert.deepEqual(progressOf(words), { share: 0.12, words });
  assert.deepEqual(progressOf("dump: 7 MiB"), { share: null, words: "dump: 7 MiB" });
  assert.equal(progressOf(""), null);
});

test("only whole addresses, MAC addresses and CIDRs are looked up", () => {
  for (const text of ["192.0.2.1", "2001:db8::1", "192.0.2.0/24", "aa:00:00:ff:6c:a7"])
    assert.ok(looksLikeAddress(text), text);
  for (const text of ["web1", "192.0.2", "192.0.2.", "aa:00", "1-2", ""]) assert.ok(!looksLikeAddress(text), text);
});

test("search finds names that begin with the text first", () => {
  const network = (name: string) => ({
    uuid: name,
    name,
    cidrs: ["192.0.2.0/24"],
    free_count: 0,
    reserved_count: 0,
    quarantined_count: 0,
    utilization: 0,
    group_list: [],
    inst_cnt: 0,
    network_type: null,
    segment: null,
  });
  const lists = { instances: [], nodes: [], networks: [network("myshop"), network("shop")] };
  assert.deepEqual(
    search("shop", lists).map((found) => found.name),
    ["shop", "myshop"],
  );
  assert.deepEqual(
    search("192.0.2", lists).map((found) => found.name),
    ["myshop", "shop"],
  );
  assert.deepEqual(search(" ", lists), []);
});

test("an address leads to its place in the network, and always to its history", () => {
  const rows = [{ address: "192.0.2.1", state: "in use", network: "shop", owner: "web1" }];
  assert.deepEqual(
    addressResults("192.0.2.1", rows).map((found) => found.link),
    ["#/networks/shop?address=192.0.2.1", "#/addresses?of=192.0.2.1"],
  );
  assert.equal(addressResults("192.0.2.9", [], "no network has it")[0]?.about, "no network has it");
});
