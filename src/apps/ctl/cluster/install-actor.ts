import { crdManifests } from '../../../install/cluster/definitions/crd-manifests.ts';
import { SYSTEM_NAMESPACE } from '../../../install/cluster/names.ts';
import type { Manifest } from '../../../model/manifest.ts';
import { NetplugError } from '../../../base/errors.ts';
import { never } from '../../../base/errors.ts';
import type { Datastore } from '../../../config/connection.ts';
import { CHART } from '../../../install/cluster/chart/chart-files.ts';
import { nodeCheckPod } from '../../../install/cluster/probe-objects.ts';
import { parseCidr, cidrsOverlap } from '../../../net/cidr.ts';
import type { Actor } from '../../../plans/carry-out.ts';
import type { Context } from '../ports.ts';
import { applyObject } from '../../../kube/objects/apply.ts';
import { referenceOf } from '../../../kube/objects/reference.ts';
import type { ClusterAct, ClusterTarget } from './cluster-plan.ts';
import type { Helm } from './helm.ts';
import { firstLine, type PodRun, removePods, runPods } from './node-pods.ts';
import { proveNetwork } from './prove-network.ts';
import { waitForDefinitions, waitForInstallation, waitForNodes, waitForWorkload } from './wait-ready.ts';

export interface InstallParts {
  readonly run: PodRun;
  /** By key. */
  readonly objects: ReadonlyMap<string, Manifest>;
  readonly target: ClusterTarget;
  readonly nodes: readonly string[];
  readonly helm: Helm | undefined;
  readonly context: Context;
  readonly kv: Datastore | undefined;
  /** Whether agents of an earlier installation run, which have the ports of netplug. */
  readonly hasAgent: boolean;
}

/** Carries out the steps of an installation. Each of them can be repeated. */
export function clusterActor(parts: InstallParts): Actor<ClusterAct> {
  return {
    inspect: async () => Promise.resolve('before'),
    apply: async (step) => carryOutStep(step, parts),
  };
}

async function carryOutStep(step: ClusterAct, parts: InstallParts): Promise<void> {
  const { run, objects, target, nodes, helm } = parts;
  switch (step.act) {
    case 'apply': {
      const object = objects.get(step.object);
      if (object === undefined) throw new Error(`the plan has no object ${step.object}`);
      await applyObject(run.api, { object }, run.signal);
      return;
    }
    case 'check-nodes':
      return checkNodes(parts);
    case 'create-pools':
      return createPools(parts);
    case 'helm':
      await helm?.install({ name: CHART, namespace: SYSTEM_NAMESPACE }, { installation: target.spec });
      return;
    case 'await-definitions':
      return waitForDefinitions(
        run,
        crdManifests().map((definition) => referenceOf(definition).name),
      );
    case 'await-workload':
      return waitForWorkload(run, step.workload);
    case 'await-installation':
      return waitForInstallation(run);
    case 'await-nodes':
      return waitForNodes(run);
    case 'prove': {
      const { release, images, spec } = target.settings;
      const image = { release, image: images.tools, pullSecrets: images.pullSecrets };
      return proveNetwork(run, { nodes, image, hasPolicy: spec.calicoNetwork.policy === 'Enabled' });
    }
    default:
      return never(step);
  }
}

async function checkNodes({ run, target, nodes, hasAgent }: InstallParts): Promise<void> {
  const { release, images, variant } = target.settings;
  const image = { release, image: images.node, pullSecrets: images.pullSecrets };
  const keepsPlugin = variant !== 'policy-and-networking';
  const pods = nodes.map((node) => nodeCheckPod({ ...image, node }, { keepsPlugin, hasAgent }));
  const states = await runPods(run, { pods, until: 'succeeded', what: 'checks' });
  await removePods(run, pods.map(referenceOf));
  const failed = states.filter(({ phase }) => phase === 'failed');
  if (failed.length === 0) return;
  const lines = failed.flatMap(({ node, reason = '', output = reason }) =>
    output.split('\n').map((line) => `\n  ${node}: ${line}`),
  );
  throw new NetplugError(
    'install/refused',
    `Cannot install netplug: ${String(failed.length)} nodes are not fit for it${lines.join('')}`,
    {
      hint: 'Correct what is listed for each node, and run the command again',
      facts: { nodes: failed.map(({ node }) => node), first: firstLine(failed[0]?.output ?? '') },
    },
  );
}

/** A pool that exists is left as it is. */
async function createPools({ target, context, kv }: InstallParts): Promise<void> {
  if (kv === undefined) return;
  const { ports, signal } = context;
  await using store = ports.openStore(kv);
  const { resources: existing } = await store.listResources('IPPool', signal);
  for (const pool of target.settings.pools) {
    const twin = existing.find(({ spec }) => spec.cidr === pool.spec.cidr);
    if (twin !== undefined) continue;
    const other = existing.find(({ spec }) => cidrsOverlap(parseCidr(spec.cidr), parseCidr(pool.spec.cidr)));
    if (other !== undefined) {
      throw new NetplugError(
        'install/refused',
        `Cannot create the pool ${pool.spec.cidr}: it overlaps "${other.metadata.name}" (${other.spec.cidr}) in etcd`,
        {
          hint: 'Choose another range with --pool',
        },
      );
    }
    await store.createResource(pool, signal);
  }
}
