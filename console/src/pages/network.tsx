import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { may, query } from "../api.ts";
import {
  type Range,
  type State,
  Usage,
  formatAddress,
  parseAddress,
  parseRange,
  parseRanges,
  rangeSize,
} from "../logic/addresses.ts";
import * as format from "../logic/format.ts";
import { href } from "../logic/routes.ts";
import { AddressFacts } from "../parts/addressfacts.tsx";
import { AddressActions } from "../parts/addressactions.tsx";
import { useLists, useReading, useTitle } from "../parts/hooks.ts";
import { withLoaded } from "../parts/lazy.tsx";
import { EventList, JobList } from "../parts/past.tsx";
import { Legend, PoolMap, rangeText } from "../parts/poolmap.tsx";
import { Commas, Fact, Facts, Failure, Loading, Meter, None } from "../parts/text.tsx";
import { replaceQuery, route } from "../router.ts";
import { instances, nodes } from "../store.ts";
import { InstanceList } from "./instances.tsx";

interface Details {
  readonly uuid: string;
  readonly name: string;
  readonly address_list: readonly (readonly [address: string, instance: string, nic: number | null])[];
  readonly port_list: readonly (readonly [uuid: string, name: string, owner: string, addresses: readonly string[]])[];
  readonly quarantine: readonly (readonly [address: string, kind: string, owner: string, end: number])[];
  readonly group_list: readonly (readonly [name: string, mode: string, link: string, vlan: string])[];
  readonly free_count: number;
  readonly reserved_count: number;
  readonly utilization: number | null;
  readonly mac_prefix: string | null;
  readonly network_type: string | null;
  readonly physical_network: string | null;
  readonly segment: number | null;
  readonly mtu: number | null;
  readonly description: string | null;
  readonly tags: readonly string[];
  readonly project: string;
}

interface Subnet {
  readonly uuid: string;
  readonly name: string | null;
  readonly cidr: string;
  readonly gateway: string | null;
  readonly dhcp: boolean;
  readonly pools: readonly { readonly start: string; readonly end: string; readonly name: string }[];
  readonly external: readonly string[];
}

const FIELDS = [
  "uuid",
  "name",
  "address_list",
  "port_list",
  "quarantine",
  "group_list",
  "free_count",
  "reserved_count",
  "utilization",
  "mac_prefix",
  "network_type",
  "physical_network",
  "segment",
  "mtu",
  "description",
  "tags",
  "project",
];
const SUBNET_FIELDS = ["uuid", "name", "cidr", "gateway", "dhcp", "pools", "external"];
const LEGEND: readonly State[] = ["free", "used", "guest", "quarantined", "external", "gateway"];

async function read(name: string): Promise<{ network: Details; subnets: readonly Subnet[] } | null> {
  const [found, subnets] = await Promise.all([
    query<Details>("network", FIELDS, ["=", "name", name]),
    query<Subnet>("subnet", SUBNET_FIELDS, ["=", "network", name]),
  ]);
  return found[0] ? { network: found[0], subnets } : null;
}

export function NetworkPage({ name }: { name: string }) {
  useTitle(name);
  useLists(instances, nodes);
  const { value, failure } = useReading(() => read(name), [name], [["network", name]]);
  return (
    <>
      <header class="head">
        <p class="crumbs">
          <a href={href(["networks"])}>Networks</a> /
        </p>
        <h1>{name}</h1>
        {value && <Actions network={value.network} />}
      </header>
      {failure && <Failure text={failure} />}
      {value === undefined && !failure && <Loading what={name} />}
      {value === null && <p class="empty">There is no network named {name}.</p>}
      {value && <Body network={value.network} subnets={value.subnets} />}
    </>
  );
}

const loadEdits = () => import("../networkedits.tsx");

/** Open a dialog that changes something. */
function edit(use: (edits: Awaited<ReturnType<typeof loadEdits>>) => void): void {
  withLoaded(loadEdits, use);
}

