// What can be done with the address that was chosen in the map of a pool.

import type { Cell } from "../logic/addresses.ts";
import { NEW, href } from "../logic/routes.ts";
import { withLoaded } from "./lazy.tsx";

interface AddressActionsProps {
  network: string;
  address: string;
  cell: Cell;
  nic: number | null; // of the instance that has the address
}

const load = () => import("../networkedits.tsx");

export function AddressActions({ network, address, cell, nic }: AddressActionsProps) {
  if (cell.state === "free") {
    return (
      <div class="actions" role="group" aria-label="Address">
        <a class="button" href={href(["instances", NEW], { network, address })}>
          New instance with this address
        </a>
        <button type="button" onClick={() => withLoaded(load, (edits) => edits.reserve(network, address))}>
          Reserve…
        </button>
      </div>
    );
  }
  if (cell.state === "external") {
    return (
      <div class="actions" role="group" aria-label="Address">
        <button type="button" onClick={() => withLoaded(load, (edits) => edits.releaseReservation(network, address))}>
          Release the reservation…
        </button>
      </div>
    );
  }
  if (cell.state !== "used" || nic === null) return null;
  return (
    <div class="actions" role="group" aria-label="Address">
      <button type="button" onClick={() => withLoaded(load, (edits) => edits.releaseAddress(address, cell.owner, nic))}>
        Release it…
      </button>
    </div>
  );
}
