/** Requests of the page as commands that do the same in a terminal. */

/** A word of a POSIX shell: quoted if it holds anything but letters, digits and harmless signs. */
export function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** Words as a shell takes them. */
export const commandLine = (words: readonly string[]): string => words.map(quoted).join(" ");

export interface Asked {
  template: string;
  count: number;
  run: string;
  resource_class?: string;
  usage?: string[];
  instance_types?: string[];
  queue_timeout?: number;
}

export function provisionCommand(asked: Asked): string {
  const words = ["muster", "provision", "--template", asked.template, "--count", String(asked.count)];
  if (asked.run) words.push("--run", asked.run);
  if (asked.resource_class) words.push("--class", asked.resource_class);
  for (const each of asked.usage ?? []) words.push("--usage-class", each);
  if (asked.instance_types) words.push("--types", asked.instance_types.join(","));
  if (asked.queue_timeout) words.push("--queue-timeout", `${asked.queue_timeout / 60}m`);
  return commandLine(words);
}
