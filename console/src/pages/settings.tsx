// The settings of the cluster, to read: gnt-cluster modify changes them.

import { may } from "../api.ts";
import * as format from "../logic/format.ts";
import { type Policy, type Spec, allowedWords } from "../logic/policy.ts";
import { href } from "../logic/routes.ts";
import { byName, nodeRole } from "../model.ts";
import { useAnswer, useLists, useTitle } from "../parts/hooks.ts";
import { Parameters } from "../parts/parameters.tsx";
import { Ago, Commas, Fact, Facts, Failure, Loading, None, Scrolling } from "../parts/text.tsx";
import { nodes } from "../store.ts";

type Values = Readonly<Record<string, unknown>>;

interface Info extends Values {
  readonly name: string;
  readonly master: string;
  readonly uuid: string;
  readonly ctime: number;
  readonly tags: readonly string[];
  readonly software_version: string;
  readonly protocol_version: number;
  readonly config_version: number;
  readonly os_api_version: number;
  readonly enabled_hypervisors: readonly string[];
  readonly enabled_disk_templates: readonly string[];
  readonly replication: string;
  readonly candidate_pool_size: number;
  readonly ipolicy: Policy;
  readonly ipam_driver: string;
  readonly file_storage_dir: string;
  readonly volume_group_name: string | null;
  readonly hvparams: Readonly<Record<string, Values>>;
  readonly beparams: { readonly default: Values };
  readonly nicparams: { readonly default: Values };
  readonly ndparams: Values;
  readonly diskparams: Readonly<Record<string, Values>>;
  readonly own_parameters: {
    readonly hvparams: Readonly<Record<string, Values>>;
    readonly beparams: { readonly default?: Values };
    readonly nicparams: { readonly default?: Values };
    readonly ndparams: Values;
    readonly diskparams: Readonly<Record<string, Values>>;
  };
}

export function SettingsPage() {
  useTitle("Settings");
  useLists(nodes);
  const { value, failure } = useAnswer<Info>("/2/info", [["cluster", ""]]);
  return (
    <>
      <header class="head">
        <h1>Settings</h1>
        <p class="about">
          To change them: gnt-cluster modify. For programs: <a href={href(["tokens"])}>API tokens</a>
          {may("administer") && (
            <>
              {" "}
              and <a href={href(["webhooks"])}>webhooks</a>
            </>
          )}
        </p>
      </header>
      {failure && <Failure text={failure} />}
      {!value && !failure && <Loading what="the settings" />}
      {value && <Body info={value} />}
    </>
  );
}

function Body({ info }: { info: Info }) {
  const own = info.own_parameters;
  return (
    <>
      <div class="columns">
        <section>
          <h2>Cluster</h2>
          <ClusterFacts info={info} />
        </section>
        <section>
          <h2>Master candidates and certificates</h2>
          <Candidates />
        </section>
      </div>
      <section>
        <h2>Instance policy</h2>
        <PolicyFacts policy={info.ipolicy} />
      </section>
      <section>
        <h2>Parameters</h2>
        <Parameters title="Backend" filled={info.beparams.default} custom={own.beparams.default ?? {}} />
        <Parameters title="NICs" filled={info.nicparams.default} custom={own.nicparams.default ?? {}} />
        <Parameters title="Nodes" filled={info.ndparams} custom={own.ndparams} />
        {info.enabled_hypervisors.map((name) => (
          <Parameters
            key={name}
            title={`Hypervisor ${name}`}
            filled={info.hvparams[name] ?? {}}
            custom={own.hvparams[name] ?? {}}
          />
        ))}
        {info.enabled_disk_templates.map((name) => (
          <Parameters
            key={name}
            title={`Disk template ${name}`}
            filled={info.diskparams[name] ?? {}}
            custom={own.diskparams[name] ?? {}}
          />
        ))}
      </section>
      <section>
        <h2>All settings</h2>
        <Parameters title="Cluster" filled={plain(info)} custom={{}} />
      </section>
    </>
  );
}

/** The settings that are single values or lists of names; the structured ones have sections of their own. */
function plain(info: Info): Values {
  const isPlain = (value: unknown) =>
    value === null ||
    typeof value !== "object" ||
    (Array.isArray(value) && value.every((each) => typeof each === "string"));
  const entries = Object.entries(info).filter(([, value]) => isPlain(value));
  return Object.fromEntries(entries.map(([name, value]) => [name, Array.isArray(value) ? value.join(", ") : value]));
}

function ClusterFacts({ info }: { info: Info }) {
  return (
    <Facts>
      <Fact name="Name">{info.name}</Fact>
      <Fact name="Master">
        <a href={href(["nodes", info.master])}>{info.master}</a>
      </Fact>
      <Fact name="Version of Gantry">{info.software_version}</Fact>
      <Fact name="Versions of interfaces">
        protocol {info.protocol_version}, configuration {info.config_version}, operating systems {info.os_api_version}
      </Fact>
      <Fact name="Hypervisors">{info.enabled_hypervisors.join(", ")}</Fact>
      <Fact name="Disk templates">{info.enabled_disk_templates.join(", ")}</Fact>
      <Fact name="Replication">{format.value(info.replication)}</Fact>
      <Fact name="Addresses kept by">{info.ipam_driver}</Fact>
      <Fact name="File storage">{info.file_storage_dir || <None />}</Fact>
      <Fact name="Volume group">{info.volume_group_name || <None />}</Fact>
      <Fact name="Created">
        <Ago time={info.ctime} />
      </Fact>
      <Fact name="Tags">{info.tags.length ? info.tags.map((tag) => <span class="tag">{tag}</span>) : <None />}</Fact>
      <Fact name="UUID">
        <code>{info.uuid}</code>
      </Fact>
    </Facts>
  );
}

function Candidates() {
  const rows = byName(nodes.rows.value);
  const candidates = rows.filter((node) => node.role === "M" || node.role === "C");
  return (
    <>
      <p class="about">
        <Commas>
          {candidates.map((node) => (
            <>
              <a href={href(["nodes", node.name])}>{node.name}</a> ({nodeRole(node.role)})
            </>
          ))}
        </Commas>
      </p>
      <Scrolling label="Certificates of nodes">
        <table>
          <thead>
            <tr>
              <th scope="col">Node</th>
              <th scope="col">Certificate ends</th>
            </tr>
          </thead>
          <tbody>
            {rows.map((node) => (
              <tr key={node.uuid}>
                <td>
                  <a href={href(["nodes", node.name])}>{node.name}</a>
                </td>
                <td>
                  <Ago time={node.certificate_end} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scrolling>
    </>
  );
}

const SPECS: readonly (readonly [spec: Spec, name: string])[] = [
  ["memory-size", "Memory"],
  ["cpu-count", "CPUs"],
  ["disk-size", "Size of each disk"],
  ["disk-count", "Disks"],
  ["nic-count", "NICs"],
];

function PolicyFacts({ policy }: { policy: Policy }) {
  return (
    <Facts isWide>
      {SPECS.map(([spec, name]) => (
        <Fact key={spec} name={name}>
          {allowedWords(policy, spec) || <None>any</None>}
        </Fact>
      ))}
      <Fact name="Disk templates">{policy["disk-templates"]?.join(", ") || <None>any</None>}</Fact>
    </Facts>
  );
}
