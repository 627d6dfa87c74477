import * as v from 'valibot';
import { type Cidr, cidrContains, formatCidr, tryReadCidr } from '../../net/cidr.ts';
import type { Direction } from '../check-rules.ts';
import type { NetworkPolicy, PolicyType } from '../policy.ts';
import {
  KUBERNETES_POLICY_ORDER,
  kubernetesPolicyName,
  ORCHESTRATOR_LABEL,
  ownLabelName,
  profileLabelName,
  WRITTEN_RULE,
} from '../policy-names.ts';
import { type Entity, MOST_RULE_ENTRIES, type Rule } from '../policy-rule.ts';
import { API_VERSION } from '../resource.ts';
import { ageOf, type Converted, type KubernetesObject } from './kubernetes-object.ts';
import { LabelSelector, selectorTerms } from './label-selector.ts';
import { groupPorts, PolicyPort } from './policy-ports.ts';
import { issueText } from '../read-schema.ts';

const ONLY_PODS = `${ORCHESTRATOR_LABEL} == 'orch'`;

/** A network of a peer, as Kubernetes accepts it: with host bits. */
const Net = v.pipe(
  v.string('a network of it is no CIDR'),
  v.rawTransform(({ dataset, addIssue, NEVER }): Cidr => {
    const reading = tryReadCidr(dataset.value);
    if (reading !== undefined) return reading.cidr;
    addIssue({ message: `"${dataset.value}" is no CIDR` });
    return NEVER;
  }),
);
const IpBlock = v.pipe(
  v.object({ cidr: Net, except: v.nullish(v.array(Net), []) }),
  v.check(({ cidr, except }) => except.every((net) => cidrContains(cidr, net)), 'except is outside of cidr'),
);
const Peer = v.pipe(
  v.object({
    podSelector: v.nullish(LabelSelector),
    namespaceSelector: v.nullish(LabelSelector),
    ipBlock: v.nullish(IpBlock),
  }),
  // Also a peer of a kind that a newer Kubernetes has: it must not allow everything.
  v.check(
    ({ podSelector, namespaceSelector, ipBlock }) =>
      isGiven(ipBlock) !== (isGiven(podSelector) || isGiven(namespaceSelector)),
    'a peer needs selectors or an ipBlock, and not both',
  ),
);
const Ports = v.nullish(v.array(PolicyPort), []);
const Peers = v.nullish(v.array(Peer), []);
const RULES = {
  ingress: v.pipe(
    v.object({ from: Peers, ports: Ports }),
    v.transform(({ from, ports }) => ({ peers: from, ports })),
  ),
  egress: v.pipe(
    v.object({ to: Peers, ports: Ports }),
    v.transform(({ to, ports }) => ({ peers: to, ports })),
  ),
};
type WrittenRule = v.InferOutput<typeof RULES.ingress>;

const Spec = v.object({
  podSelector: v.nullish(LabelSelector),
  policyTypes: v.nullish(v.array(v.picklist(['Ingress', 'Egress'])), []),
  ingress: v.nullish(v.array(v.unknown()), []),
  egress: v.nullish(v.array(v.unknown()), []),
});

/** What a selector takes besides its rule: sets of addresses and networks in each family, and comparisons with every pod. */
const SELECTING = 15;

/** Rules of one direction that are named one by one; users write as many as fit into an object. */
const MOST_PROBLEMS = 10;

/**
 * Returns the policy that means the same as a Kubernetes NetworkPolicy. A rule that cannot be used is left out and reported,
 * so that it allows nothing. Without a value, the policy must isolate its namespace.
 */
export function fromKubernetesPolicy(object: KubernetesObject): Converted<NetworkPolicy> {
  const { name, namespace = 'default' } = object.metadata;
  const shown = `Kubernetes NetworkPolicy ${namespace}/${name}`;
  const read = v.safeParse(Spec, object['spec'] ?? {});
  if (!read.success) return { value: undefined, problems: [`${shown} cannot be used: ${issueText(read.issues[0])}`] };
  const { podSelector, policyTypes, ingress, egress } = read.output;
  const problems: string[] = [];
  const convert = (direction: Direction, written: readonly unknown[]): Rule[] => {
    let [entries, refused] = [0, 0];
    const rules = written.slice(0, MOST_RULE_ENTRIES).flatMap((raw, index) => {
      const refuse = (why: string): [] => {
        refused += 1;
        if (refused > MOST_PROBLEMS) return [];
        problems.push(`${shown}: ${direction}[${String(index)}] allows nothing, because it cannot be used: ${why}`);
        return [];
      };
      const rule = v.safeParse(RULES[direction], raw);
      if (!rule.success) return refuse(issueText(rule.issues[0]));
      const count = countEntries(rule.output);
      if (entries + count > MOST_RULE_ENTRIES)
        return refuse(
          `the policy would have more than ${String(MOST_RULE_ENTRIES)} entries with it, as each peer counts all ports`,
        );
      entries += count;
      return rulesOf(rule.output, direction, index);
    });
    const unnamed = Math.max(0, refused - MOST_PROBLEMS) + Math.max(0, written.length - MOST_RULE_ENTRIES);
    if (unnamed > 0) problems.push(`${shown}: ${String(unnamed)} more rules of ${direction} allow nothing`);
    return rules;
  };
  const value: NetworkPolicy = {
    apiVersion: API_VERSION,
    kind: 'NetworkPolicy',
    metadata: { name: kubernetesPolicyName(name), namespace, ...ageOf(object) },
    spec: {
      order: KUBERNETES_POLICY_ORDER,
      selector: podTerms(podSelector),
      types: typesOf(policyTypes, egress),
      ingress: convert('ingress', ingress),
      egress: convert('egress', egress),
    },
  };
  return { value, problems };
}

