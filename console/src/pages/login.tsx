// The log-in: the first page, and over any page when the session has ended.

import { useEffect, useState } from "preact/hooks";
import { type LoginMethods, adoptSession, explanation, logIn, loginMethods, session, sessionEnded } from "../api.ts";
import { start } from "../events.ts";
import { Dialog } from "../parts/dialog.tsx";

function LoginForm({ user: known, onDone }: { user: string; onDone: () => void }) {
  const [user, setUser] = useState(known);
  const [password, setPassword] = useState("");
  const [failure, setFailure] = useState("");
  const [isBusy, setBusy] = useState(false);
  async function send(event: Event): Promise<void> {
    event.preventDefault();
    setBusy(true);
    setFailure("");
    try {
      await logIn(user, password);
      onDone();
    } catch (error) {
      setFailure(explanation(error));
    } finally {
      setBusy(false);
    }
  }
  return (
    <form class="login" onSubmit={(event) => void send(event)}>
      <label class="field">
        <span>User</span>
        <input
          name="user"
          autocomplete="username"
          autocapitalize="none"
          spellcheck={false}
          required
          autofocus={!known}
          value={user}
          onInput={(event) => setUser(event.currentTarget.value)}
        />
      </label>
      <label class="field">
        <span>Password</span>
        <input
          name="password"
          type="password"
          autocomplete="current-password"
          required
          autofocus={Boolean(known)}
          value={password}
          onInput={(event) => setPassword(event.currentTarget.value)}
        />
      </label>
      <p class="failure" role="alert">
        {failure}
      </p>
      <button type="submit" class="primary" disabled={isBusy}>
        {isBusy ? "Logging in…" : "Log in"}
      </button>
    </form>
  );
}

/**
 * The log-in by an OpenID provider, if the server has one. The log-in leaves the page: over a page whose session has
 * ended it opens another tab, and this one continues when a person comes back to it.
 */
function ProviderLogin({ isOver = false }: { isOver?: boolean }) {
  const [methods, setMethods] = useState<LoginMethods>({ provider: null, failure: "" });
  useEffect(() => {
    loginMethods().then(setMethods, (error: unknown) => setMethods({ provider: null, failure: explanation(error) }));
  }, []);
  useEffect(() => {
    if (!isOver) return;
    const look = () => {
      if (!document.hidden) void adoptSession();
    };
    addEventListener("visibilitychange", look);
    addEventListener("focus", look);
    return () => {
      removeEventListener("visibilitychange", look);
      removeEventListener("focus", look);
    };
  }, [isOver]);
  const { provider, failure } = methods;
  return (
    <div class="provider">
      {provider && (
        <a
          class="button"
          href={`${provider.login}?to=${encodeURIComponent(location.hash)}`}
          target={isOver ? "_blank" : undefined}
          rel="noopener"
        >
          Log in with {provider.name}
        </a>
      )}
      {provider && isOver && <p>It opens another tab. Come back to this one when you are logged in.</p>}
      {failure && (
        <p class="failure" role="alert">
          The log-in failed: {failure}.
        </p>
      )}
    </div>
  );
}

export function LoginPage() {
  return (
    <main class="login-page">
      <h1>Gantry</h1>
      <p>Log in with a name and password of the remote API.</p>
      <LoginForm user="" onDone={start} />
      <ProviderLogin />
    </main>
  );
}

/** The log-in over a page whose session has ended; the page and what is typed in it stay. */
export function LoginAgain() {
  if (!sessionEnded.value) return null;
  return (
    <Dialog title="The session has ended" isFixed>
      <p>Log in again to continue. Nothing that you typed is lost.</p>
      <LoginForm user={passwordUser()} onDone={() => undefined} />
      <ProviderLogin isOver />
    </Dialog>
  );
}

/** The name of the user whose session has ended; a user of an OpenID provider has no password here. */
function passwordUser(): string {
  const user = session.peek()?.user ?? "";
  return user.startsWith("oidc:") ? "" : user;
}
