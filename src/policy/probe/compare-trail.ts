import type { ProbeStep, ProbeTrail } from '../../dataplane/packet-probe.ts';
import { ALL_INTERFACES } from '../../model/host-endpoint.ts';
import type { ConnectionEnd, ConnectionVerdict, EndVerdict, HostVerdict, PolicyVerdict } from '../evaluate.ts';
import type { PacketPath } from '../packet-path.ts';
import type { PolicyDirection } from '../resolved-policy.ts';
import { POLICY_TABLE } from '../ruleset/policy-ruleset.ts';
import { idOfOrigin } from '../ruleset/rule-ids.ts';
import { ruleOfDecision, TO_HOST } from './decision-rules.ts';

/** Verdict of one base chain of the kernel about the packet. */
export interface KernelVerdict {
  readonly chain: string;
  readonly verdict: PolicyVerdict;
  /** Id of the rule that decided; undefined when the chain ended without one. */
  readonly rule: string | undefined;
}

/** One place of the node where policies see the packet: what they say by their definitions, and in the kernel. */
export interface ComparedPlace {
  readonly place:
    | { readonly kind: 'pod'; readonly said: EndVerdict }
    | { readonly kind: 'host endpoint'; readonly path: PacketPath; readonly said: EndVerdict }
    /** The node accepts packets of its pods, or not. */
    | { readonly kind: 'to host'; readonly verdict: PolicyVerdict }
    /** No policy should see the packet there. */
    | { readonly kind: 'unexpected' };
  /** Undefined when the packet did not get there. */
  readonly kernel: KernelVerdict | undefined;
  readonly outcome: 'agrees' | 'differs' | 'not reached';
}

export interface ComparedTrail {
  readonly places: readonly ComparedPlace[];
  /** `unknown` when the packet was lost, or dropped by another table, before policies had decided. */
  readonly outcome: 'agrees' | 'differs' | 'unknown';
  /** The rule of another table that dropped the packet. */
  readonly droppedElsewhere?: Pick<ProbeStep, 'table' | 'chain'>;
}

interface Followed {
  /** The node on which the packet was followed. */
  readonly node: string;
  readonly source: ConnectionEnd;
  readonly destination: ConnectionEnd;
  readonly judged: ConnectionVerdict;
  /** The packet arrived by an interface of its own, which only a host endpoint for all interfaces covers. */
  readonly isFromOutside: boolean;
}

interface Expected {
  readonly place: Exclude<ComparedPlace['place'], { kind: 'unexpected' }>;
  /** Base chains that decide there. */
  readonly chains: readonly string[];
  readonly verdict: PolicyVerdict;
  /** Undefined for any. */
  readonly rule: string | undefined;
  /** Nothing decides there, so the kernel may have no chain. */
  readonly mayBeMissing: boolean;
}

const OWN_TABLE = `inet ${POLICY_TABLE}`;

/** Compares what the kernel of the node did with the packet with what policies say of it. */
export function compareTrail(trail: ProbeTrail, followed: Followed): ComparedTrail {
  const kernel = kernelVerdicts(trail.steps);
  const expected = expectedPlaces(followed);
  const known = new Set(expected.flatMap(({ chains }) => chains));
  const places = expected.flatMap((each) => comparePlace(each, kernel));
  // What a chain allows that decides nothing about these ends, such as the other direction, says nothing.
  const surprises = kernel
    .filter(({ chain, verdict }) => verdict === 'deny' && !known.has(chain))
    .map((each): ComparedPlace => ({ place: { kind: 'unexpected' }, kernel: each, outcome: 'differs' }));
  const last = trail.steps.at(-1);
  const elsewhere = trail.end === 'dropped' && last !== undefined && last.table !== OWN_TABLE ? last : undefined;
  const isDecided = kernel.some(({ verdict }) => verdict === 'deny');
  const all = [...places, ...surprises];
  return {
    places: all,
    outcome: outcomeOf(all, { isCut: !isDecided && trail.end !== 'passed' }),
    ...(elsewhere === undefined ? {} : { droppedElsewhere: { table: elsewhere.table, chain: elsewhere.chain } }),
  };
}

