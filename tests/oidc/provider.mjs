// usage: node provider.mjs PORT CERTIFICATE KEY CONSOLE SECRET
//
// A real OpenID provider for tests, on a loopback address with TLS: node-oidc-provider, which is certified. Its log-in page
// takes any name and password. The users "admin" and "ops" are in groups of that name, all users in the group "staff".

import { readFileSync } from "node:fs";
import https from "node:https";
import Provider from "oidc-provider";

const [port, certificate, key, console_, secret] = process.argv.slice(2);

const provider = new Provider(`https://127.0.0.1:${port}`, {
  clients: [
    {
      client_id: "gantry",
      client_secret: secret,
      redirect_uris: [`${console_}/2/session/oidc/callback`],
      post_logout_redirect_uris: [`${console_}/console/`],
      grant_types: ["authorization_code"],
      response_types: ["code"],
    },
  ],
  // The claims of a scope are in the answer of the service userinfo alone, as the specification says for this flow.
  claims: { openid: ["sub"], profile: ["preferred_username"], groups: ["groups"] },
  findAccount: (_, id) => ({
    accountId: id,
    claims: () => ({
      sub: id,
      preferred_username: id,
      groups: ["staff", ...["admin", "ops"].filter((group) => id === group)],
    }),
  }),
  pkce: { required: () => true },
  cookies: { keys: ["of a test"] },
});

https
  .createServer({ cert: readFileSync(certificate), key: readFileSync(key) }, provider.callback())
  .listen(Number(port), "127.0.0.1", () => process.stdout.write("ready\n"));
