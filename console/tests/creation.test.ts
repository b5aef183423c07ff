import assert from "node:assert/strict";
import { test } from "node:test";
import {
  type CreationForm,
  creationBody,
  creationProblems,
  emptyForm,
  fieldOf,
  tagList,
} from "../src/logic/creation.ts";
import { type Policy, allowedWords, refusal } from "../src/logic/policy.ts";
import { automaticWords, freeWords } from "../src/logic/pools.ts";
import { parseCount, parseSize, sizeText } from "../src/logic/sizes.ts";

const POLICY: Policy = {
  minmax: [{ min: { "memory-size": 128, "cpu-count": 1 }, max: { "memory-size": 4096, "cpu-count": 2 ** 40 } }],
};

function form(changes: Partial<CreationForm> = {}): CreationForm {
  return { ...emptyForm("net1"), name: "web1", os: "debian", template: "plain", ...changes };
}

test("sizes are read with and without a unit, in MiB", () => {
  const sizes = { "10G": 10240, "512": 512, "512 MiB": 512, "1.5t": 1572864, "0.5g": 512, " 2 GB ": 2048 };
  for (const [text, mebibytes] of Object.entries(sizes)) assert.equal(parseSize(text), mebibytes, text);
  for (const text of ["", "G", "0", "-1G", "10K", "10GG", "1e3", "ten", "1,000 MiB"])
    assert.equal(parseSize(text), null, text);
});

test("a size that is not changed is sent as it was", () => {
  assert.equal(sizeText(2048), "2G");
  for (const mebibytes of [1, 128, 1000, 1300, 1536, 10_240, 1_048_575]) {
    assert.equal(parseSize(sizeText(mebibytes)), mebibytes);
  }
});

test("counts are whole numbers above zero", () => {
  assert.equal(parseCount(" 4 "), 4);
  for (const text of ["", "0", "1.5", "-1", "0x4", "four", "12345678901"]) assert.equal(parseCount(text), null, text);
});

test("a policy says what it allows, and nothing where it allows everything", () => {
  assert.equal(allowedWords(POLICY, "memory-size"), "128 MiB to 4 GiB");
  assert.equal(allowedWords(POLICY, "cpu-count"), "at least 1");
  assert.equal(allowedWords(POLICY, "disk-size"), "");
  assert.equal(refusal(POLICY, "memory-size", 4096), "");
  assert.equal(refusal(POLICY, "memory-size", 4097), "The instance policy allows 128 MiB to 4 GiB.");
  assert.equal(refusal(null, "memory-size", 1), "");
});

test("a value has to fit one of several ranges of a policy", () => {
  const policy: Policy = {
    minmax: [
      { min: { "disk-size": 10 }, max: { "disk-size": 20 } },
      { min: { "disk-size": 1024 }, max: { "disk-size": 2048 } },
    ],
  };
  assert.equal(allowedWords(policy, "disk-size"), "10 MiB to 20 MiB, or 1 GiB to 2 GiB");
  assert.equal(refusal(policy, "disk-size", 1500), "");
  assert.notEqual(refusal(policy, "disk-size", 500), "");
});

test("a form becomes the body of a request, with the defaults of the cluster left out", () => {
  const body = creationBody(form({ memory: "2G", tags: "red, blue red", disks: ["10G", "512"] }));
  assert.deepEqual(body, {
    __version__: 1,
    mode: "create",
    instance_name: "web1",
    disk_template: "plain",
    disks: [{ size: 10240 }, { size: 512 }],
    os_type: "debian",
    beparams: { memory: 2048 },
    nics: [{ network: "net1", ip: ["pool"] }],
    tags: ["red", "blue"],
    start: true,
  });
});

