/** Reports whether the CNI standard allows the text as a container id. */
export function isContainerId(text: string): boolean {
  return /^[a-zA-Z0-9][a-zA-Z0-9_.-]*$/.test(text);
}

/** Returns why a network interface cannot have that name; undefined when it can. */
export function interfaceNameFault(text: string): string | undefined {
  // Characters of UTF-8; the kernel counts bytes.
  if (new TextEncoder().encode(text).length > 15) return 'is longer than 15 bytes';
  if (text === '' || text === '.' || text === '..') return 'is not a name';
  return /[/:\s]/.test(text) ? 'contains "/", ":" or white space' : undefined;
}

export function isInterfaceName(text: string): boolean {
  return interfaceNameFault(text) === undefined;
}
