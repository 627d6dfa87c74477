import * as v from 'valibot';
import { reasonOf } from '../../../base/errors.ts';
import { keepRunning } from '../../../base/back-off.ts';
import type { ApiObject } from '../../../kube/objects.ts';
import { wholeObject } from '../../../kube/packed-object.ts';
import { NODES } from '../../../kube/paths.ts';
import { isConditionTrue } from '../../../kube/status/conditions.ts';
import type { NodeName } from '../../../model/names.ts';
import { OUT_OF_SERVICE_TAINT } from '../../../model/out-of-service.ts';
import type { ControllerPorts } from '../controller.ts';

const NodeParts = v.object({ taints: v.nullish(v.array(v.object({ key: v.string() }))) });

/**
 * Reports whether an administrator says that the machine is off or has been restarted. A kubelet that reports knows better.
 * The orchestrator deletes pods and detaches volumes of a node by the same two facts.
 */
export function isOutOfService(node: ApiObject): boolean {
  const read = v.safeParse(NodeParts, node['spec'] ?? {});
  const taints = read.success ? (read.output.taints ?? []) : [];
  return taints.some(({ key }) => key === OUT_OF_SERVICE_TAINT) && !isConditionTrue(node, 'Ready');
}

/**
 * The nodes that are out of service as the watch of nodes reported last. It may lag behind: it says when to look, and nothing
 * is decided by it. No record has the taint: nodes that follow each other must not hear of it.
 */
export class OutOfServiceNodes {
  readonly #ports: Pick<ControllerPorts, 'api' | 'log' | 'clock' | 'random'>;
  readonly #names = new Set<string>();

  constructor(ports: Pick<ControllerPorts, 'api' | 'log' | 'clock' | 'random'>) {
    this.#ports = ports;
  }

  has(name: string): boolean {
    return this.#names.has(name);
  }

  /** Calls `onLoss` with every node that is, or has gone, out of service, until the signal aborts. */
  async follow(onLoss: (name: NodeName) => void, signal: AbortSignal): Promise<void> {
    const { api, log } = this.#ports;
    const note = (object: ApiObject): void => {
      // Names of Node objects are those under which agents register.
      const name = object.metadata.name as NodeName;
      const isLost = isOutOfService(wholeObject(object));
      if (isLost && !this.#names.has(name)) onLoss(name);
      if (isLost) this.#names.add(name);
      else this.#names.delete(name);
    };
    const work = async (): Promise<void> => {
      this.#names.clear();
      for await (const event of api.sharedWatch(NODES, { isPacked: true }, signal)) {
        if (event.kind === 'all') for (const object of event.objects) note(object);
        else
          for (const { before, after } of event.changes)
            if (after !== undefined) note(after);
            else if (before !== undefined) this.#names.delete(before.metadata.name);
      }
    };
    const onFailure = (cause: unknown, failures: number): void => {
      if (failures === 1) log.warning('watch failed', { kind: NODES.plural, reason: reasonOf(cause) });
    };
    await keepRunning(this.#ports, { work, onFailure }, signal);
  }
}
