import assert from "node:assert/strict";
import { test } from "node:test";
import { type Port, claimOf, deviceText, ownerText, searchText } from "../src/logic/ports.ts";

const PORT: Port = {
  uuid: "6f0d3c3e-3f6e-4d9c-8f53-6b6c1f6a0001",
  name: "",
  network: "net1",
  mac: "aa:00:00:00:00:01",
  ip: ["192.0.2.9"],
  device_id: "",
  device_owner: "",
  project: "",
  description: "",
  tags: [],
};
const CLAIM: Port = {
  ...PORT,
  name: "IPClaim edge/node-1",
  device_owner: "kubernetes:IPClaim",
  device_id: "site-a/edge/edge",
  description: "node-1",
  tags: ["pool-1"],
};

void test("a port of a claim names the claim, its pool and its API server", () => {
  assert.deepEqual(claimOf(CLAIM), {
    kind: "IPClaim",
    namespace: "edge",
    name: "node-1",
    pool: "pool-1",
    site: "site-a",
  });
  assert.equal(ownerText(CLAIM), "IPClaim edge/node-1");
  assert.equal(deviceText(CLAIM), "pool pool-1, API server site-a");
  assert.equal(claimOf({ ...CLAIM, device_id: "site-a/edge/pools" })?.pool, "pools/pool-1");
});

void test("a port that was changed so that it is no reservation of the controllers is a port like others", () => {
  for (const changed of [{ device_id: "site-a/edge" }, { tags: [] }, { device_owner: "compute:other" }]) {
    assert.equal(claimOf({ ...CLAIM, ...changed }), null);
  }
});

void test("a port is called by its name, else by what is known of it", () => {
  assert.equal(ownerText({ ...PORT, name: "vip" }), "vip");
  assert.equal(ownerText({ ...PORT, device_id: "router-7" }), "router-7");
  assert.equal(ownerText(PORT), PORT.uuid);
  assert.equal(deviceText({ ...PORT, device_owner: "network:dhcp", device_id: "d1" }), "network:dhcp d1");
});

void test("a port is looked for by all that its row displays", () => {
  const text = searchText({ ...CLAIM, project: "Blue" });
  for (const word of ["node-1", "pool-1", "net1", "192.0.2.9", "aa:00", "blue"]) assert.ok(text.includes(word), word);
});
