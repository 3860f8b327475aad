/** Out of the page, into the provider's own console; it is told nothing of where one comes from. */

export function Portal({ url }: { url: string | null | undefined }) {
  if (!url?.startsWith("https:")) return null;
  return (
    <a className="button" href={url} target="_blank" rel="noreferrer noopener">
      Open in the cloud console
    </a>
  );
}
