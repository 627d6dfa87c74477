import { visibleText } from '../../../base/visible-text.ts';
import { renderAddress } from '../ipam/address-report.ts';
import type { ExplainedAddress } from './explain-address.ts';
import type { ExplainedFamily, ExplainedPod, HeldThen } from './explain-pod.ts';
import type { Method } from './methods.ts';
import { sectionsText, storeLine } from './render-plan.ts';

/** The pod, its node and the network configuration of an explanation. */
export interface PodPlace {
  readonly pod: string;
  readonly node: string;
  readonly nodeFrom: string;
  /** Path of the file; undefined when defaults are assumed. */
  readonly netconf: string | undefined;
}

export function renderExplainedAddress({ reasons, ...report }: ExplainedAddress): string {
  return `${renderAddress(report)}${reasons.map((reason) => `  ${visibleText(reason)}\n`).join('')}`;
}

/** Renders the addresses of the pod first, then how they are chosen. */
export function renderExplainedPod(place: PodPlace, explained: ExplainedPod): string {
  const { held, heldByEarlier, wouldDo, refusal, families, notes } = explained;
  const sections: [string, readonly string[]][] = [
    ['', [`node: ${place.node} (${place.nodeFrom})`, `network configuration: ${place.netconf ?? 'defaults'}`]],
    ['addresses', held.flatMap(heldLines)],
    ['addresses that an earlier pod of this name holds', heldByEarlier.flatMap(heldLines)],
    ['an ADD now would be refused', refusal === undefined ? [] : [refusal.message, `hint: ${refusal.hint ?? 'none'}`]],
    ['an ADD now would', wouldDo === undefined ? [] : wouldDo.map(storeLine)],
    ...families.flatMap(familySections),
    ['notes', notes],
  ];
  const visible = sections.map(([title, lines]) => [title, lines.map(visibleText)] as const);
  return `${headline(place.pod, explained)}\n${sectionsText(visible)}`;
}

function headline(pod: string, { held, refusal }: ExplainedPod): string {
  if (held.length > 0) return `pod ${pod} has ${held.map(({ address }) => address).join(' and ')}`;
  return refusal === undefined ? `pod ${pod} has no address; it would get one now` : `pod ${pod} gets no address`;
}

function heldLines({ address, pool, since, chosenBy, considered, node, containerId }: HeldThen): readonly string[] {
  return [
    `${address} of ${pool === undefined ? 'no pool' : `pool "${pool}"`} since ${since}, container ${containerId} on node ${node}`,
    `  chosen by ${chosenBy}${considered.length === 0 ? '' : `; considered ${considered.join('; ')}`}`,
  ];
}

function familySections({ family, isAssigned, methods, pools }: ExplainedFamily): [string, readonly string[]][] {
  const name = `IPv${String(family)}`;
  if (!isAssigned) return [[`${name} is not assigned`, []]];
  return [
    [`methods that choose ${name} pools, by precedence`, methods.map(methodLine)],
    [
      `${name} pools`,
      pools.map(({ name: pool, cidr, outcome, why }) => `${outcome.padEnd(8)}  ${pool} ${cidr}: ${why}`),
    ],
  ];
}

function methodLine({ rank, name, says, decides }: Method): string {
  const words = says ?? (rank === 3 ? undefined : 'not set');
  return `${decides ? '→' : ' '} ${String(rank)}. ${name}${words === undefined ? '' : `: ${words}`}`;
}