/** Returns the policy for an object that cannot be used at all: it isolates every pod of the namespace. */
export function isolatingNetworkPolicy(name: string, namespace = 'default'): NetworkPolicy {
  return {
    apiVersion: API_VERSION,
    kind: 'NetworkPolicy',
    metadata: { name, namespace },
    spec: {
      order: KUBERNETES_POLICY_ORDER,
      selector: ONLY_PODS,
      types: ['Ingress', 'Egress'],
      ingress: [],
      egress: [],
    },
  };
}

function typesOf(written: readonly PolicyType[], egress: readonly unknown[]): readonly PolicyType[] {
  if (written.length > 0) return [...new Set(written)];
  return egress.length > 0 ? ['Ingress', 'Egress'] : ['Ingress'];
}

/** Counts before anything is multiplied: the product may be larger than the memory. Never more than a rule may have. */
function countEntries({ peers, ports }: WrittenRule): number {
  const groups = groupPorts(ports);
  const rules = Math.max(groups.length, 1);
  const portsOfEach = groups.reduce((sum, group) => sum + (group.ports?.length ?? 0), 0);
  const nets = peers.filter(isNetOnly);
  const families = new Set(nets.map(({ ipBlock }) => ipBlock.cidr.base.family)).size;
  const selecting = peers.filter(({ ipBlock }) => !isGiven(ipBlock)).length;
  const alternatives = Math.max(families + peers.length - nets.length, 1);
  return alternatives * (rules + portsOfEach) + rules * (nets.length + selecting * SELECTING);
}

/**
 * Returns a rule for each peer and protocol, which are alternatives; networks of a family without exceptions share one. No peers are
 * any peer, no ports any protocol.
 */
function rulesOf({ peers, ports }: WrittenRule, direction: Direction, index: number): Rule[] {
  const entities = peers.length > 0 ? entitiesOf(peers) : [undefined];
  const groups = ports.length > 0 ? groupPorts(ports) : [undefined];
  const metadata = { annotations: { [WRITTEN_RULE]: String(index) } };
  return groups.flatMap((group) => {
    const withPorts = group?.ports === undefined ? undefined : { ports: group.ports };
    return entities.map((peer): Rule => {
      const destination = direction === 'egress' && peer !== undefined ? { ...peer, ...withPorts } : withPorts;
      return {
        action: 'Allow',
        ...(group === undefined ? {} : { protocol: group.protocol }),
        ...(direction === 'ingress' && peer !== undefined ? { source: peer } : {}),
        ...(destination === undefined ? {} : { destination }),
        metadata,
      };
    });
  });
}

function entitiesOf(peers: WrittenRule['peers']): readonly Entity[] {
  const joined = peers.flatMap((peer) => (isNetOnly(peer) ? [peer.ipBlock.cidr] : []));
  const families = [...Map.groupBy(joined, ({ base }) => base.family).values()];
  const others = peers.filter((peer) => !isNetOnly(peer)).map(entityOf);
  return [...families.map((cidrs) => ({ nets: [...new Set(cidrs.map(formatCidr))] })), ...others];
}

type WrittenPeer = v.InferOutput<typeof Peer>;

function isNetOnly(peer: WrittenPeer): peer is WrittenPeer & { readonly ipBlock: v.InferOutput<typeof IpBlock> } {
  return isGiven(peer.ipBlock) && peer.ipBlock.except.length === 0;
}

function entityOf({ podSelector, namespaceSelector, ipBlock }: WrittenPeer): Entity {
  if (isGiven(ipBlock)) {
    const except = ipBlock.except.map(formatCidr);
    return { nets: [formatCidr(ipBlock.cidr)], ...(except.length === 0 ? {} : { notNets: except }) };
  }
  const selector = podTerms(podSelector);
  if (!isGiven(namespaceSelector)) return { selector };
  const terms = selectorTerms(namespaceSelector, profileLabelName);
  return { selector, namespaceSelector: terms.length === 0 ? 'all()' : terms.join(' && ') };
}

/** Kubernetes selects pods alone, and no network sets. */
function podTerms(selector: v.InferOutput<typeof LabelSelector> | null | undefined): string {
  return [ONLY_PODS, ...(isGiven(selector) ? selectorTerms(selector, ownLabelName) : [])].join(' && ');
}

function isGiven<T>(value: T | null | undefined): value is T {
  return value !== undefined && value !== null;
}
