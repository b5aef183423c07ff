// The log-in: the first page, and over any page when the session has ended.

import { useState } from "preact/hooks";
import { explanation, logIn, session, sessionEnded } from "../api.ts";
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

export function LoginPage() {
  return (
    <main class="login-page">
      <h1>Gantry</h1>
      <p>Log in with a name and password of the remote API.</p>
      <LoginForm user="" onDone={start} />
    </main>
  );
}

/** The log-in over a page whose session has ended; the page and what is typed in it stay. */
export function LoginAgain() {
  if (!sessionEnded.value) return null;
  return (
    <Dialog title="The session has ended" isFixed>
      <p>Log in again to go on. Nothing that you typed is lost.</p>
      <LoginForm user={session.peek()?.user ?? ""} onDone={() => undefined} />
    </Dialog>
  );
}
