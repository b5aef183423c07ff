import { AddressFacts } from "../parts/addressfacts.tsx";
import { useTitle } from "../parts/hooks.ts";
import { route } from "../router.ts";

/** Who has an address, a MAC address, a CIDR or a name's addresses, in all networks. */
export function AddressesPage() {
  const of = route.value.query.get("of") ?? "";
  useTitle(of || "Addresses");
  return (
    <>
      <header class="head">
        <h1>{of ? `Addresses: ${of}` : "Addresses"}</h1>
      </header>
      {of ? (
        <AddressFacts of={of} level="h2" />
      ) : (
        <p class="empty">Search for an address, a MAC address or a CIDR: press /.</p>
      )}
    </>
  );
}
