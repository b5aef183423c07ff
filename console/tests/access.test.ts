import assert from "node:assert/strict";
import { test } from "node:test";
import { ruleAllows, ruleAllowsSome } from "../src/logic/access.ts";

const web = { uuid: "i1", tags: ["blue"], "pnode.group": "default", project: "shop" };
const rule = (role: string, scope: string, object: string, on = "") => ({ role, scope, object, on });

test("an operator operates what a rule names, and does not change it", () => {
  for (const each of [
    rule("operator", "cluster", ""),
    rule("operator", "instance", "i1"),
    rule("operator", "tag", "blue"),
    rule("operator", "group", "g", "group:default"),
    rule("operator", "project", "shop"),
  ]) {
    assert.equal(ruleAllows([each], "operate", web), true);
    assert.equal(ruleAllows([each], "manage", web), false);
  }
});

test("an admin does both", () => {
  const rules = [rule("admin", "instance", "i1")];
  assert.equal(ruleAllows(rules, "operate", web) && ruleAllows(rules, "manage", web), true);
});

test("a rule about something else allows nothing", () => {
  const rules = [
    rule("admin", "instance", "i2"),
    rule("admin", "tag", "red"),
    rule("admin", "project", "blue"),
    rule("admin", "tag", "shop"),
    rule("admin", "group", "g", "group:other"),
    rule("network-admin", "cluster", ""),
    rule("operator", "network", "n1"),
  ];
  assert.equal(ruleAllows(rules, "operate", web), false);
  assert.equal(ruleAllows([], "operate", web), false);
  const alone = { uuid: "x", tags: [], project: "" };
  assert.equal(ruleAllows([rule("admin", "group", "g", "group:undefined")], "operate", alone), false);
});

const net = { uuid: "n1", tags: ["blue"], project: "shop" };

test("a network-admin configures what a rule names, an operator connects to it, and neither has the wires", () => {
  for (const [scope, object] of [
    ["network", "n1"],
    ["tag", "blue"],
    ["project", "shop"],
  ] as const) {
    assert.equal(ruleAllows([rule("network-admin", scope, object)], "configure", net), true);
    assert.equal(ruleAllows([rule("operator", scope, object)], "connect", net), true);
    assert.equal(ruleAllows([rule("operator", scope, object)], "configure", net), false);
    assert.equal(ruleAllows([rule("network-admin", scope, object)], "wire"), false);
    assert.equal(ruleAllows([rule("network-admin", scope, "other")], "configure", net), false);
  }
});

test("what the cluster has as a whole needs a rule about the cluster", () => {
  assert.equal(ruleAllows([rule("network-admin", "cluster", "")], "wire"), true);
  assert.equal(ruleAllows([rule("network-admin", "cluster", "")], "administer"), false);
  assert.equal(ruleAllows([rule("admin", "cluster", "")], "administer"), true);
  assert.equal(ruleAllows([rule("admin", "group", "g", "group:default")], "administer"), false);
});

test("instances are created by the admins of a node group or the cluster", () => {
  assert.equal(ruleAllowsSome([rule("admin", "group", "g", "group:default")], "populate"), true);
  assert.equal(ruleAllowsSome([rule("admin", "cluster", "")], "populate"), true);
  assert.equal(ruleAllowsSome([rule("admin", "instance", "i1"), rule("admin", "project", "shop")], "populate"), false);
  assert.equal(ruleAllowsSome([rule("operator", "group", "g", "group:default")], "populate"), false);
  assert.equal(ruleAllowsSome([rule("operator", "project", "shop")], "operate"), true);
  assert.equal(ruleAllowsSome([rule("operator", "network", "n1"), rule("viewer", "cluster", "")], "operate"), false);
});
