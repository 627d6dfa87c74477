import type { IpamFinding, FindingKind } from '../ipam/finding.ts';
import { lookTwice } from '../ipam/ipam-check.ts';
import type { Check, Severity } from '../../../checks/check.ts';
import { topic } from './topic.ts';

export type LeakFacts = readonly Pick<IpamFinding, 'kind' | 'message' | 'repair'>[];

/** An ADD in progress has an address and no endpoint yet. */
const GRACE_SECONDS = 120;

/** Kinds of findings of `netplugctl ipam check`. The checks of the datastore cover unreadable records. */
const KINDS: Readonly<
  Record<Exclude<FindingKind, 'unreadable-record'>, { readonly severity: Severity; readonly expected: string }>
> = {
  'leaked-address': { severity: 'warning', expected: 'a pod for every assigned address' },
  'unconfirmed-address': { severity: 'note', expected: 'evidence that every assigned address is in use' },
  'address-held-twice': { severity: 'error', expected: 'one holder for an address' },
  'endpoint-missing': { severity: 'warning', expected: 'an endpoint for every interface with an address' },
  'endpoint-without-address': { severity: 'warning', expected: 'endpoints whose addresses are assigned in a block' },
  'stray-link': { severity: 'warning', expected: 'host interfaces that belong to a pod' },
  'block-fault': { severity: 'error', expected: 'consistent blocks' },
  'block-outside-pools': { severity: 'warning', expected: 'blocks inside pools' },
  'block-size': { severity: 'warning', expected: 'blocks of the blockSize of their pool' },
  'overlapping-blocks': { severity: 'error', expected: 'blocks that do not overlap' },
};

const REPAIRS: Readonly<Record<string, string>> = {
  'unconfirmed-address': 'netplugctl ipam check --unconfirmed --fix',
};

export const LEAK_CHECKS: readonly Check<LeakFacts>[] = Object.entries(KINDS).map(([kind, about]) => ({
  id: `ipam/${kind}`,
  ...about,
  judge: (facts) =>
    facts
      .filter((finding) => finding.kind === kind)
      .map(({ message, repair }) => ({
        found: message,
        ...(repair === undefined
          ? { remedy: 'Find out what changed the records, and correct them', command: 'netplugctl ipam check' }
          : { remedy: 'Release leaked addresses', command: REPAIRS[kind] ?? 'netplugctl ipam check --fix' }),
      })),
}));

export const LEAKS = topic({
  area: 'ipam',
  scope: 'cluster',
  needsRecords: true,
  gather: async ({ context, store, includesNode }): Promise<LeakFacts> => {
    const kernel = includesNode ? context.ports.openKernel() : undefined;
    const options = { node: undefined, graceSeconds: GRACE_SECONDS };
    return (await lookTwice(context, await store(), { kernel, options })).findings;
  },
  measure: () => [],
  checks: LEAK_CHECKS,
});
