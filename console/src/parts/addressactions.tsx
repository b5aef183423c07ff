// What can be done with the address that was chosen in the map of a pool.

import type { ComponentChildren } from "preact";
import { may, maySome } from "../api.ts";
import type { Ruled } from "../logic/access.ts";
import type { Cell } from "../logic/addresses.ts";
import { NEW_INSTANCE, href } from "../logic/routes.ts";
import { instances, nodes } from "../store.ts";
import { withLoaded } from "./lazy.tsx";

interface AddressActionsProps {
  network: Ruled & { readonly name: string };
  address: string;
  cell: Cell;
  nic: number | null; // of the instance that has the address
}

const load = () => import("../networkedits.tsx");

/** Whether the user may change the NICs of an instance in a network. */
function mayChange(name: string, network: Ruled): boolean {
  const instance = instances.rows.value.find((row) => row.name === name);
  if (!instance || !may("connect", network)) return false;
  const group = nodes.rows.value.find((node) => node.name === instance.pnode)?.group;
  return may("manage", { ...instance, "pnode.group": group });
}

export function AddressActions({ network, address, cell, nic }: AddressActionsProps) {
  if (cell.state === "free") {
    const isForNew = maySome("populate") && may("connect", network);
    const isReservable = may("configure", network);
    if (!isForNew && !isReservable) return null;
    return (
      <Buttons>
        {isForNew && (
          <a class="button" href={href([NEW_INSTANCE], { network: network.name, address })}>
            New instance with this address
          </a>
        )}
        {isReservable && (
          <button type="button" onClick={() => withLoaded(load, (edits) => edits.reserve(network.name, address))}>
            Reserve…
          </button>
        )}
      </Buttons>
    );
  }
  if (cell.state === "external") {
    if (!may("configure", network)) return null;
    const release = () => withLoaded(load, (edits) => edits.releaseReservation(network.name, address));
    return (
      <Buttons>
        <button type="button" onClick={release}>
          Release the reservation…
        </button>
      </Buttons>
    );
  }
  if (cell.state !== "used" || nic === null || !mayChange(cell.owner, network)) return null;
  return (
    <Buttons>
      <button type="button" onClick={() => withLoaded(load, (edits) => edits.releaseAddress(address, cell.owner, nic))}>
        Release it…
      </button>
    </Buttons>
  );
}

function Buttons({ children }: { children: ComponentChildren }) {
  return (
    <div class="actions" role="group" aria-label="Address">
      {children}
    </div>
  );
}
