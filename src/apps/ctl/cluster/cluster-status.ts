import { NetplugError } from '../../../base/errors.ts';
import { AGENT_SET, BIRD_SET, OPERATOR, systemObject } from '../../../install/cluster/names.ts';
import { TYPHA } from '../../../model/typha.ts';
import { CONTROLLERS } from '../../../model/automatic-host-endpoint.ts';
import type { Context, Status } from '../ports.ts';
import { podRun } from './node-pods.ts';
import { readClusterConnection } from './cluster-access.ts';
import { findObject } from '../../../kube/objects/apply.ts';
import { findMethod } from './read-preflight-facts.ts';
import { type WorkloadName, waitForNodes, waitForWorkload, workloadLag } from './wait-ready.ts';

const WORKLOADS: readonly WorkloadName[] = [
  { kind: 'Deployment', name: OPERATOR },
  { kind: 'DaemonSet', name: AGENT_SET },
  { kind: 'DaemonSet', name: BIRD_SET },
  { kind: 'Deployment', name: CONTROLLERS },
  { kind: 'Deployment', name: TYPHA },
];

/** Prints how far an installation is. Returns 1 when a part of it is not ready. @throws install/not-ready when nothing is installed */
export async function clusterStatus(context: Context, { waits }: { readonly waits: boolean }): Promise<Status> {
  const { io, ports, signal } = context;
  const { api: access } = await readClusterConnection(context, undefined);
  await using api = ports.openApi(access);
  const run = podRun(api, context, '');
  const method = await findMethod(api, signal);
  if (method === undefined) {
    throw new NetplugError(
      'install/not-ready',
      'Cannot show the installation: netplug is not installed in this cluster',
      {
        hint: 'Install it with "netplugctl install cluster"',
      },
    );
  }
  io.stdout(`installed by ${method}\n`);
  let status = 0;
  if (waits && method !== 'manifest') await waitForWorkload(run, { kind: 'DaemonSet', name: AGENT_SET });
  for (const workload of WORKLOADS) {
    const found = await findObject(api, systemObject(workload.kind, workload.name), signal);
    if (found === undefined) continue;
    const lag = waits ? undefined : workloadLag(found);
    if (waits) await waitForWorkload(run, workload);
    if (lag !== undefined) status = 1;
    io.stdout(`${workload.name}: ${lag ?? 'ready'}\n`);
  }
  if (waits) await waitForNodes(run);
  return status;
}
