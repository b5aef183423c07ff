// Ports, and among them the claims of Kubernetes: what has addresses besides the instances.

import { query } from "../api.ts";
import * as format from "../logic/format.ts";
import { type Port, claimOf, deviceText, ownerText, searchText } from "../logic/ports.ts";
import { href } from "../logic/routes.ts";
import { Filtered, naturalKey, orderText, parseOrder, remembered, sorted } from "../logic/rows.ts";
import { FilterBox, useFilter } from "../parts/filter.tsx";
import { useReading, useTitle } from "../parts/hooks.ts";
import { type Column, Table } from "../parts/table.tsx";
import { Commas, Failure, Loading, None } from "../parts/text.tsx";
import { replaceQuery, route } from "../router.ts";

const FIELDS = ["uuid", "name", "network", "mac", "ip", "device_id", "device_owner", "project", "description", "tags"];
const OF_INSTANCES = ["=", "device_owner", "compute:gantry"];

const COLUMNS: readonly Column<Port>[] = [
  {
    name: "owner",
    title: "Claim or port",
    sort: (row) => naturalKey(ownerText(row)),
    cell: (row) => <span title={row.uuid}>{ownerText(row)}</span>,
  },
  {
    name: "addresses",
    title: "Addresses",
    width: "14rem",
    sort: (row) => naturalKey(row.ip[0] ?? ""),
    cell: (row) =>
      row.ip.length ? (
        <Commas>
          {row.ip.map((address) => (
            <a key={address} href={href(["addresses"], { of: address })}>
              {address}
            </a>
          ))}
        </Commas>
      ) : (
        <None />
      ),
  },
  {
    name: "network",
    title: "Network",
    width: "9rem",
    rank: "middle",
    sort: (row) => naturalKey(row.network),
    cell: (row) => <a href={href(["networks", row.network])}>{row.network}</a>,
  },
  {
    name: "device",
    title: "Pool or device",
    rank: "low",
    sort: (row) => naturalKey(deviceText(row)),
    cell: (row) => deviceText(row) || <None />,
  },
  {
    name: "mac",
    title: "MAC",
    width: "11rem",
    rank: "low",
    sort: (row) => row.mac,
    cell: (row) => <code>{row.mac}</code>,
  },
  {
    name: "project",
    title: "Project",
    width: "8rem",
    rank: "low",
    sort: (row) => naturalKey(row.project),
    cell: (row) => row.project || <None />,
  },
];

const SORTS = new Map(COLUMNS.map((column) => [column.name, column.sort]));
const FALLBACK = { column: "owner", direction: "ascending" } as const;
const VIEWS = [
  ["", "All"],
  ["claims", "Claims"],
  ["ports", "Other ports"],
] as const;

const filtered = new Filtered<Port>(remembered(searchText));

function isIn(view: string, port: Port): boolean {
  return view === "" || (view === "claims") === (claimOf(port) !== null);
}

export function PortsPage() {
  useTitle("Claims and ports");
  const { value, failure } = useReading(
    () => query<Port>("port", FIELDS, ["!", OF_INSTANCES]),
    [],
    [
      ["port", ""],
      ["network", ""],
    ],
  );
  const text = useFilter();
  const address = route.value.query;
  const view = address.get("view") ?? "";
  const order = parseOrder(address.get("sort"), FALLBACK);
  const rows = value && filtered.rows(value, text.value).filter((port) => isIn(view, port));
  return (
    <>
      <header class="head">
        <h1>Claims and ports</h1>
        <p class="about" role="status">
          {rows && format.plural(rows.length, view === "claims" ? "claim" : "port")}
        </p>
      </header>
      <div class="tools">
        <FilterBox text={text} label="Filter claims and ports" placeholder="claim, address, network, pool, MAC" />
        <div class="chips" role="group" aria-label="View">
          {VIEWS.map(([each, title]) => (
            <button key={each} type="button" aria-pressed={each === view} onClick={() => replaceQuery({ view: each })}>
              {title}
            </button>
          ))}
        </div>
      </div>
      {failure && <Failure text={failure} />}
      {!rows && !failure && <Loading what="ports" />}
      {rows && value?.length === 0 && (
        <p class="empty">
          Nothing but instances has addresses. Claims of Kubernetes are here if their pool is bound to a network.
        </p>
      )}
      {rows && value !== undefined && value.length > 0 && (
        <Table
          caption="Claims and ports"
          fills={rows.length > 200}
          columns={COLUMNS}
          rows={sorted(rows, SORTS.get(order.column) ?? ((row) => naturalKey(ownerText(row))), order.direction)}
          rowKey={(row) => row.uuid}
          order={order}
          onOrder={(next) => replaceQuery({ sort: orderText(next) })}
          empty="Nothing matches the filter."
        />
      )}
    </>
  );
}
