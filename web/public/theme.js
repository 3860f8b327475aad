// Before the first paint, so that a page in the dark doesn't flash. Its own file: the policy allows no inline script.
try {
  const theme = localStorage.getItem("muster.theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // Storage may be blocked; then the system's preference holds.
}
