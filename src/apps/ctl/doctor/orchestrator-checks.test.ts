import { describe, expect, it } from 'vitest';
import { cannedApi } from '../../../../test/support/canned-api.ts';
import { expectEachCheck } from '../../../../test/support/checks.ts';
import { nodeStateOf } from '../../../kube/status/node-state.ts';
import { readProxyMode } from '../cluster/read-proxy-mode.ts';
import { ORCHESTRATOR_CHECKS, type OrchestratorFacts, waitingNodes } from './orchestrator-checks.ts';

const SOUND: OrchestratorFacts = { proxyMode: 'nftables', waiting: [], unknown: undefined };

describe('doctor checks of the orchestrator', () => {
  expectEachCheck(ORCHESTRATOR_CHECKS, SOUND, {
    'plugin-not-loaded': { waiting: ['node-a'] },
    ipvs: { proxyMode: 'ipvs' },
  });
});

describe('a node that waits for a network plugin', () => {
  const READY = '2026-12-01T10:00:00Z';
  const condition = (status: string, message: string) => ({
    conditions: [{ type: 'Ready', status, reason: 'KubeletNotReady', message, lastTransitionTime: READY }],
  });
  const node = (message: string, status = 'False') =>
    nodeStateOf({ metadata: { name: 'node-a', resourceVersion: '1' }, status: condition(status, message) });
  const agent = (status: string) => ({
    metadata: { name: 'agent', resourceVersion: '1' },
    spec: { nodeName: 'node-a' },
    status: condition(status, ''),
  });
  const WAITS =
    'container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not initialized';

  it.each<[string, string[], ReturnType<typeof node>, string, number]>([
    ['named a minute after its agent is ready', ['node-a'], node(WAITS), 'True', 61],
    ['not named before', [], node(WAITS), 'True', 59],
    ['not named while its agent is not ready', [], node(WAITS), 'False', 600],
    ['not named when it waits for something else', [], node('PLEG is not healthy'), 'True', 600],
    ['not named when it is ready', [], node('kubelet is posting ready status', 'True'), 'True', 600],
  ])('is %s', (_, waiting, state, isReady, seconds) => {
    const now = Date.parse(READY) + seconds * 1000;
    expect(waitingNodes({ nodes: [state], agents: [agent(isReady)] }, now)).toEqual(waiting);
  });
});

describe('the mode of kube-proxy', () => {
  const at = '/namespaces/kube-system';
  const set = (command: readonly string[]) => ({
    [`/apis/apps/v1${at}/daemonsets/kube-proxy`]: {
      metadata: { name: 'kube-proxy', resourceVersion: '1' },
      spec: { template: { spec: { containers: [{ command: ['kube-proxy', ...command] }] } } },
    },
  });
  const config = (text: string) => ({
    [`/api/v1${at}/configmaps/kube-proxy`]: {
      metadata: { name: 'kube-proxy', resourceVersion: '1' },
      data: { 'config.conf': `kind: KubeProxyConfiguration\nipvs:\n  scheduler: rr\n${text}\n`, 'kubeconfig.conf': '' },
    },
  });

  it.each([
    ['that of its configuration', 'ipvs', { ...set(['--config=/c']), ...config('mode: ipvs') }],
    ['without quotes', 'nftables', config('mode: "nftables"')],
    [
      'that of its flag, which takes precedence',
      'iptables',
      { ...set(['--proxy-mode=iptables']), ...config('mode: ipvs') },
    ],
    ['not known with the default of its release', undefined, { ...set([]), ...config('mode: ""') }],
    ['not known without kube-proxy', undefined, {}],
  ])('is %s', async (_, mode, answers) => {
    await using api = cannedApi(answers);
    expect(await readProxyMode(api, AbortSignal.timeout(5000))).toBe(mode);
  });
});