function Actions({ network }: { network: Details }) {
  const { name } = network;
  if (!may("configure", network)) return null;
  return (
    <div class="actions" role="group" aria-label="Actions">
      <button type="button" onClick={() => edit((edits) => edits.addSubnet(name))}>
        Add a subnet…
      </button>
      {may("wire") && (
        <button type="button" onClick={() => edit((edits) => edits.connectNetwork(name))}>
          Connect…
        </button>
      )}
      <button type="button" class="danger" onClick={() => edit((edits) => edits.removeNetwork(name))}>
        Remove…
      </button>
    </div>
  );
}

function Body({ network, subnets }: { network: Details; subnets: readonly Subnet[] }) {
  const present = route.value.query.get("address") ?? "";
  const look = (address: string) => replaceQuery({ address });
  const here = instances.rows.value.filter((instance) => instance["nic.networks.names"].includes(network.name));
  return (
    <>
      <NetworkFacts network={network} />
      <section>
        <h2>Subnets and pools</h2>
        {subnets.length === 0 && <p class="empty">No subnets.</p>}
        {subnets.map((subnet) => (
          <SubnetPart key={subnet.uuid} subnet={subnet} network={network} present={present} onLook={look} />
        ))}
      </section>
      <section>
        <h2>Instances</h2>
        <InstanceList rows={here} caption={`Instances on ${network.name}`} />
      </section>
      <div class="columns">
        <JobList title="Jobs" kind="network" name={network.name} />
        <EventList kind="network" uuid={network.uuid} />
      </div>
    </>
  );
}

function NetworkFacts({ network }: { network: Details }) {
  const segment = network.network_type
    ? [network.network_type, network.segment, network.physical_network && `on ${network.physical_network}`]
    : [];
  return (
    <section>
      <Facts isWide>
        <Fact name="Pools in use">
          {network.utilization === null ? (
            <None>no pool</None>
          ) : (
            <Meter
              part={network.utilization}
              total={100}
              label={`${format.share(network.utilization ?? 0)}, ${format.number(network.free_count)} free`}
            />
          )}
        </Fact>
        <Fact name="Node groups">
          {network.group_list.length ? (
            <Commas>
              {network.group_list.map(([group, mode, link, vlan]) => (
                <>
                  <a href={href(["nodes"], { group })}>{group}</a>
                  <span class="none">
                    {" "}
                    ({mode} {link}
                    {vlan && `, VLAN ${vlan}`})
                  </span>
                  {may("wire") && (
                    <>
                      {" "}
                      <button
                        type="button"
                        class="quiet"
                        aria-label={`Disconnect node group ${group}`}
                        onClick={() => edit((edits) => edits.disconnectNetwork(network.name, group))}
                      >
                        disconnect
                      </button>
                    </>
                  )}
                </>
              ))}
            </Commas>
          ) : (
            <None>none</None>
          )}
        </Fact>
        {segment.length > 0 && <Fact name="Segment">{segment.filter((part) => part !== null).join(" ")}</Fact>}
        {network.mac_prefix && <Fact name="MAC prefix">{network.mac_prefix}</Fact>}
        {network.mtu !== null && network.mtu > 0 && <Fact name="MTU">{format.number(network.mtu)}</Fact>}
        {network.description && <Fact name="Description">{network.description}</Fact>}
        <Fact name="Tags">
          {network.tags.length ? network.tags.map((tag) => <span class="tag">{tag}</span>) : <None />}
        </Fact>
        {network.project && <Fact name="Project">{network.project}</Fact>}
        <Fact name="UUID">
          <code>{network.uuid}</code>
        </Fact>
      </Facts>
    </section>
  );
}

interface SubnetProps {
  subnet: Subnet;
  network: Details;
  present: string;
  onLook: (address: string) => void;
}

function usageOf(subnet: Subnet, network: Details, whole: Range): Usage {
  const usage = new Usage(whole, subnet.external.flatMap(parseRanges));
  if (subnet.gateway) usage.add(subnet.gateway, "gateway", "");
  for (const [address, , owner] of network.quarantine) usage.add(address, "quarantined", owner);
  for (const [, name, owner, addresses] of network.port_list) {
    for (const address of addresses) usage.add(address, "used", name || owner || "a port");
  }
  for (const [address, instance, nic] of network.address_list)
    usage.add(address, nic === null ? "guest" : "used", instance);
  return usage;
}

