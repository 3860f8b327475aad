/** Where a page is: the way back to its list. */

import { Link } from "../routing/router";

export function Crumbs({ href, list, here }: { href: string; list: string; here: string }) {
  return (
    <nav aria-label="Breadcrumb" className="crumbs">
      <ol>
        <li>
          <Link href={href}>{list}</Link>
        </li>
        <li aria-current="page">
          <bdi>{here}</bdi>
        </li>
      </ol>
    </nav>
  );
}
