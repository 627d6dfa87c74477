import type { Store } from '../../datastore/store.ts';
import type { NameClaim } from './name-claim.ts';

/** Writes of the agent about its node. */
const WRITES = [
  'commit',
  'publishNode',
  'publishReport',
  'reportConditions',
  'createResource',
  'updateResource',
] as const;

/** Returns the store, whose writes wait for the claim to the name of the node and fail without it. */
export function namedStore(store: Store, claim: Pick<NameClaim, 'assure'>): Store {
  const writes = new Map<unknown, (...args: readonly unknown[]) => Promise<unknown>>(
    WRITES.map((name) => [
      name,
      async (...args: readonly unknown[]): Promise<unknown> => {
        // The last parameter of each, but for the mode of a resource.
        const signal = args.find((arg) => arg instanceof AbortSignal) ?? new AbortController().signal;
        await claim.assure(signal);
        const written: unknown = await Reflect.apply(store[name], store, args);
        return written;
      },
    ]),
  );
  return new Proxy(store, {
    get: (target, name) => {
      const value: unknown = writes.get(name) ?? Reflect.get(target, name, target);
      // Methods of a store use private fields.
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}