function SubnetPart({ subnet, network, present, onLook }: SubnetProps) {
  const whole = parseRange(subnet.cidr);
  if (!whole) return null;
  const usage = usageOf(subnet, network, whole);
  const mayConfigure = may("configure", network);
  const parsed = parseAddress(present);
  const isHere =
    parsed !== null && parsed.family === whole.family && parsed.value >= whole.first && parsed.value <= whole.last;
  const address = parsed ? formatAddress(parsed.family, parsed.value) : "";
  return (
    <div class="subnet">
      <h3>
        {subnet.cidr} {subnet.name && <span class="none">{subnet.name}</span>}
      </h3>
      {mayConfigure && (
        <div class="actions" role="group" aria-label={`Subnet ${subnet.cidr}`}>
          <button type="button" onClick={() => edit((edits) => edits.addPool(network.name, subnet.cidr))}>
            Add a pool…
          </button>
          <button
            type="button"
            class="danger"
            onClick={() => edit((edits) => edits.removeSubnet(network.name, subnet.cidr))}
          >
            Remove the subnet…
          </button>
        </div>
      )}
      <p class="about">
        Gateway{" "}
        {subnet.gateway ? (
          <button type="button" class="quiet" onClick={() => onLook(subnet.gateway ?? "")}>
            {subnet.gateway}
          </button>
        ) : (
          <None>none</None>
        )}{" "}
        · DHCP {subnet.dhcp ? "on" : "off"}
        {subnet.external.length > 0 && ` · reserved externally: ${subnet.external.join(", ")}`}
      </p>
      {subnet.pools.length === 0 && <p class="empty">No pools.</p>}
      {subnet.pools.map((pool) => (
        <Pool
          key={pool.start}
          pool={pool}
          usage={usage}
          present={present}
          onLook={onLook}
          onRemove={mayConfigure ? (range) => edit((edits) => edits.removePool(network.name, range)) : undefined}
        />
      ))}
      {subnet.pools.length > 0 && <Legend states={LEGEND} />}
      {isHere && (
        <Looked address={present} network={network.name} onLook={onLook}>
          <AddressActions
            network={network}
            address={address}
            cell={usage.at(parsed.value)}
            nic={network.address_list.find(([each]) => each === address)?.[2] ?? null}
          />
        </Looked>
      )}
    </div>
  );
}

interface LookedProps {
  address: string;
  network: string;
  onLook: (address: string) => void;
  children: ComponentChildren;
}

/** What is known of the address that was chosen in a map, and what can be done with it. */
function Looked({ address, network, onLook, children }: LookedProps) {
  const element = useRef<HTMLElement>(null);
  useEffect(() => element.current?.scrollIntoView({ block: "nearest" }), [address]);
  return (
    <section class="looked" aria-live="polite" ref={element}>
      <h3>
        Address {address}{" "}
        <button type="button" class="quiet" onClick={() => onLook("")}>
          close
        </button>
      </h3>
      {children}
      <AddressFacts of={address} level="h4" watched={[["network", network]]} />
    </section>
  );
}

interface PoolProps {
  pool: Subnet["pools"][number];
  usage: Usage;
  present: string;
  onLook: (address: string) => void;
  onRemove: ((range: string) => void) | undefined;
}

const LARGEST = BigInt(Number.MAX_SAFE_INTEGER);

function Pool({ pool, usage, present, onLook, onRemove }: PoolProps) {
  const range = parseRange(`${pool.start}-${pool.end}`);
  if (!range) return null;
  const size = rangeSize(range);
  const taken = usage.taken(range);
  const total = size > LARGEST ? "many" : format.number(Number(size));
  return (
    <div class="pool">
      <div class="pool-head">
        <h4>
          Pool {pool.name || rangeText(range)} {pool.name && <span class="none">{rangeText(range)}</span>}
        </h4>
        {onRemove && (
          <button
            type="button"
            class="quiet"
            aria-label={`Remove pool ${rangeText(range)}`}
            onClick={() => onRemove(rangeText(range))}
          >
            remove
          </button>
        )}
        <Meter
          part={Number(taken)}
          total={Number(size)}
          label={`${format.number(Number(taken))} of ${total} not free (${format.percent(Number(taken), Number(size))})`}
        />
      </div>
      <PoolMap range={range} usage={usage} present={present} onLook={onLook} />
    </div>
  );
}
