// The summaries of jobs, "INSTANCE_STARTUP(web1)", as words with the object that they are about.

export interface Summary {
  readonly words: string;
  readonly kind: string;
  readonly name: string;
  readonly more: number;
}

const WORDS: Readonly<Record<string, string>> = {
  INSTANCE_STARTUP: "Start instance",
  INSTANCE_SHUTDOWN: "Stop instance",
  INSTANCE_REBOOT: "Reboot instance",
  INSTANCE_CREATE: "Create instance",
  INSTANCE_REMOVE: "Remove instance",
  INSTANCE_REINSTALL: "Reinstall instance",
  INSTANCE_MIGRATE: "Migrate instance",
  INSTANCE_FAILOVER: "Fail over instance",
  INSTANCE_MOVE: "Move instance",
  INSTANCE_RENAME: "Rename instance",
  INSTANCE_SET_PARAMS: "Modify instance",
  INSTANCE_GROW_DISK: "Grow disk of instance",
  INSTANCE_REPLACE_DISKS: "Replace disks of instance",
  NODE_ADD: "Add node",
  NODE_REMOVE: "Remove node",
  NODE_SET_PARAMS: "Modify node",
  NODE_EVACUATE: "Evacuate node",
  NODE_MIGRATE: "Migrate instances of node",
  NETWORK_ADD: "Create network",
  NETWORK_REMOVE: "Remove network",
  NETWORK_SET_PARAMS: "Modify network",
  NETWORK_CONNECT: "Connect network",
  NETWORK_DISCONNECT: "Disconnect network",
  GROUP_ADD: "Create group",
  GROUP_REMOVE: "Remove group",
  GROUP_SET_PARAMS: "Modify group",
  CLUSTER_SET_PARAMS: "Modify cluster",
  CLUSTER_VERIFY: "Verify cluster",
  BACKUP_EXPORT: "Export instance",
  BACKUP_REMOVE: "Remove exports of",
  SEGMENT_RANGE_ADD: "Create segment range",
  SEGMENT_RANGE_SET_PARAMS: "Modify segment range",
  SEGMENT_RANGE_REMOVE: "Remove segment range",
  TAGS_SET: "Add tags",
  TAGS_DEL: "Remove tags",
  TOKEN_ADD: "Create API token",
  TOKEN_REVOKE: "Revoke API tokens of",
  WEBHOOK_ADD: "Add webhook",
  WEBHOOK_SET_PARAMS: "Modify webhook",
  WEBHOOK_REMOVE: "Remove webhook",
  WEBHOOK_TEST: "Test webhook",
};

const KIND = /^(INSTANCE|NODE|NETWORK|GROUP)_/;

export function parseSummary(text: string): Summary {
  const parts = text.match(/[A-Z][A-Z0-9_]*(?:\([^()]*\))?/g) ?? [];
  const first = /^([A-Z0-9_]+)(?:\((.*)\))?$/.exec(parts[0] ?? "");
  if (!first) return { words: text, kind: "", name: "", more: 0 };
  const [, opcode = "", name = ""] = first;
  const kind = opcode === "BACKUP_EXPORT" ? "instance" : (KIND.exec(opcode)?.[1]?.toLowerCase() ?? "");
  const generic = opcode.replaceAll("_", " ").toLowerCase();
  const words = WORDS[opcode] ?? generic.charAt(0).toUpperCase() + generic.slice(1);
  return { words, kind, name, more: parts.length - 1 };
}

/** The words of an opcode, "OP_INSTANCE_CREATE": "Create instance". */
export function opcodeWords(opcode: string): string {
  return opcode ? parseSummary(opcode.replace(/^OP_/, "")).words : "";
}
