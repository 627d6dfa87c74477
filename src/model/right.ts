/** A single right, as the API is asked for it. */
export interface Right {
  readonly group: string;
  /** With the part of it behind a slash, such as `nodes/status`. */
  readonly resource: string;
  readonly verb: string;
}

/** `list ippools.netplug.io`, `patch nodes/status`: resources of one name are in several groups. */
export function describeRight({ group, resource: path, verb }: Right): string {
  const [resource = '', ...subresource] = path.split('/');
  return `${verb} ${[group === '' ? resource : `${resource}.${group}`, ...subresource].join('/')}`;
}
