import { IPAM_CHECKS, isOf, shownFinding } from '../ipam/finding.ts';
import { lookTwice } from '../ipam/ipam-check.ts';
import { describeUnconnected } from '../../../install/host/unconnected-pods.ts';
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
    const { state, findings } = await lookTwice(context, await store(), { here, options });
    // The checks of the kernel name these.
    const recorded = new Set(state.local?.unconnected.map(describeUnconnected));
    const shown = findings.filter((finding) => !isOf(finding, 'unreadable-record') && !recorded.has(finding.found));
    return { measured: [], findings: shown.map(shownFinding) };
  },
};
