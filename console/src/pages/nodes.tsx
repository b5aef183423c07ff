import * as format from "../logic/format.ts";
import { href } from "../logic/routes.ts";
import { matches, naturalKey, orderText, parseOrder, sorted, terms } from "../logic/rows.ts";
import { type Group, type Node, byName, nodeRole, nodeStatus } from "../model.ts";
import { FilterBox, useFilter } from "../parts/filter.tsx";
import { useLists, useTitle } from "../parts/hooks.ts";
import { Placement } from "../parts/placement.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { Badge, Failure, Loading, Meter, None, Scrolling } from "../parts/text.tsx";
import { replaceQuery, route } from "../router.ts";
import { groups, nodes } from "../store.ts";

export function NodeMemory({ node }: { node: Node }) {
  return <Amount free={node.mfree} total={node.mtotal} />;
}

export function NodeDisk({ node }: { node: Node }) {
  return <Amount free={node.dfree} total={node.dtotal} />;
}

function Amount({ free, total }: { free: number | null; total: number | null }) {
  if (total === null || !total) return <None />;
  const used = total - (free ?? total);
  return <Meter part={used} total={total} label={`${format.size(used)} of ${format.size(total)}`} />;
}

function share(free: number | null, total: number | null): number | null {
  return total ? 1 - (free ?? total) / total : null;
}

const COLUMNS: readonly Column<Node>[] = [
  {
    name: "name",
    title: "Name",
    sort: (row) => naturalKey(row.name),
    cell: (row) => <a href={href(["nodes", row.name])}>{row.name}</a>,
  },
  {
    name: "status",
    title: "Status",
    width: "7rem",
    sort: (row) => nodeStatus(row).word,
    cell: (row) => <Badge status={nodeStatus(row)} />,
  },
  {
    name: "role",
    title: "Role",
    width: "9.5rem",
    rank: "low",
    sort: (row) => nodeRole(row.role),
    cell: (row) => nodeRole(row.role),
  },
  {
    name: "group",
    title: "Group",
    width: "8rem",
    rank: "low",
    sort: (row) => naturalKey(row.group),
    cell: (row) => <a href={href(["nodes"], { group: row.group })}>{row.group}</a>,
  },
  {
    name: "instances",
    title: "Instances",
    width: "6.5rem",
    isNumber: true,
    first: "descending",
    sort: (row) => row.pinst_cnt,
    cell: (row) => format.number(row.pinst_cnt),
  },
  {
    name: "memory",
    title: "Memory in use",
    width: "15rem",
    rank: "middle",
    first: "descending",
    sort: (row) => share(row.mfree, row.mtotal),
    cell: (row) => <NodeMemory node={row} />,
  },
  {
    name: "disk",
    title: "Disk in use",
    width: "15rem",
    rank: "low",
    first: "descending",
    sort: (row) => share(row.dfree, row.dtotal),
    cell: (row) => <NodeDisk node={row} />,
  },
];

const PLACEMENT = "placement";
const VIEWS = [
  ["", "List"],
  [PLACEMENT, "Placement of instances"],
] as const;

const SORTS = new Map(COLUMNS.map((column) => [column.name, column.sort]));
const FALLBACK = { column: "name", direction: "ascending" } as const;

function searchText(node: Node): string {
  return `${node.name} ${nodeStatus(node).word} ${nodeRole(node.role)} ${node.group} ${node.pip}`.toLowerCase();
}

export function NodesPage() {
  useTitle("Nodes");
  useLists(nodes, groups);
  const { query } = route.value;
  const text = useFilter();
  const group = query.get("group") ?? "";
  const present = query.get("view") ?? "";
  const words = terms(text.value);
  const order = parseOrder(query.get("sort"), FALLBACK);
  const found = nodes.rows.value.filter((node) => (!group || node.group === group) && matches(searchText(node), words));
  if (nodes.failure.value && !nodes.ready.value) return <Failure text={nodes.failure.value} />;
  return (
    <>
      <header class="head">
        <h1>Nodes</h1>
        <p class="about" role="status">
          {nodes.ready.value && `${format.plural(found.length, "node")}${group ? ` of group ${group}` : ""}`}
        </p>
      </header>
      <div class="tools">
        <FilterBox text={text} label="Filter nodes" placeholder="name, status, role, group, address" />
        <div class="chips" role="group" aria-label="View">
          {VIEWS.map(([view, title]) => (
            <button key={view} type="button" aria-pressed={view === present} onClick={() => replaceQuery({ view })}>
              {title}
            </button>
          ))}
        </div>
      </div>
      {!nodes.ready.value ? (
        <Loading what="nodes" />
      ) : present === PLACEMENT ? (
        <Placement nodes={byName(found)} />
      ) : (
        <Table
          caption="Nodes"
          fills={found.length > 200}
          columns={COLUMNS}
          rows={sorted(found, SORTS.get(order.column) ?? ((row) => naturalKey(row.name)), order.direction)}
          rowKey={nodes.key}
          order={order}
          onOrder={(next) => replaceQuery({ sort: orderText(next) })}
          empty="No node matches the filter."
        />
      )}
      <Groups present={group} />
    </>
  );
}

function Groups({ present }: { present: string }) {
  const rows: readonly Group[] = byName(groups.rows.value);
  return (
    <section>
      <h2>Node groups</h2>
      <Scrolling label="Node groups">
        <table>
          <thead>
            <tr>
              <th scope="col">Group</th>
              <th scope="col" class="number">
                Nodes
              </th>
              <th scope="col" class="number">
                Instances
              </th>
              <th scope="col">Allocation policy</th>
            </tr>
          </thead>
          <tbody>
            {rows.map((group) => (
              <tr key={group.uuid} class={group.name === present ? "chosen" : ""}>
                <td>
                  <a href={href(["nodes"], { group: group.name })}>{group.name}</a>
                </td>
                <td class="number">{format.number(group.node_cnt)}</td>
                <td class="number">{format.number(group.pinst_cnt)}</td>
                <td>{group.alloc_policy}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scrolling>
      {present && (
        <p>
          <a href={href(["nodes"])}>Show the nodes of all groups</a>
        </p>
      )}
    </section>
  );
}
