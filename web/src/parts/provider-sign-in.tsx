/** The way to sign in by the identity provider: a link, so that the browser goes there and comes back. */

import { providerAddress } from "../api/offer";

export function ProviderSignIn({ name }: { name: string }) {
  return (
    <>
      <a className="button button-primary" href={providerAddress()}>
        Sign in with <bdi>{name}</bdi>
      </a>
      <p className="faint">or with a token</p>
    </>
  );
}