test("addresses come from any pool, from the pool of a name, or as they are typed", () => {
  const addresses = [
    { from: "any", text: "" },
    { from: "pool", text: "lan" },
    { from: "typed", text: " 192.0.2.7 " },
  ] as const;
  const { nics } = creationBody(form({ nics: [{ network: "net1", addresses }] }));
  assert.deepEqual(nics, [{ network: "net1", ip: ["pool", "lan", "192.0.2.7"] }]);
  assert.deepEqual(creationBody(form({ nics: [{ network: "", addresses: [] }] }))["nics"], [{}]);
});

test("an instance without disks has no operating system, and a secondary node only with mirrored disks", () => {
  const body = creationBody(form({ template: "diskless", node: "node1", secondary: "node2", group: "west" }));
  assert.deepEqual([body["disks"], body["os_type"], body["no_install"]], [[], undefined, undefined]);
  assert.deepEqual([body["pnode"], body["snode"], body["group_name"]], ["node1", undefined, undefined]);
  assert.equal(creationBody(form({ template: "drbd", node: "node1", secondary: "node2" }))["snode"], "node2");
  assert.equal(creationBody(form({ os: "" }))["no_install"], true);
});

test("what cannot be right is noted beside its field", () => {
  const wrong = form({
    name: "web1",
    disks: ["10G", "x"],
    memory: "64M",
    cpus: "two",
    nics: [{ network: "net1", addresses: [{ from: "typed", text: "300.1.1.1" }] }],
  });
  const problems = creationProblems(wrong, { policy: POLICY, names: new Set(["web1"]) });
  assert.deepEqual([...problems.keys()].sort(), ["cpus", "disk 1", "memory", "name", "nic 0"]);
  assert.equal(creationProblems(form(), { policy: POLICY, names: new Set() }).size, 0);
  assert.ok(creationProblems(form({ name: " " }), { policy: null, names: new Set() }).has("name"));
});

test("an error of the server stands beside the field that it is about", () => {
  const typed = form({
    nics: [
      { network: "net1", addresses: [] },
      { network: "net2", addresses: [{ from: "typed", text: "192.0.2.7" }] },
    ],
  });
  const fields = {
    "instance web1 exists already; choose another name": "name",
    "NIC 1: ip=pool needs a network": "nic 1",
    "Expected `int` - at `$.disks[1].size`": "disk 1",
    "memory-size 64 is below the minimum 128": "memory",
    "every pool of network net2 is full: lan; add a pool": "nic 1",
    "192.0.2.7 is in use by instance web9": "nic 1",
    "no node can take the instance: node1: needs 10240 MiB of disk space, 5 MiB are free": "node",
    "OS debian on node node1 is not valid": "os",
    "the job queue is drained": "",
  };
  for (const [text, field] of Object.entries(fields)) assert.equal(fieldOf(text, typed), field, text);
});

test("free addresses are counted by IP version, and the next one is from the first pool with a free one", () => {
  const four = { subnet: "192.0.2.0/24", name: "lan4", range: "192.0.2.10-192.0.2.13", free: 0 };
  const six = { subnet: "2001:db8::/64", name: "", range: "2001:db8::10-2001:db8::ff", free: 240 };
  assert.equal(freeWords([]), "no pool");
  assert.equal(freeWords([four]), "full");
  assert.equal(freeWords([{ ...four, free: 1 }]), "1 address free");
  assert.equal(freeWords([four, six]), "no IPv4 and 240 IPv6 free");
  assert.equal(freeWords([four, { ...six, free: 0 }]), "full");
  assert.equal(automaticWords([four, six]), "from 2001:db8::10-2001:db8::ff, 240 free");
  assert.equal(automaticWords([{ ...four, free: 3 }, six]), "from lan4, 3 free");
  assert.equal(automaticWords([four]), "every pool is full");
});

test("names with the signs of patterns and of markup are only names", () => {
  const typed = form({ nics: [{ network: "<b>net(1", addresses: [] }] });
  assert.equal(fieldOf("every pool of network <b>net(1 is full", typed), "nic 0");
  assert.deepEqual(tagList("<i>, a(b"), ["<i>", "a(b"]);
});
