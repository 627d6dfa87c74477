/** Items that changes of records touch, collected while they are applied. */
export interface Touches {
  readonly endpoints: Set<string>;
  readonly policies: Set<string>;
  readonly profiles: Set<string>;
  readonly namedPorts: Set<string>;
  readonly services: Set<string>;
  readonly nodes: Set<string>;
  /** Keys of what must be settled again. */
  readonly unsettled: Set<string>;
}

export function noTouches(): Touches {
  return {
    endpoints: new Set(),
    policies: new Set(),
    profiles: new Set(),
    namedPorts: new Set(),
    services: new Set(),
    nodes: new Set(),
    unsettled: new Set(),
  };
}
