// Ports: MAC and addresses of something other than a NIC of an instance. Some belong to claims of Kubernetes.

export interface Port {
  readonly uuid: string;
  readonly name: string;
  readonly network: string;
  readonly mac: string;
  readonly ip: readonly string[];
  readonly device_id: string;
  readonly device_owner: string;
  readonly project: string;
  readonly description: string;
  readonly tags: readonly string[];
}

export interface Claim {
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
  readonly pool: string;
  readonly site: string; // the name of the API server
}

const CLAIMS = "kubernetes:";

/** The claim that a port reserves its address for, or null: in the form in which the controllers write it. */
export function claimOf(port: Port): Claim | null {
  const [site, namespace, poolNamespace] = port.device_id.split("/");
  const [pool] = port.tags;
  if (!port.device_owner.startsWith(CLAIMS) || !site || !namespace || !poolNamespace || !pool) return null;
  return {
    kind: port.device_owner.slice(CLAIMS.length),
    namespace,
    name: port.description,
    pool: poolNamespace === namespace ? pool : `${poolNamespace}/${pool}`,
    site,
  };
}

/** What has the port, in words. */
export function ownerText(port: Port): string {
  const claim = claimOf(port);
  if (claim) return `${claim.kind} ${claim.namespace}/${claim.name}`;
  return port.name || port.description || port.device_id || port.uuid;
}

/** Whose the port is, in words: the pool of a claim, or the device's kind and id. */
export function deviceText(port: Port): string {
  const claim = claimOf(port);
  if (claim) return `pool ${claim.pool}, API server ${claim.site}`;
  return [port.device_owner, port.device_id].filter(Boolean).join(" ");
}

export function searchText(port: Port): string {
  const parts = [ownerText(port), deviceText(port), port.network, port.mac, port.project, ...port.ip];
  return parts.join(" ").toLowerCase();
}
