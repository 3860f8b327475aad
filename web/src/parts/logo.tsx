export function Logo() {
  return (
    <span className="logo">
      <svg viewBox="0 0 32 32" width="24" height="24" aria-hidden="true">
        <rect width="32" height="32" rx="8" className="logo-back" />
        <rect x="7" y="8" width="4" height="16" rx="2" className="logo-bar" />
        <rect x="14" y="12" width="4" height="12" rx="2" className="logo-bar" />
        <rect x="21" y="8" width="4" height="16" rx="2" className="logo-bar" />
      </svg>
      Muster
    </span>
  );
}
