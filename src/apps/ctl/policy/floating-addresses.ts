import type { PolicyRecord } from '../../../cache/policy-records.ts';
import { tryParseAddress } from '../../../net/address.ts';
import type { FloatingAddress } from '../../../routing/nat-floating.ts';

/** Returns the floating IPs that the records of pods name. Where several records of a pod are given, the last counts. */
export function floatingAddresses(records: readonly PolicyRecord[]): readonly FloatingAddress[] {
  const endpoints = new Map(records.flatMap((each) => (each.kind === 'endpoint' ? [[each.key, each.value]] : [])));
  return [...endpoints.values()].flatMap((endpoint) =>
    (endpoint?.spec.ipNATs ?? []).flatMap(({ internalIP, externalIP }): FloatingAddress[] => {
      const [internal, external] = [internalIP, externalIP].map((text) => tryParseAddress(text));
      return internal === undefined || external === undefined ? [] : [{ internal, external }];
    }),
  );
}
