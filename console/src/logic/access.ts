// What the access rules of a user allow, to show the controls that work. The master decides: this only hides buttons.

export interface Rule {
  readonly role: string;
  readonly scope: string;
  /** The UUID of an object, a tag or a project. */
  readonly object: string;
  /** The object by name, as `group:default`. */
  readonly on: string;
}

/** An instance as far as rules can name it; a list does not know the node group of each row. */
export interface Ruled {
  readonly uuid: string;
  readonly tags: readonly string[];
  readonly "pnode.group"?: string | undefined;
  readonly project: string;
}

/** Whether a rule is about an instance. */
function covers(rule: Rule, instance: Ruled): boolean {
  switch (rule.scope) {
    case "cluster":
      return true;
    case "instance":
      return rule.object === instance.uuid;
    case "tag":
      return instance.tags.includes(rule.object);
    case "project":
      return instance.project === rule.object;
    case "group":
      return instance["pnode.group"] !== undefined && rule.on === `group:${instance["pnode.group"]}`;
    default:
      return false;
  }
}

/** Whether rules let a user start and stop an instance, or change it. */
export function ruleAllows(rules: readonly Rule[], right: "operate" | "manage", instance: Ruled): boolean {
  const roles = right === "operate" ? ["operator", "admin"] : ["admin"];
  return rules.some((rule) => roles.includes(rule.role) && covers(rule, instance));
}
