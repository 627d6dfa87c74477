import { systemObject } from '../../../install/cluster/names.ts';
import { TYPHA } from '../../../model/typha.ts';
import { deleteServerLeases } from '../../../install/cluster/server-leases.ts';
import { type ObjectReference, referenceKey } from '../../../kube/objects/reference.ts';
import type { Act } from '../../../plans/acts.ts';
import { waitUntilNoPods } from './clean-cluster.ts';
import { DELETION } from './cluster-acts.ts';
import type { PodRun } from './node-pods.ts';

const SERVERS = referenceKey(systemObject('Deployment', TYPHA));

/** Deletes objects of a release. Where the servers of the fan-out are among them, their Leases go with the last of their pods. */
export const REMOVAL: Act<
  { readonly objects: readonly ObjectReference[]; readonly why?: string },
  { readonly run: PodRun }
> = {
  ...DELETION,
  apply: async (step, ports) => {
    await DELETION.apply(step, ports);
    if (!step.objects.some((object) => referenceKey(object) === SERVERS)) return;
    await waitUntilNoPods(ports.run, [TYPHA]);
    await deleteServerLeases(ports.run.api, ports.run.signal);
  },
};
