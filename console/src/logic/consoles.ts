// What a page says about a console of an instance before it is opened, and the messages of an open one.

export type Kind = "serial" | "vnc";

export interface Guest {
  readonly name: string;
  readonly hypervisor: string;
  readonly hvparams: Readonly<Record<string, unknown>>;
}

export type Report =
  | { readonly state: "open"; readonly node: string }
  | { readonly state: "used"; readonly user: string }
  | { readonly state: "refused"; readonly text: string }
  | { readonly state: "ended"; readonly text: string; readonly why: string };

/** Read a message of the server about a console; null for any other text. */
export function parseReport(text: string): Report | null {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return null;
  }
  const fields = (value ?? {}) as Readonly<Record<string, unknown>>;
  const word = (name: string) => (typeof fields[name] === "string" ? fields[name] : "");
  switch (fields["state"]) {
    case "open":
      return { state: "open", node: word("node") };
    case "used":
      return { state: "used", user: word("user") };
    case "refused":
      return { state: "refused", text: word("text") };
    case "ended":
      return { state: "ended", text: word("text"), why: word("why") };
    default:
      return null;
  }
}

const TERMINALS: ReadonlySet<string> = new Set(["xen-pvm", "xen-hvm", "chroot"]);

/** Why an instance has no console of a kind, by its parameters; empty if it has one. */
export function missing(guest: Guest, kind: Kind): string {
  const { name, hypervisor, hvparams } = guest;
  if (TERMINALS.has(hypervisor)) {
    return `A console of the hypervisor ${hypervisor} needs a terminal: gnt-instance console ${name}`;
  }
  if (hypervisor !== "kvm") return "";
  if (kind === "serial") {
    return hvparams["serial_console"] ? "" : `${name} has no serial console: its parameter serial_console is off.`;
  }
  if (hvparams["vnc_bind_address"]) return "";
  if (hvparams["spice_bind"]) {
    return `The screen of ${name} is a SPICE server, and this page shows VNC only. A SPICE viewer shows it.`;
  }
  return `${name} has no VNC server: its parameter vnc_bind_address is empty.`;
}

/** The pieces of a text that may be one message each; the server refuses longer ones. */
export function pieces(data: Uint8Array, most = 16_384): Uint8Array[] {
  const parts: Uint8Array[] = [];
  for (let from = 0; from < data.length; from += most) parts.push(data.subarray(from, from + most));
  return parts;
}
