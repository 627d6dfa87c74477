import { ARCHITECTURES, isTooOld, REQUIREMENTS, SERVICE_PROXY } from '../model/requirements.ts';
import { type Check, type Fault, faultOf } from './check.ts';
import type { NodeState } from '../kube/status/node-state.ts';
import type { ClusterFacts } from './cluster-facts.ts';

const SKEW_MS = 30_000;
const { kubernetes, containerd, kernel } = REQUIREMENTS;

/** Checks of the API server. */
export const SERVER_CHECKS: readonly Check<ClusterFacts>[] = [
  {
    id: 'server/too-old',
    severity: 'error',
    expected: `an API server of Kubernetes ${kubernetes.oldest} or later`,
    remedy: 'Upgrade Kubernetes first; an older release of netplug keeps working meanwhile',
    judge: (facts) =>
      faultOf(
        isTooOld('kubernetes', facts.kubernetes) ? [`API server (${facts.kubernetes})`] : [],
        `the API server has version ${facts.kubernetes}`,
      ),
  },
  {
    id: 'server/rights',
    severity: 'error',
    expected: 'every right that the steps need',
    remedy: 'Use an account with these rights, such as one bound to cluster-admin (--kubeconfig, --context)',
    needs: ['rights'],
    judge: ({ missingRights }) => faultOf(missingRights, 'your account lacks rights that the steps need'),
  },
];

/** Checks of the nodes on which netplug runs. */
export const NODE_REQUIREMENTS: readonly Check<ClusterFacts>[] = [
  {
    id: 'nodes/kubelet-too-old',
    severity: 'error',
    expected: `every kubelet of Kubernetes ${kubernetes.oldest} or later`,
    remedy: 'Upgrade the kubelets of these nodes first',
    needs: ['nodes'],
    judge: ({ nodes }) =>
      nodeFault(
        'kubelets are older than supported',
        nodes.filter(({ kubelet }) => isTooOld('kubernetes', kubelet)),
        ({ kubelet }) => kubelet,
      ),
  },
  {
    id: 'nodes/runtime-too-old',
    severity: 'error',
    expected: `containerd ${containerd.oldest} or later on every node that runs containerd`,
    remedy: 'Upgrade containerd on these nodes first',
    needs: ['nodes'],
    judge: ({ nodes }) =>
      nodeFault(
        'nodes run a containerd that is not supported',
        nodes.filter(({ runtime }) => isTooOld('containerd', /^containerd:\/\/(.+)$/.exec(runtime)?.[1] ?? '')),
        ({ runtime }) => runtime,
      ),
  },
  {
    id: 'nodes/kernel-too-old',
    severity: 'error',
    expected: `Linux ${kernel.oldest} or later on every node`,
    remedy: 'Upgrade the kernel of these nodes first',
    needs: ['nodes'],
    judge: ({ nodes }) =>
      nodeFault(
        'nodes have a kernel that is not supported',
        nodes.filter((node) => isTooOld('kernel', node.kernel)),
        (node) => node.kernel,
      ),
  },
  {
    id: 'nodes/clock-skew',
    severity: 'error',
    expected: `clocks of nodes within ${String(SKEW_MS / 1000)} s of that of the API server`,
    remedy: 'Synchronize the clocks (NTP): tokens and certificates would be refused',
    needs: ['nodes', 'clocks'],
    judge: ({ nodes }) =>
      nodeFault(
        'the clocks of nodes differ from that of the API server',
        nodes.filter(({ clockAheadMs = 0 }) => Math.abs(clockAheadMs) > SKEW_MS),
        ({ clockAheadMs = 0 }) =>
          `${String(Math.round(Math.abs(clockAheadMs) / 1000))} s ${clockAheadMs > 0 ? 'ahead' : 'behind'}`,
      ),
  },
  {
    id: 'nodes/architecture',
    severity: 'error',
    expected: `nodes of the architectures ${ARCHITECTURES.join(' and ')}`,
    remedy: 'Keep netplug off these nodes with spec.node.nodeSelector, or remove the nodes',
    needs: ['nodes'],
    judge: ({ nodes }) =>
      nodeFault(
        'nodes have an architecture for which there is no image',
        nodes.filter(({ architecture }) => !ARCHITECTURES.includes(architecture)),
        ({ architecture }) => architecture,
      ),
  },
];

