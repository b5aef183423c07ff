// Changes of a network: its subnets, pools, connections and single addresses.

import { useState } from "preact/hooks";
import { query } from "./api.ts";
import { parseRange } from "./logic/addresses.ts";
import { href } from "./logic/routes.ts";
import { byName } from "./model.ts";
import { ChangeDialog } from "./parts/change.tsx";
import { openDialog } from "./parts/dialog.tsx";
import { CheckField, SelectField, TextField } from "./parts/form.tsx";
import { useAnswer, useLists } from "./parts/hooks.ts";
import type { AddressRow } from "./parts/addressfacts.tsx";
import { Ago, Failure, Loading } from "./parts/text.tsx";
import { go } from "./router.ts";
import { groups } from "./store.ts";

export function networkPath(name: string, action = ""): string {
  return `/2/networks/${encodeURIComponent(name)}${action && `/${action}`}`;
}

export function addSubnet(network: string): void {
  openDialog(<SubnetForm network={network} />);
}

function SubnetForm({ network }: { network: string }) {
  const [cidr, setCidr] = useState("");
  const [gateway, setGateway] = useState("");
  const [name, setName] = useState("");
  const [isPool, setPool] = useState(false);
  const isCidr = cidr.includes("/") && parseRange(cidr.trim()) !== null;
  return (
    <ChangeDialog
      title={`Add a subnet to ${network}`}
      action="Add the subnet"
      isReady={isCidr}
      run={async (send) => {
        const subnet = {
          action: "add",
          cidr: cidr.trim(),
          pool: isPool,
          ...(gateway.trim() && { gateway: gateway.trim() }),
          ...(name.trim() && { name: name.trim() }),
        };
        await send("PUT", networkPath(network, "modify"), { subnets: [subnet] });
      }}
    >
      <TextField
        label="CIDR"
        value={cidr}
        onValue={setCidr}
        placeholder="192.0.2.0/24"
        problem={cidr && !isCidr ? "Write a CIDR such as 192.0.2.0/24 or 2001:db8::/64." : ""}
        isFocused
      />
      <TextField label="Gateway" value={gateway} onValue={setGateway} placeholder="none" />
      <TextField label="Name" value={name} onValue={setName} placeholder="none" />
      <CheckField label="Make all of it a pool" isChecked={isPool} onCheck={setPool} />
    </ChangeDialog>
  );
}

export function removeSubnet(network: string, cidr: string): void {
  openDialog(
    <ChangeDialog
      title={`Remove subnet ${cidr}?`}
      action="Remove the subnet"
      keep="Keep it"
      isDangerous
      run={async (send) => {
        await send("PUT", networkPath(network, "modify"), { subnets: [{ action: "remove", ident: cidr }] });
      }}
    >
      <p>
        Its pools and reservations are removed, too. The server refuses while an instance or a port has an address of
        it.
      </p>
    </ChangeDialog>,
  );
}

export function addPool(network: string, cidr: string): void {
  openDialog(<PoolForm network={network} cidr={cidr} />);
}

function PoolForm({ network, cidr }: { network: string; cidr: string }) {
  const [text, setText] = useState("");
  const [name, setName] = useState("");
  const isRange = parseRange(text.trim()) !== null;
  return (
    <ChangeDialog
      title={`Add a pool to ${cidr}`}
      action="Add the pool"
      isReady={isRange}
      run={async (send) => {
        const pool = { action: "add", range: text.trim(), ...(name.trim() && { name: name.trim() }) };
        await send("PUT", networkPath(network, "modify"), { pools: [pool] });
      }}
    >
      <TextField
        label="Addresses"
        value={text}
        onValue={setText}
        placeholder="192.0.2.10-192.0.2.99"
        hint={`Inside ${cidr}, and in no other pool`}
        problem={text && !isRange ? "Write a range such as 192.0.2.10-192.0.2.99, or a CIDR." : ""}
        isFocused
      />
      <TextField
        label="Name"
        value={name}
        onValue={setName}
        placeholder="none"
        hint="With a name, instances can ask for addresses of this pool."
      />
    </ChangeDialog>
  );
}

export function removePool(network: string, range: string): void {
  openDialog(
    <ChangeDialog
      title={`Remove pool ${range}?`}
      action="Remove the pool"
      keep="Keep it"
      isDangerous
      run={async (send) => {
        await send("PUT", networkPath(network, "modify"), { pools: [{ action: "remove", ident: range }] });
      }}
    >
      <p>Who has an address of it keeps the address. No more addresses are given out from this range.</p>
    </ChangeDialog>,
  );
}

export function connectNetwork(network: string): void {
  openDialog(<ConnectForm network={network} />);
}

