// What the access rules of a user allow, to show the controls that work. The master decides: this only hides buttons.

export interface Rule {
  readonly role: string;
  readonly scope: string;
  /** The UUID of an object, a tag or a project. */
  readonly object: string;
  /** The object by name, as `group:default`. */
  readonly on: string;
}

/** An instance or a network as far as rules can name it; a list does not know the node group of each instance. */
export interface Ruled {
  readonly uuid: string;
  readonly tags: readonly string[];
  readonly project: string;
  readonly "pnode.group"?: string | undefined;
}

const RIGHTS = ["operate", "manage", "connect", "configure", "populate", "wire", "administer"] as const;

/** What a request may change, as in the remote API's explanation of an object. */
export type Right = (typeof RIGHTS)[number];

const GRANTS: Readonly<Record<string, readonly Right[]>> = {
  operator: ["operate", "connect"],
  "network-admin": ["connect", "configure", "wire"],
  admin: RIGHTS,
};

function gives(rule: Rule, right: Right): boolean {
  return GRANTS[rule.role]?.includes(right) ?? false;
}

/** Whether a rule is about an object; null is what the cluster has as a whole. */
function covers(rule: Rule, object: Ruled | null): boolean {
  if (rule.scope === "cluster") return true;
  if (!object) return false;
  switch (rule.scope) {
    case "instance":
    case "network":
      return rule.object === object.uuid;
    case "tag":
      return object.tags.includes(rule.object);
    case "project":
      return object.project === rule.object;
    case "group":
      return object["pnode.group"] !== undefined && rule.on === `group:${object["pnode.group"]}`;
    default:
      return false;
  }
}

/** Whether rules give a right on an object, or on the cluster as a whole. */
export function ruleAllows(rules: readonly Rule[], right: Right, object: Ruled | null = null): boolean {
  return rules.some((rule) => gives(rule, right) && covers(rule, object));
}

/** The scopes on which a right means something, besides the cluster. */
const SCOPES: Partial<Readonly<Record<Right, readonly string[]>>> = {
  operate: ["group", "tag", "project", "instance"],
  populate: ["group"],
};

/** Whether rules give a right on some object. */
export function ruleAllowsSome(rules: readonly Rule[], right: "operate" | "populate"): boolean {
  const scopes = ["cluster", ...(SCOPES[right] ?? [])];
  return rules.some((rule) => gives(rule, right) && scopes.includes(rule.scope));
}
