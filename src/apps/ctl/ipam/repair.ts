import { never } from '../../../base/errors.ts';
import type { Kernel } from '../../../dataplane/kernel.ts';
import { type IpamPorts } from '../../../ipam/assign.ts';
import { release } from '../../../ipam/release.ts';
import { endpointIdOf } from '../../../model/workload-endpoint.ts';
import type { CtlPorts } from '../ports.ts';
import { endAttachment } from './end-attachment.ts';
import type { Repair } from './finding.ts';

export interface RepairPorts extends IpamPorts {
  readonly kernel: Kernel | undefined;
  readonly plugin: Pick<CtlPorts['plugin'], 'binDir'>;
  readonly machine: Pick<CtlPorts['machine'], 'stateDir' | 'socketPath'>;
}

/**
 * Puts one finding right and says what was done; undefined when nothing was left to do. Addresses go by their
 * allocation id, so that an owner who came later keeps them.
 */
export async function carryOutRepair(
  ports: RepairPorts,
  repair: Repair,
  signal: AbortSignal,
): Promise<string | undefined> {
  switch (repair.kind) {
    case 'release': {
      const { allocation, endpoint } = repair;
      const freed = await release(
        ports,
        {
          node: allocation.node,
          which: ({ id }) => id === allocation.id,
          ...(endpoint === undefined
            ? {}
            : {
                endpoint: {
                  id: endpointIdOf(endpoint),
                  isSame: ({ spec }) => spec.containerID === allocation.containerId,
                },
              }),
        },
        signal,
      );
      return freed.length === 0 ? undefined : 'released';
    }
    case 'delete-endpoint': {
      const outcome = await ports.store.commit([{ kind: 'delete-endpoint', before: repair.before }], signal);
      return outcome === 'committed' ? 'endpoint deleted' : undefined;
    }
    case 'remove-link': {
      const { name, owner } = repair.link;
      const isGone = owner !== undefined && (await ports.kernel?.remove(name, owner)) === true;
      return isGone ? 'interface removed' : undefined;
    }
    case 'end-attachment':
      await endAttachment(ports, repair, signal);
      return 'released';
    default:
      return never(repair);
  }
}