/** A place that was not reached is explained by a denial before it, or by the end of the packet elsewhere. */
function outcomeOf(places: readonly ComparedPlace[], { isCut }: { readonly isCut: boolean }): ComparedTrail['outcome'] {
  if (places.some(({ outcome }) => outcome === 'differs')) return 'differs';
  if (isCut && (places.length === 0 || places.some(({ outcome }) => outcome === 'not reached'))) return 'unknown';
  const isDenied = places.some(({ kernel }) => kernel?.verdict === 'deny');
  return !isDenied && places.some(({ outcome }) => outcome === 'not reached') ? 'differs' : 'agrees';
}

/** Returns nothing where nothing decides and the kernel has no chain. */
function comparePlace(
  { place, chains, verdict, rule, mayBeMissing }: Expected,
  all: readonly KernelVerdict[],
): readonly ComparedPlace[] {
  const kernel = all.find(({ chain }) => chains.includes(chain));
  if (kernel === undefined) return mayBeMissing ? [] : [{ place, kernel, outcome: 'not reached' }];
  const isSame = kernel.verdict === verdict && (rule === undefined || kernel.rule === rule);
  return [{ place, kernel, outcome: isSame ? 'agrees' : 'differs' }];
}

/** The first event of a base chain is about one of its own rules, or its end. */
function kernelVerdicts(steps: readonly ProbeStep[]): readonly KernelVerdict[] {
  const verdicts: KernelVerdict[] = [];
  let base: string | undefined;
  for (const { table, chain, verdict, rule } of steps) {
    if (table !== OWN_TABLE) continue;
    base ??= chain;
    if (verdict === 'next') continue;
    verdicts.push({ chain: base, verdict: verdict === 'drop' ? 'deny' : 'allow', rule });
    base = undefined;
  }
  return verdicts;
}

/** Returns the places in the order in which the packet meets them. */
function expectedPlaces({ node, source, destination, judged, isFromOutside }: Followed): readonly Expected[] {
  const ofPod = (said: EndVerdict | undefined, chains: readonly string[]): readonly Expected[] =>
    said?.endpoint.node === node
      ? [
          {
            place: { kind: 'pod', said },
            chains,
            verdict: said.verdict,
            rule: ruleOfDecision(said, 'local'),
            mayBeMissing: false,
          },
        ]
      : [];
  const isToHost = source.pod?.node === node && destination.host === node;
  const verdict = judged.isRefusedByHost ? 'deny' : 'allow';
  const toHost: Expected = {
    place: { kind: 'to host', verdict },
    chains: ['input-host'],
    verdict,
    rule: judged.isRefusedByHost ? idOfOrigin(TO_HOST) : undefined,
    mayBeMissing: false,
  };
  const entering = isFromOutside && !coversAll(judged.entering) ? undefined : judged.entering;
  return [
    ...crossing(entering, 'ingress', { node, isEarly: true }),
    ...ofPod(judged.source, ['forward-egress', 'input-egress']),
    ...(isToHost && judged.source?.verdict === 'allow' ? [toHost] : []),
    ...ofPod(judged.destination, ['forward-ingress']),
    ...crossing(entering, 'ingress', { node, isEarly: false }),
    ...crossing(judged.leaving, 'egress', { node, isEarly: true }),
    ...crossing(judged.leaving, 'egress', { node, isEarly: false }),
  ];
}

function coversAll(said: HostVerdict | undefined): boolean {
  return said?.endpoint.interfaceName === ALL_INTERFACES;
}

const EARLY: ReadonlySet<PacketPath> = new Set(['untracked', 'preDNAT']);

function crossing(
  said: HostVerdict | undefined,
  direction: PolicyDirection,
  { node, isEarly }: { readonly node: string; readonly isEarly: boolean },
): readonly Expected[] {
  if (said?.endpoint.node !== node) return [];
  return said.paths
    .filter(({ path }) => EARLY.has(path) === isEarly)
    .map(({ path, end }) => {
      const chain = `host-${path.toLowerCase()}-${direction}`;
      return {
        place: { kind: 'host endpoint', path, said: end },
        chains: [chain, `${chain}-translated`],
        verdict: end.verdict,
        rule: ruleOfDecision(end, path),
        mayBeMissing: ['no policy', 'open port', 'neighbour discovery'].includes(end.decision.kind),
      };
    });
}