export const LOST_RIGHTS_CHECK: Check<ClusterFacts> = {
  id: 'bindings/lose-rights',
  severity: 'warning',
  expected: 'no bound user who loses rights with the roles of the release',
  remedy:
    'Bind netplug-installer to users who must write the Installation; it amounts to cluster-admin. What else they lose is for administrators of the cluster',
  needs: ['bindings'],
  judge: ({ lostRights }) =>
    lostRights.flatMap(({ role, rights, bindings }) =>
      faultOf(bindings, `the role ${role} loses ${rights.join(', ')}, and these bindings give it to users`),
    ),
};

export const WEBHOOK_CHECK: Check<ClusterFacts> = {
  id: 'server/webhooks',
  severity: 'error',
  expected: 'no webhook with failurePolicy Fail that depends on the network of pods and is asked about pods of netplug',
  remedy:
    'Exclude the namespace netplug-system by a namespaceSelector of the webhook, or set failurePolicy: Ignore for the time of the change',
  needs: ['webhooks'],
  judge: ({ webhooks }) =>
    faultOf(
      webhooks.filter((hook) => hook.isBehindPodNetwork && hook.failurePolicy === 'Fail').map(({ name }) => name),
      'webhooks behind the network of pods must answer before an agent can start',
    ),
};

export const PROXY_CHECK = {
  id: 'cluster/ipvs',
  severity: 'warning',
  expected: `kube-proxy in the mode ${SERVICE_PROXY.supported.join(' or ')}`,
  remedy: 'Set mode of kube-proxy to nftables, and replace its pods',
  needs: ['service proxy'],
  judge: ({ proxyMode }) => (proxyMode === 'ipvs' ? [`kube-proxy has the mode ipvs: ${SERVICE_PROXY.notIpvs}`] : []),
} satisfies Check<Pick<ClusterFacts, 'proxyMode'>>;

/** Returns checks of what the admission policies refuse, which are silent where none are wanted. */
export function admissionChecks<F extends ClusterFacts>(areWanted: (facts: F) => boolean): readonly Check<F>[] {
  return [
    {
      id: 'admission/refused-pods',
      severity: 'error',
      expected: 'pods and templates whose address annotations the admission policies allow',
      remedy:
        'Allow them in the namespace: kubectl label namespace NAMESPACE netplug/allow-address-annotations= , or bind the role netplug-use-floating-ips or netplug-use-ip-addrs-no-ipam to the service account of the pods. Without the policies: spec.admissionPolicies: Disabled',
      needs: ['admission'],
      judge: (facts) =>
        faultOf(
          areWanted(facts) ? facts.refusedPods : [],
          'the API server would refuse the next pods of these objects',
        ),
    },
    {
      id: 'admission/agent-outside-pod',
      severity: 'warning',
      expected:
        'agents in pods, whose tokens Kubernetes binds to the node; an agent without such a token may write nothing',
      remedy:
        'Run "netplugctl doctor" on these nodes: it reports a token that is bound to no node (store/unbound-token). Request one with: kubectl create token netplug-agent --namespace=netplug-system --bound-object-kind=Node --bound-object-name=NODE',
      needs: ['admission'],
      judge: (facts) =>
        faultOf(
          areWanted(facts) ? facts.agentsOutsidePods.map((name) => `Node ${name}`) : [],
          'an agent has registered these nodes, and no pod runs one there',
        ),
    },
  ];
}

/** Returns one fault for all the nodes, or none without nodes. `tell` returns what is wrong with one. */
export function nodeFault(
  found: string,
  nodes: readonly NodeState[],
  tell: (node: NodeState) => string = () => '',
): readonly Fault[] {
  const objects = nodes.map((node) => {
    const text = tell(node);
    return `Node ${node.name}${text === '' ? '' : ` (${text})`}`;
  });
  return faultOf(objects, found);
}
