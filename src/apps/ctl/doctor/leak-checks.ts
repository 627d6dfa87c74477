import type { IpamFinding, FindingKind } from '../ipam/finding.ts';
import { lookTwice } from '../ipam/ipam-check.ts';
import { type Check, type Severity, topic } from './topic.ts';

export type LeakFacts = readonly Pick<IpamFinding, 'kind' | 'message' | 'repair'>[];

/** An ADD that is under way has an address and no endpoint yet. */
const GRACE_SECONDS = 120;

/** What `netplugctl ipam check` finds; records that cannot be read are the datastore's matter. */
const KINDS: Readonly<
  Record<Exclude<FindingKind, 'unreadable-record'>, { readonly severity: Severity; readonly expected: string }>
> = {
  'leaked-address': { severity: 'warning', expected: 'a pod for every address that is held' },
  'unconfirmed-address': { severity: 'note', expected: 'proof that somebody uses an address that is held' },
  'address-held-twice': { severity: 'error', expected: 'one holder for an address' },
  'endpoint-missing': { severity: 'warning', expected: 'an endpoint for every interface with an address' },
  'endpoint-without-address': { severity: 'warning', expected: 'endpoints whose addresses a block knows' },
  'stray-link': { severity: 'warning', expected: 'interfaces that belong to somebody' },
  'block-fault': { severity: 'error', expected: 'sound blocks' },
  'block-outside-pools': { severity: 'warning', expected: 'blocks inside of pools' },
  'block-size': { severity: 'warning', expected: 'blocks of the size their pool says' },
  'overlapping-blocks': { severity: 'error', expected: 'blocks apart from each other' },
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
          ? { remedy: 'See who changed records by hand, and correct them', command: 'netplugctl ipam check' }
          : { remedy: 'Free what leaked', command: REPAIRS[kind] ?? 'netplugctl ipam check --fix' }),
      })),
}));

export const LEAKS = topic({
  area: 'ipam',
  scope: 'cluster',
  needsRecords: true,
  gather: async ({ context, store, looksAtNode }): Promise<LeakFacts> => {
    const kernel = looksAtNode ? context.ports.openKernel() : undefined;
    const options = { node: undefined, graceSeconds: GRACE_SECONDS };
    return (await lookTwice(context, await store(), { kernel, options })).findings;
  },
  measure: () => [],
  checks: LEAK_CHECKS,
});
