import assert from "node:assert/strict";
import { test } from "node:test";
import { ruleAllows } from "../src/logic/access.ts";

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
    rule("operator", "network", "i1"),
  ];
  assert.equal(ruleAllows(rules, "operate", web), false);
  assert.equal(ruleAllows([], "operate", web), false);
  const alone = { uuid: "x", tags: [], project: "" };
  assert.equal(ruleAllows([rule("admin", "group", "g", "group:undefined")], "operate", alone), false);
});
