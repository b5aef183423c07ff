// The frame of all pages: the head with search and navigation, the page, the strip of jobs.

import { useEffect, useRef } from "preact/hooks";
import { explanation, logOut, session } from "./api.ts";
import { connection } from "./events.ts";
import { showKeys } from "./keys.tsx";
import { NEW_INSTANCE, NEW_NETWORK, href, placeOf } from "./logic/routes.ts";
import { AddressesPage } from "./pages/addresses.tsx";
import { ConsolePage } from "./pages/console.tsx";
import { InstancePage } from "./pages/instance.tsx";
import { InstancesPage } from "./pages/instances.tsx";
import { JobPage } from "./pages/job.tsx";
import { JobsPage } from "./pages/jobs.tsx";
import { LoginAgain, LoginPage } from "./pages/login.tsx";
import { NetworkPage } from "./pages/network.tsx";
import { NetworksPage } from "./pages/networks.tsx";
import { NodePage } from "./pages/node.tsx";
import { NodesPage } from "./pages/nodes.tsx";
import { OverviewPage } from "./pages/overview.tsx";
import { DialogPlace } from "./parts/dialog.tsx";
import { lazy } from "./parts/lazy.tsx";
import { Notices, notify } from "./parts/notices.tsx";
import { Search } from "./parts/search.tsx";
import { TaskStrip } from "./parts/strip.tsx";
import { route } from "./router.ts";
import { cluster, loadCluster, reloadAll } from "./store.ts";
import { type Theme, theme } from "./theme.ts";

const PLACES = [
  ["", "Overview"],
  ["instances", "Instances"],
  ["nodes", "Nodes"],
  ["networks", "Networks"],
  ["segments", "Segments"],
  ["backups", "Backups"],
  ["jobs", "Jobs"],
  ["settings", "Settings"],
] as const;

const CreatePage = lazy(async () => (await import("./pages/create.tsx")).CreatePage);
const CreateNetworkPage = lazy(async () => (await import("./pages/createnetwork.tsx")).CreateNetworkPage);
const SegmentsPage = lazy(async () => (await import("./pages/segments.tsx")).SegmentsPage);
const PortsPage = lazy(async () => (await import("./pages/ports.tsx")).PortsPage);
const BackupsPage = lazy(async () => (await import("./pages/backups.tsx")).BackupsPage);
const AuditPage = lazy(async () => (await import("./pages/audit.tsx")).AuditPage);
const TokensPage = lazy(async () => (await import("./pages/tokens.tsx")).TokensPage);
const WebhooksPage = lazy(async () => (await import("./pages/webhooks.tsx")).WebhooksPage);
const SettingsPage = lazy(async () => (await import("./pages/settings.tsx")).SettingsPage);

export function App() {
  if (session.value === undefined) return null;
  if (session.value === null) return <LoginPage />;
  return <Frame />;
}

function Frame() {
  useEffect(() => {
    void loadCluster();
  }, []);
  return (
    <>
      <a class="skip" href="#main" onClick={toMain}>
        To the page
      </a>
      <Head />
      <Main />
      <Notices />
      <TaskStrip />
      <DialogPlace />
      <LoginAgain />
    </>
  );
}

/** The address has the page, so a jump to a part of it must not change it. */
function toMain(event: Event): void {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

function Head() {
  const place = placeOf(route.value);
  return (
    <header class="top">
      <a class="brand" href={href([])}>
        Gantry <span class="none">{cluster.value?.name}</span>
      </a>
      <nav aria-label="Pages">
        {PLACES.map(([each, title]) => (
          <a key={each} href={href(each ? [each] : [])} aria-current={each === place ? "page" : undefined}>
            {title}
          </a>
        ))}
      </nav>
      <Search />
      <Connection />
      <div class="person">
        <button type="button" class="quiet" aria-label="Keys" title="Keys (?)" onClick={showKeys}>
          ?
        </button>
        <select
          aria-label="Theme"
          title="Theme"
          value={theme.value}
          onChange={(event) => {
            theme.value = event.currentTarget.value as Theme;
          }}
        >
          <option value="system">System</option>
          <option value="light">Light</option>
          <option value="dark">Dark</option>
        </select>
        <button
          type="button"
          class="quiet"
          title={`Log out ${session.value?.user}`}
          onClick={() => void logOut().catch((error: unknown) => notify("bad", explanation(error)))}
        >
          <span class="user">{session.value?.user}</span> Log out
        </button>
      </div>
    </header>
  );
}

const CONNECTIONS = {
  connecting: { tone: "busy", word: "connecting", about: "The event stream is being opened" },
  live: { tone: "good", word: "live", about: "Changes appear as they happen" },
  lost: { tone: "bad", word: "not live", about: "The event stream is interrupted; it continues where it stopped" },
} as const;

/** Whether the page is live; a click reads again also what only nodes know, which has no events. */
function Connection() {
  const { tone, word, about } = CONNECTIONS[connection.value];
  return (
    <span role="status">
      <button
        type="button"
        class={`quiet badge ${tone}`}
        title={`${about}. Click to read everything again (r)`}
        onClick={() => void reloadAll()}
      >
        {word}
      </button>
    </span>
  );
}

function Main() {
  const element = useRef<HTMLElement>(null);
  const path = route.value.parts.join("/");
  const isFirst = useRef(true);
  useEffect(() => {
    if (isFirst.current) isFirst.current = false;
    else element.current?.focus({ preventScroll: true });
    element.current?.scrollTo(0, 0);
  }, [path]);
  return (
    <main id="main" ref={element} tabIndex={-1} key={path}>
      <Page />
    </main>
  );
}

function Page() {
  const [place = "", name, part] = route.value.parts;
  if (place === "instances" && name && part === "console") return <ConsolePage name={name} />;
  switch (place) {
    case "":
      return <OverviewPage />;
    case "instances":
      return name ? <InstancePage name={name} /> : <InstancesPage />;
    case NEW_INSTANCE:
      return <CreatePage />;
    case "nodes":
      return name ? <NodePage name={name} /> : <NodesPage />;
    case "networks":
      return name ? <NetworkPage name={name} /> : <NetworksPage />;
    case NEW_NETWORK:
      return <CreateNetworkPage />;
    case "jobs":
      return name ? <JobPage id={name} /> : <JobsPage />;
    case "ports":
      return <PortsPage />;
    case "segments":
      return <SegmentsPage />;
    case "backups":
      return <BackupsPage />;
    case "audit":
      return <AuditPage />;
    case "settings":
      return <SettingsPage />;
    case "tokens":
      return <TokensPage />;
    case "webhooks":
      return <WebhooksPage />;
    case "addresses":
      return <AddressesPage />;
    default:
      return (
        <>
          <h1>No such page</h1>
          <p>
            <a href={href([])}>To the overview</a>
          </p>
        </>
      );
  }
}