function ConnectForm({ network }: { network: string }) {
  useLists(groups);
  const names = byName(groups.rows.value).map((group) => group.name);
  const [group, setGroup] = useState("");
  const [mode, setMode] = useState("bridged");
  const [link, setLink] = useState("");
  const chosen = group || (names[0] ?? "");
  return (
    <ChangeDialog
      title={`Connect ${network} to a node group`}
      action="Connect"
      isReady={link.trim() !== "" && chosen !== ""}
      run={async (send) => {
        const body = { group_name: chosen, network_mode: mode, network_link: link.trim() };
        await send("PUT", networkPath(network, "connect"), body);
      }}
    >
      <SelectField
        label="Node group"
        value={chosen}
        onValue={setGroup}
        options={names.map((name) => ({ value: name, text: name }))}
      />
      <SelectField
        label="Mode"
        value={mode}
        onValue={setMode}
        options={[
          { value: "bridged", text: "bridged" },
          { value: "routed", text: "routed" },
        ]}
      />
      <TextField
        label={mode === "bridged" ? "Bridge" : "Routing table"}
        value={link}
        onValue={setLink}
        placeholder={mode === "bridged" ? "br0" : "100"}
        hint="It has to exist on each node of the group."
        isFocused
      />
    </ChangeDialog>
  );
}

export function disconnectNetwork(network: string, group: string): void {
  openDialog(
    <ChangeDialog
      title={`Disconnect ${network} from ${group}?`}
      action="Disconnect"
      keep="Keep it connected"
      isDangerous
      run={async (send) => {
        await send("PUT", networkPath(network, "disconnect"), { group_name: group });
      }}
    >
      <p>No instance of this node group can use the network then. The server refuses while one uses it.</p>
    </ChangeDialog>,
  );
}

export function removeNetwork(network: string): void {
  openDialog(<NetworkRemoval network={network} />);
}

function NetworkRemoval({ network }: { network: string }) {
  const [text, setText] = useState("");
  return (
    <ChangeDialog
      title={`Remove ${network}?`}
      action="Remove the network"
      keep="Keep it"
      isDangerous
      isReady={text === network}
      run={async (send) => {
        await send("DELETE", networkPath(network), { disconnect: true });
      }}
      onDone={() => go(href(["networks"]))}
    >
      <p>Its subnets, pools and reservations are removed. The server refuses while an instance uses the network.</p>
      <TextField label={`Type ${network} to confirm`} value={text} onValue={setText} isFocused />
    </ChangeDialog>
  );
}

export function reserve(network: string, address: string): void {
  openDialog(<Reservation network={network} address={address} />);
}

function Reservation({ network, address }: { network: string; address: string }) {
  const [text, setText] = useState(address);
  const isRange = parseRange(text.trim()) !== null;
  return (
    <ChangeDialog
      title={`Reserve addresses of ${network}`}
      action="Reserve"
      isReady={isRange}
      run={async (send) => {
        await send("PUT", networkPath(network, "modify"), { add_reserved_ips: [text.trim()] });
      }}
    >
      <p>A reserved address is for something outside of the cluster: no pool gives it out.</p>
      <TextField
        label="Address or range"
        value={text}
        onValue={setText}
        problem={isRange ? "" : "Write an address, or a range such as 192.0.2.10-192.0.2.12."}
        isFocused
      />
    </ChangeDialog>
  );
}

export function releaseReservation(network: string, address: string): void {
  openDialog(
    <ChangeDialog
      title={`Release the reservation of ${address}?`}
      action="Release it"
      keep="Keep it reserved"
      isDangerous
      run={async (send) => {
        await send("PUT", networkPath(network, "modify"), { remove_reserved_ips: [address] });
      }}
    >
      <Reserved address={address} />
      <p>A pool may give it to an instance then. Make sure that nothing outside of the cluster uses it.</p>
    </ChangeDialog>,
  );
}

/** Who reserved an address, and when. */
function Reserved({ address }: { address: string }) {
  const { value, failure } = useAnswer<{ rows: readonly AddressRow[] }>(
    `/2/addresses?${new URLSearchParams({ of: address })}`,
  );
  if (failure) return <Failure text={failure} />;
  if (!value) return <Loading what={address} />;
  return (
    <ul>
      {value.rows.map((row, i) => (
        <li key={i}>
          <strong>{row.address}</strong>: {row.state === "external" ? "reserved externally" : row.state}
          {row.owner && ` by ${row.owner}`}
          {row.user && `, by user ${row.user.replace(/^.*:/, "")}`}
          {row.from !== null && (
            <>
              , <Ago time={row.from} />
            </>
          )}
          {row.job !== null && ` (job ${row.job})`}
        </li>
      ))}
    </ul>
  );
}

interface Owned {
  readonly name: string;
  readonly serial_no: number;
  readonly "nic.ips": readonly (readonly string[])[];
}

/** Take an address from the NIC that has it. */
export function releaseAddress(address: string, instance: string, nic: number): void {
  openDialog(
    <ChangeDialog
      title={`Release ${address}?`}
      action="Release it"
      keep={`Leave it to ${instance}`}
      isDangerous
      run={async (send) => {
        const fields = ["name", "serial_no", "nic.ips"];
        const [owner] = await query<Owned>("instance", fields, ["=", "name", instance]);
        const ips = owner?.["nic.ips"][nic] ?? [];
        if (!owner || !ips.includes(address)) throw new Error(`${instance} does not have ${address} any more.`);
        const change = ["modify", nic, { ip: ips.filter((ip) => ip !== address) }];
        const path = `/2/instances/${encodeURIComponent(instance)}/modify`;
        await send("PUT", path, { nics: [change] }, owner.serial_no);
      }}
    >
      <p>
        <strong>{address}</strong> belongs to NIC {nic} of <strong>{instance}</strong>. The NIC stays, without this
        address.
      </p>
    </ChangeDialog>,
  );
}
