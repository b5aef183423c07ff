import assert from "node:assert/strict";
import { test } from "node:test";
import {
  EMPTY,
  type Webhook,
  addition,
  draftOf,
  lacksAuthorities,
  modification,
  parseEvents,
  problems,
  status,
} from "../src/logic/webhooks.ts";

const HOOK: Webhook = {
  name: "tickets",
  origin: "https://tickets.example",
  events: ["instance", "job.error"],
  enabled: true,
  status: "ok",
  lag: 0,
  pruned: 0,
  waiting_since: null,
  failure: null,
  position: 40,
  uuid: "6f0d3c3e-3f6e-4d9c-8f53-6b6c1f6a0001",
  ctime: 1000,
};
const FAILING: Webhook = { ...HOOK, status: "failing", lag: 7, waiting_since: 2000, failure: "status 500" };
const DISABLED: Webhook = { ...HOOK, status: "disabled", enabled: false };
const GONE: Webhook = { ...FAILING, status: "disabled", enabled: false, failure: "status 410" };
const PEM = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";

void test("each state has a word, and only trouble has sentences", () => {
  assert.deepEqual(
    [HOOK, FAILING, { ...HOOK, status: "behind" }, DISABLED, GONE].map((hook) => status(hook).word),
    ["delivers", "fails", "behind", "disabled", "gone"],
  );
  assert.deepEqual(problems(HOOK), []);
  assert.deepEqual(problems(DISABLED), []);
  assert.match(problems(FAILING).join(), /has not accepted an event: status 500/);
  assert.match(problems({ ...HOOK, status: "behind" }).join(), /gantry-rapi runs on the master/);
});

void test("a receiver that is gone differs from one that somebody disabled while it failed", () => {
  assert.match(problems(GONE).join(), /answered 410/);
  assert.equal(status({ ...GONE, failure: "status 500" }).word, "disabled");
  assert.deepEqual(problems({ ...GONE, failure: "status 500" }), []);
  assert.equal(status({ ...GONE, enabled: true, status: "failing" }).word, "fails");
});

void test("a gap in the journal is reported beside the failure", () => {
  const sentences = problems({ ...FAILING, pruned: 1 });
  assert.equal(sentences.length, 2);
  assert.match(sentences[1] ?? "", /1 change of these/);
  assert.match(problems({ ...DISABLED, pruned: 20 }).join(), /20 changes/);
});

void test("a status that the page does not know is shown as it is", () => {
  assert.equal(status({ ...HOOK, status: "resting" }).word, "resting");
});

void test("events are typed with commas or spaces", () => {
  assert.deepEqual(parseEvents(" instance, job.error\nnode,"), ["instance", "job.error", "node"]);
  assert.deepEqual(parseEvents(" "), []);
});

void test("a new webhook has what was typed, and no authorities unless they are chosen", () => {
  const draft = { ...EMPTY, url: " https://tickets.example/in ", authorities: PEM };
  assert.deepEqual(addition(" tickets ", draft), { name: "tickets", url: "https://tickets.example/in", events: [] });
  assert.deepEqual(addition("a", { ...draft, trust: "own", events: "node", isWithoutTls: true }), {
    name: "a",
    url: "https://tickets.example/in",
    events: ["node"],
    authorities: PEM,
    without_tls: true,
  });
});

void test("a change has only what differs", () => {
  const draft = draftOf(HOOK);
  assert.deepEqual(modification(HOOK, draft), {});
  assert.deepEqual(modification(HOOK, { ...draft, events: "instance,job.error" }), {});
  assert.deepEqual(modification(HOOK, { ...draft, events: "" }), { events: [] });
  assert.deepEqual(modification(HOOK, { ...draft, url: "https://a" }), { url: "https://a", without_tls: false });
  assert.deepEqual(modification(HOOK, { ...draft, trust: "system" }), { authorities: "" });
  assert.deepEqual(modification(HOOK, { ...draft, trust: "own", authorities: PEM }), { authorities: PEM });
});

void test("authorities that are chosen have to be certificates", () => {
  assert.equal(lacksAuthorities({ ...EMPTY, trust: "own" }), true);
  assert.equal(lacksAuthorities({ ...EMPTY, trust: "own", authorities: PEM }), false);
  assert.equal(lacksAuthorities(EMPTY), false);
});
