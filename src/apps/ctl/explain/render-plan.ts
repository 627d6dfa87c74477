import { never } from '../../../base/errors.ts';
import { nameHolder, nameOwner } from '../ipam/describe-holder.ts';
import type { AddPlan } from './plan-add.ts';
import type { KernelStep } from './kernel-steps.ts';
import type { StoreStep } from './store-steps.ts';

/** Renders the plan as text: a headline, then a section per place that would change. */
export function renderAddPlan(plan: AddPlan): string {
  const who = plan.pod === undefined ? `container ${plan.containerId}` : `pod ${plan.pod}`;
  const sections: [string, readonly string[]][] = [
    ['wait', plan.gates.map((url) => `until ${url} answers`)],
    ['datastore', plan.store.map(storeLine)],
    ['kernel', plan.kernel.map((step) => `${step.where.padEnd(5)}${kernelLine(step)}`)],
    ['plugins', plan.plugins.map(({ file, command, conf }) => `${command} of ${file} with ${JSON.stringify(conf)}`)],
    ['agent', plan.floatingIps.map(floatingLine)],
    ['events', plan.events],
    ['notes', notesOf(plan)],
    ['result', JSON.stringify(plan.result, undefined, 2).split('\n')],
  ];
  const how = plan.servedBy === 'agent' ? 'served by the agent' : 'served without an agent';
  return `ADD of ${plan.ifName} for ${who} on node ${plan.node}, by ${plan.netconf}, ${how}\n${sectionsText(sections)}`;
}

/** Renders sections, those without lines left out; one without a title goes on where the text before it ends. */
export function sectionsText(sections: readonly (readonly [title: string, lines: readonly string[]])[]): string {
  return sections
    .filter(([, lines]) => lines.length > 0)
    .map(([title, lines]) => `${title === '' ? '' : `\n${title}\n`}${lines.map((line) => `  ${line}\n`).join('')}`)
    .join('');
}

export function storeLine(step: StoreStep): string {
  switch (step.kind) {
    case 'claim-block':
      return `claim block ${step.block} of pool "${step.pool}" for node ${step.node ?? ''}`;
    case 'take-over-block':
      return `take over the unused block ${step.block} from ${nameOwner(step.from)} for node ${step.node}`;
    case 'request-address':
      return `request ${step.address} from the agent of ${nameOwner(step.owner)}, and wait until it is released`;
    case 'assign-address': {
      const { holder } = step;
      const borrowed = step.owner === holder.node ? '' : `, borrowed from ${nameOwner(step.owner)}`;
      const considered = holder.considered === undefined ? '' : ` (${holder.considered.join('; ')})`;
      return `assign ${step.address} of block ${step.block}${borrowed} for ${nameHolder(holder)}, chosen by ${holder.chosenBy}${considered}`;
    }
    case 'put-endpoint':
      return `write endpoint ${step.namespace}/${step.name}: ${step.spec.ipNetworks.join(', ')} behind ${step.spec.interfaceName}, profiles ${step.spec.profiles.join(', ')}`;
    default:
      return never(step);
  }
}

function kernelLine(step: KernelStep): string {
  switch (step.kind) {
    case 'remove-link':
      return `remove ${step.link} of container ${step.container}`;
    case 'link':
      return `link ${step.link}, the other end of ${step.peer}: MAC ${step.mac}, MTU ${String(step.mtu)}, queues ${String(step.queues)}`;
    case 'sysctl':
      return `${step.name} = ${step.value}${step.ifPresent ? ', if the kernel has it' : ''}`;
    case 'address':
      return `address ${step.address} on ${step.link}`;
    case 'route':
      return `route ${step.destination} ${step.gateway === undefined ? '' : `via ${step.gateway} `}on ${step.link}`;
    case 'neighbour':
      return `neighbour ${step.address} at ${step.mac} on ${step.link}`;
    default:
      return never(step);
  }
}

function floatingLine({ externalIP, internalIP }: AddPlan['floatingIps'][number]): string {
  return `translate floating IP ${externalIP} to ${internalIP}, and ${internalIP} to ${externalIP} towards the outside`;
}

function notesOf({ store, kernel, preallocated, warnings }: AddPlan): readonly string[] {
  const ready = preallocated.flatMap(({ addresses }) => addresses);
  return [
    ...(store.length === 0 && kernel.length === 0 ? ['nothing changes: the container is connected already'] : []),
    ...(ready.length === 0
      ? []
      : [
          `the agent of the node has pre-allocated ${ready.join(', ')}; an ADD that it serves assigns one of these instead`,
        ]),
    ...warnings,
  ];
}
