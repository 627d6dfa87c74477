import { IPAM_CHECKS, isOf, shownFinding } from '../ipam/finding.ts';
import { lookTwice } from '../ipam/ipam-check.ts';
import type { Topic } from './topic.ts';

/** An ADD in progress has an address and no endpoint yet. */
const GRACE_SECONDS = 120;

/** The findings of `netplugctl ipam check`. The checks of the datastore cover unreadable records. */
export const LEAKS: Topic = {
  area: 'ipam',
  scope: 'cluster',
  needsRecords: true,
  checks: IPAM_CHECKS.filter((check) => !isOf(check, 'unreadable-record')),
  examine: async ({ context, store, connection, includesNode }) => {
    const options = { node: undefined, graceSeconds: GRACE_SECONDS };
    const { datastore } = await connection();
    const here = includesNode ? { kernel: context.ports.openKernel(), datastore } : undefined;
    const { findings } = await lookTwice(context, await store(), { here, options });
    const shown = findings.filter((finding) => !isOf(finding, 'unreadable-record'));
    return { measured: [], findings: shown.map(shownFinding) };
  },
};
