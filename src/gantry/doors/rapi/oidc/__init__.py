"""Log-in by OpenID Connect: a provider of the site says who somebody in a browser is, instead of a password.

    /2/session/oidc            leads the browser to the provider, with a challenge (PKCE), a state and a nonce
    /2/session/oidc/callback   the provider leads it back with a code; the daemon exchanges the code for an ID token

It is the authorization code flow of OpenID Connect Core 1.0, section 3.1, with PKCE (RFC 7636). It ends in a session
like that of a password (``http.sessions``). ``login`` has the flow, ``provider`` the requests to the provider,
``id_token`` the checks of what it has signed, ``claims`` the user that follows, and ``model.urls`` the addresses.

Nothing of a log-in under way is in memory: state, nonce and the verifier of PKCE are derived from a secret in a cookie
of the browser, with a key of the process. So a log-in ends only in the browser and the process in which it began, and
no number of log-ins that are never finished can push out others.
"""
