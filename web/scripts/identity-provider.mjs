// An identity provider for the tests of sign-in: oidc-provider, which is certified and not ours, on loopback.
// Usage: node identity-provider.mjs '{"port": 1, "redirect": "…", "secret": "…", "accounts": {"ada": {…}}}'
// Anyone who types a login of `accounts` is that person. Each start signs with a new key.
import { generateKeyPair, exportJWK } from "jose";
import Provider from "oidc-provider";

const { port, redirect, secret, accounts } = JSON.parse(process.argv[2]);
const { privateKey } = await generateKeyPair("RS256", { extractable: true });
const key = { ...(await exportJWK(privateKey)), kid: `key-${Date.now()}`, use: "sig", alg: "RS256" };

const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [
    { client_id: "muster", client_secret: secret, redirect_uris: [redirect], grant_types: ["authorization_code"] },
  ],
  claims: { openid: ["sub"], email: ["email", "email_verified"], groups: ["groups"] },
  scopes: ["openid", "email", "groups"],
  pkce: { required: () => true },
  jwks: { keys: [key] },
  cookies: { keys: ["of this test alone"] },
  features: { devInteractions: { enabled: true } },
  findAccount: (_context, id) => ({ accountId: id, claims: () => ({ sub: id, ...accounts[id] }) }),
});
provider.listen(port, "127.0.0.1", () => console.log("ready"));
