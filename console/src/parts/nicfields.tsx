// The fields of a NIC: its network with the free addresses, and where each of its addresses comes from.

import { query } from "../api.ts";
import { ANY, type AddressChoice, type NicForm } from "../logic/creation.ts";
import * as format from "../logic/format.ts";
import { type PoolRoom, automaticWords, freeWords } from "../logic/pools.ts";
import { byName } from "../model.ts";
import { type Option, SelectField, TextField, replaced } from "./form.tsx";

export interface NetworkChoice {
  readonly name: string;
  readonly free_count: number;
  readonly group_list: readonly (readonly string[])[];
  readonly pool_usage: readonly PoolRoom[];
}

export async function readNetworks(): Promise<NetworkChoice[]> {
  return byName(await query<NetworkChoice>("network", ["name", "free_count", "group_list", "pool_usage"]));
}

interface NicFieldsProps {
  label: string;
  nic: NicForm;
  networks: readonly NetworkChoice[];
  group: string; // that the instance goes to; empty if it is not known
  bridge: string; // what a NIC without a network is connected to
  problem?: string | undefined;
  onChange: (nic: NicForm) => void;
  onRemove?: () => void;
}

export function NicFields({ label, nic, networks, group, bridge, problem, onChange, onRemove }: NicFieldsProps) {
  const network = networks.find((each) => each.name === nic.network);
  const choose = (name: string) => {
    const hasPool = networks.find((each) => each.name === name)?.pool_usage.length;
    onChange({ network: name, addresses: hasPool ? [ANY] : [] });
  };
  return (
    <div class="nic" role="group" aria-label={label}>
      <div class="nic-head">
        <h3>{label}</h3>
        {onRemove && (
          <button type="button" class="quiet" aria-label={`Remove ${label}`} onClick={onRemove}>
            remove
          </button>
        )}
      </div>
      <div class="fields">
        <SelectField
          label="Network"
          value={nic.network}
          onValue={choose}
          options={[
            ...networks.map((each) => networkOption(each, group)),
            { value: "", text: `none: ${bridge}, without an address` },
          ]}
          problem={problem}
        />
        {nic.addresses.map((choice, i) => (
          <AddressFields
            key={i}
            number={i}
            choice={choice}
            network={network}
            onChange={(changed) => onChange({ ...nic, addresses: replaced(nic.addresses, i, changed) })}
          />
        ))}
      </div>
      {nic.network !== "" && (
        <button type="button" class="quiet" onClick={() => onChange({ ...nic, addresses: [...nic.addresses, ANY] })}>
          {nic.addresses.length ? "Another address" : "Add an address"}
        </button>
      )}
    </div>
  );
}

function networkOption(network: NetworkChoice, group: string): Option {
  const isConnected = network.group_list.some(([name]) => !group || name === group);
  const free = freeWords(network.pool_usage);
  const missing = group ? `not connected to node group ${group}` : "not connected";
  return { value: network.name, text: `${network.name}: ${isConnected ? free : missing}`, isDisabled: !isConnected };
}

interface AddressFieldsProps {
  number: number;
  choice: AddressChoice;
  network: NetworkChoice | undefined;
  onChange: (choice: AddressChoice | undefined) => void;
}

const NONE = "none";
const TYPED = "typed";

function AddressFields({ number, choice, network, onChange }: AddressFieldsProps) {
  const pools = network?.pool_usage ?? [];
  const named = pools.filter((pool) => pool.name);
  const label = number ? `Address ${number}` : "Address";
  const options: Option[] = [
    { value: "any", text: `automatic: ${automaticWords(pools)}`, isDisabled: !pools.length },
    ...named.map((pool) => ({
      value: `pool ${pool.name}`,
      text: `from pool ${pool.name} of ${pool.subnet}: ${format.number(pool.free)} free`,
      isDisabled: pool.free === 0,
    })),
    { value: TYPED, text: "typed" },
    { value: NONE, text: "none" },
  ];
  const choose = (value: string) => {
    if (value === NONE) return onChange(undefined);
    if (value === TYPED) return onChange({ from: "typed", text: "" });
    onChange(value === "any" ? ANY : { from: "pool", text: value.slice("pool ".length) });
  };
  return (
    <>
      <SelectField
        label={label}
        value={choice.from === "pool" ? `pool ${choice.text}` : choice.from}
        onValue={choose}
        options={options}
      />
      {choice.from === "typed" && (
        <TextField
          label={number ? `IP address ${number}` : "IP address"}
          value={choice.text}
          onValue={(text) => onChange({ from: "typed", text })}
          placeholder="192.0.2.10"
        />
      )}
    </>
  );
}
