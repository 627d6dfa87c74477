/** Reports whether a value may be the name of a program in the folder of plugins. A name with a slash would lead out of it. */
export function isProgramName(name: unknown): name is string {
  return typeof name === 'string' && /^[\w.-]{1,255}$/.test(name) && !name.startsWith('.');
}
