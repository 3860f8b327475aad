/** In front of every page for who is not signed in: takes up a session of this browser, else asks to sign in. */

import { useOffer } from "../api/offer";
import { Loading } from "../parts/states";
import { SignIn } from "./sign-in";

export function Entrance() {
  const offer = useOffer();
  if (offer !== null) return <SignIn offer={offer} />;
  return (
    <main className="page">
      <Loading />
    </main>
  );
}
