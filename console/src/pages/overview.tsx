import type { ComponentChildren } from "preact";
import * as format from "../logic/format.ts";
import {
  capacity,
  concerns,
  countByStatus,
  countNodes,
  failedLately,
  fullest,
  fullestNodes,
} from "../logic/overview.ts";
import { href } from "../logic/routes.ts";
import { type Instance, hasEnded, instanceStatus } from "../model.ts";
import { useLists, useTitle } from "../parts/hooks.ts";
import { Failure, Loading, Meter, None } from "../parts/text.tsx";
import { cluster, clusterFailure, instances, jobs, networks, nodes, now } from "../store.ts";
import { NodeMemory } from "./nodes.tsx";

const SHOWN = 6;

export function OverviewPage() {
  useTitle("Overview");
  useLists(nodes, instances, networks, jobs);
  const known = cluster.value;
  const failures = [clusterFailure.value, ...[nodes, instances, networks, jobs].map((list) => list.failure.value)];
  const failure = failures.find(Boolean);
  return (
    <>
      <header class="head">
        <h1>{known?.name ?? "Overview"}</h1>
        {known && (
          <p class="about">
            Master <a href={href(["nodes", known.master])}>{known.master}</a> · Gantry {known.software_version}
          </p>
        )}
      </header>
      {failure && <Failure text={failure} />}
      <Attention />
      <div class="cards">
        <NodesCard />
        <InstancesCard />
        <JobsCard />
        <PoolsCard />
      </div>
    </>
  );
}

function Card({ title, link, children }: { title: string; link: string; children: ComponentChildren }) {
  return (
    <section class="card">
      <h2>
        <a href={link}>{title}</a>
      </h2>
      {children}
    </section>
  );
}

function Attention() {
  const lists = [nodes, instances, networks, jobs];
  if (!cluster.value || !lists.every((list) => list.ready.value)) {
    return clusterFailure.value ? null : <Loading what="the cluster" />;
  }
  const found = concerns({
    nodes: nodes.rows.value,
    instances: instances.rows.value,
    networks: networks.rows.value,
    jobs: jobs.rows.value,
    thresholds: cluster.value.network_thresholds,
    now: now.value,
  });
  return (
    <section class="attention" aria-label="What needs attention">
      {found.length === 0 ? (
        <p class="calm">Nothing needs attention.</p>
      ) : (
        <ul>
          {found.map((concern) => (
            <li key={concern.text} class={concern.tone}>
              <span class="mark">{concern.tone === "bad" ? "Error" : "Warning"}</span>
              <a href={concern.link}>{concern.text}</a>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

function NodesCard() {
  const rows = nodes.rows.value;
  const { memory, disk } = capacity(rows);
  return (
    <Card title="Nodes" link={href(["nodes"])}>
      <p class="big">
        {countNodes(rows).map(({ word, count }, i) => (
          <span key={word}>
            {i > 0 && " · "}
            <a href={href(["nodes"], { q: word })}>
              <strong>{format.number(count)}</strong> {word}
            </a>
          </span>
        ))}
      </p>
      <p class="row">
        <span>Memory</span>
        <Meter
          part={memory.used}
          total={memory.total}
          label={`${format.size(memory.used)} of ${format.size(memory.total)}`}
        />
      </p>
      {disk.total > 0 && (
        <p class="row">
          <span>Disk</span>
          <Meter
            part={disk.used}
            total={disk.total}
            label={`${format.size(disk.used)} of ${format.size(disk.total)}`}
          />
        </p>
      )}
      <h3>Memory by node</h3>
      {fullestNodes(rows)
        .slice(0, SHOWN)
        .map((node) => (
          <p class="row" key={node.uuid}>
            <a href={href(["nodes", node.name])}>{node.name}</a>
            <NodeMemory node={node} />
          </p>
        ))}
    </Card>
  );
}

function InstancesCard() {
  const rows: readonly Instance[] = instances.rows.value;
  const counts = countByStatus(rows);
  return (
    <Card title="Instances" link={href(["instances"])}>
      <p class="big">
        <strong>{format.number(rows.length)}</strong> {rows.length === 1 ? "instance" : "instances"}
      </p>
      <div class="stack" aria-hidden="true">
        {counts.map(({ status, count }) => (
          <span
            key={status}
            class={instanceStatus(status).tone}
            style={{ flexGrow: String(count) }}
            title={`${format.number(count)} ${instanceStatus(status).word}`}
          />
        ))}
      </div>
      <ul class="counts">
        {counts.map(({ status, count }) => (
          <li key={status}>
            <a href={href(["instances"], { status })}>
              <span class={`badge ${instanceStatus(status).tone}`}>{instanceStatus(status).word}</span>
              <span>{format.number(count)}</span>
            </a>
          </li>
        ))}
      </ul>
    </Card>
  );
}

function JobsCard() {
  const rows = jobs.rows.value;
  const running = rows.filter((job) => job.status === "running" || job.status === "canceling").length;
  const waiting = rows.filter((job) => !hasEnded(job)).length - running;
  const failed = failedLately(rows, now.value).length;
  return (
    <Card title="Jobs" link={href(["jobs"])}>
      <ul class="counts">
        <li>
          <a href={href(["jobs"], { status: "running" })}>
            <span class={`badge ${running ? "busy" : "idle"}`}>running</span>
            <span>{format.number(running)}</span>
          </a>
        </li>
        <li>
          <a href={href(["jobs"], { status: "waiting" })}>
            <span class={`badge ${waiting ? "busy" : "idle"}`}>waiting or queued</span>
            <span>{format.number(waiting)}</span>
          </a>
        </li>
        <li>
          <a href={href(["jobs"], { status: "error" })}>
            <span class={`badge ${failed ? "bad" : "idle"}`}>failed in 24 hours</span>
            <span>{format.number(failed)}</span>
          </a>
        </li>
      </ul>
    </Card>
  );
}

function PoolsCard() {
  const rows = fullest(networks.rows.value);
  return (
    <Card title="Networks" link={href(["networks"])}>
      {rows.length === 0 && (
        <p>
          <None>No network has a pool.</None>
        </p>
      )}
      {rows.slice(0, SHOWN).map((network) => (
        <p class="row" key={network.uuid}>
          <a href={href(["networks", network.name])}>{network.name}</a>
          <Meter
            part={network.utilization ?? 0}
            total={100}
            label={`${format.share(network.utilization ?? 0)} in use, ${format.number(network.free_count)} free`}
          />
        </p>
      ))}
      {rows.length > SHOWN && (
        <p>
          <a href={href(["networks"])}>All {format.plural(rows.length, "network")} with pools</a>
        </p>
      )}
    </Card>
  );
}
