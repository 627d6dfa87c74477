import { execFile } from 'node:child_process';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  IN_NAMESPACE,
  installationDefinition,
  installationIn,
  launchOperator,
  type OperatorCluster,
  type RunningOperator,
  SERVES,
  startOperatorCluster,
} from '../support/operator.ts';
import { HOLD_AGENTS } from '../../src/model/installation.ts';
import { NETPLUGCTL } from '../support/built.ts';
import { until } from '../support/until.ts';

/** Less than the period of the resync, so that the change must have come by the watch. */
const WATCHED_MS = 30_000;

interface Patched {
  readonly isDone: boolean;
  readonly err: string;
}

const scope = new AsyncDisposableStack();
let cluster: OperatorCluster;
let operator: RunningOperator;

beforeAll(async () => {
  cluster = scope.use(await startOperatorCluster(2));
  await cluster.api.apply([installationDefinition()]);
  operator = scope.use(await launchOperator('operator-1', cluster.kubeconfig));
}, 240_000);
afterAll(async () => scope.disposeAsync());

const { install, status, condition, become, generation, node } = installationIn(
  () => cluster.api,
  () => operator.log(),
);

describe('the operator, with exactly the rights of its account', () => {
  it('installs everything in the order of stages, with a pool that overlaps nothing, and says so', async () => {
    await install({});
    await become(SERVES);
    const { computed, components, observedGeneration } = await status();
    expect(observedGeneration).toBe(1);
    // Nodes are in 192.168.0.0/16.
    expect(computed).toMatchObject({
      cni: { type: 'netplug', ipam: { type: 'netplug-ipam' } },
      calicoNetwork: {
        ipPools: [{ cidr: '10.244.0.0/16', name: 'default-ipv4', encapsulation: 'VXLAN', blockSize: 26 }],
      },
      controlPlaneReplicas: 2,
      deletionPolicy: 'Orphan',
    });
    expect((await cluster.api.get('installation', 'default')).spec).toEqual({});
    expect(components?.map(({ name, state }) => `${name} ${state}`)).toEqual([
      'definitions Ready',
      'rights Ready',
      'admission Ready',
      'configuration Ready',
      'netplug-orch-controllers Ready',
      'netplug-node Ready',
    ]);
    expect((await cluster.api.get('ippool', 'default-ipv4')).metadata.labels).toMatchObject({
      'app.kubernetes.io/managed-by': 'netplug-operator',
    });
    expect(await cluster.api.kubectl('get', 'installation')).toMatch(
      /NAME +CNI +IPAM +AVAILABLE +PROGRESSING +DEGRADED +AGE\ndefault +True +False +False /,
    );
    const created = async (...of: string[]): Promise<number> =>
      Date.parse((await cluster.api.get(...of)).metadata.creationTimestamp);
    expect(await created('daemonset', 'netplug-node', IN_NAMESPACE)).toBeGreaterThanOrEqual(
      await created('deployment', 'netplug-orch-controllers', IN_NAMESPACE),
    );
  }, 180_000);

  it('writes nothing once everything is in its desired state', async () => {
    const before = await cluster.api.get('installation', 'default');
    const reconciles = async (): Promise<number> =>
      (await operator.metric('netplug_operator_reconciles_total{outcome="ok"}')) ?? 0;
    const changes = async (): Promise<number> =>
      (await operator.metric('netplug_operator_changes_total{change="updated"}')) ?? 0;
    const versions = async (): Promise<readonly string[]> =>
      (await cluster.api.get('configmap,serviceaccount,role,rolebinding', IN_NAMESPACE)).items.map(
        ({ metadata }: { metadata: { name: string; resourceVersion: string } }) =>
          `${metadata.name} ${metadata.resourceVersion}`,
      );
    const [runs, writes, objects] = [await reconciles(), await changes(), await versions()];
    await cluster.kubelets.addNode('n3');
    await until(async () => (await reconciles()) > runs, 'a new node causes a run');
    await become(SERVES);
    expect(await changes()).toBe(writes);
    expect(await versions()).toEqual(objects);
    const after = await cluster.api.get('installation', 'default');
    expect(after.status.conditions.map((each: { lastTransitionTime: string }) => each.lastTransitionTime)[2]).toBe(
      before.status.conditions[2].lastTransitionTime,
    );
  });

  it('applies the admission policies and puts a deleted one back, unless the Installation leaves them out', async () => {
    const kinds = 'validatingadmissionpolicies,validatingadmissionpolicybindings';
    const count = async (): Promise<number> => (await cluster.api.get(kinds)).items.length;
    expect(await count()).toBe(18);
    await cluster.api.kubectl('delete', 'validatingadmissionpolicybinding', 'netplug-node-restriction-endpoints');
    await until(async () => (await count()) === 18, 'the binding is back', WATCHED_MS);
    await install({ admissionPolicies: 'Disabled' });
    await become(SERVES, await generation());
    expect(await count()).toBe(0);
    await install({});
    await become(SERVES, await generation());
    expect(await count()).toBe(18);
  }, 180_000);

  it('never replaces the pool that it has chosen, also once that is disabled', async () => {
    const pool = async (): Promise<unknown> => (await cluster.api.get('ippool', 'default-ipv4')).spec;
    const before = await pool();
    const disable = async (disabled: boolean): Promise<unknown> =>
      cluster.api.kubectl(
        'patch',
        'ippool',
        'default-ipv4',
        '--type=merge',
        '-p',
        JSON.stringify({ spec: { disabled } }),
      );
    await disable(true);
    await install({ calicoNetwork: { mtu: 1400 } });
    await become(SERVES, await generation());
    expect(await pool()).toEqual({ ...(before as object), disabled: true });
    await disable(false);
    await install({});
    await become(SERVES, await generation());
    expect(await pool()).toEqual(before);
  }, 180_000);

  it('disables a pool that the Installation lists as disabled, and the tool says that the Installation decides', async () => {
    const { cidr } = (await cluster.api.get('ippool', 'default-ipv4')).spec;
    const patch = async (disabled: boolean): Promise<Patched> => {
      const env = { KUBECONFIG: cluster.api.kubeconfig, NETPLUG_STATE_DIR: '/nowhere' };
      const change = ['patch', 'ippool', 'default-ipv4', '--patch', `spec: {disabled: ${String(disabled)}}`];
      return new Promise((done) => {
        execFile(NETPLUGCTL, change, { env }, (error, _out, err) => done({ isDone: error === null, err }));
      });
    };
    await install({ calicoNetwork: { ipPools: [{ cidr }] } });
    await become(SERVES, await generation());
    expect(await patch(true)).toEqual({
      isDone: false,
      err: expect.stringContaining('spec.calicoNetwork.ipPools[0].disabled of Installation "default"'),
    });
    await install({ calicoNetwork: { ipPools: [{ cidr, disabled: true }] } });
    await become(SERVES, await generation());
    expect((await cluster.api.get('ippool', 'default-ipv4')).spec.disabled).toBe(true);
    await install({});
    await become(SERVES, await generation());
    expect((await patch(false)).isDone).toBe(true);
  }, 180_000);

  it('leaves it to others when agents are replaced, as long as an annotation says so', async () => {
    const strategy = async (): Promise<string> => (await node()).spec.updateStrategy.type;
    await cluster.api.kubectl('annotate', 'installation', 'default', `${HOLD_AGENTS}=v3.27.0`);
    await until(async () => (await strategy()) === 'OnDelete', 'agents are held', WATCHED_MS);
    await until(
      async () => (await status()).warnings?.some((each) => each.includes(HOLD_AGENTS)) === true,
      'it says so',
    );
    await cluster.api.kubectl('annotate', 'installation', 'default', `${HOLD_AGENTS}-`);
    await until(async () => (await strategy()) === 'RollingUpdate', 'agents are replaced one by one again', WATCHED_MS);
    expect((await node()).spec.updateStrategy.rollingUpdate).toEqual({ maxSurge: 1, maxUnavailable: 0 });
    await become(SERVES);
  });

  it('restores objects that are edited or deleted, within seconds, and says which fields it wrote over', async () => {
    const uid = (await node()).metadata.uid;
    await cluster.api.kubectl('delete', 'daemonset', 'netplug-node', IN_NAMESPACE, '--cascade=orphan');
    await until(
      async () =>
        (await cluster.api.get('daemonset', IN_NAMESPACE)).items.some(
          (each: { metadata: { name: string; uid: string } }) =>
            each.metadata.name === 'netplug-node' && each.metadata.uid !== uid,
        ),
      'the DaemonSet exists again',
      WATCHED_MS,
    );
    await cluster.api.kubectl('set', 'image', 'daemonset/netplug-node', 'agent=example.org/other:1', IN_NAMESPACE);
    await until(
      async () =>
        JSON.stringify((await node()).spec.template).includes('netplug.io/netplug-node:v3.27.0') &&
        !JSON.stringify((await node()).spec.template).includes('example.org'),
      'the image is restored',
      WATCHED_MS,
    );
    const events = await cluster.api.get('events', '--field-selector=reason=NetplugFieldsRestored');
    expect(events.items[0]?.message).toContain(
      'spec.template.spec.containers[agent].image.tag: "v3.27.0" (string) in place of "1" (string)',
    );
    for (const [kind, name] of [
      ['clusterrole', 'netplug-agent'],
      ['clusterrolebinding', 'netplug-agent'],
      ['serviceaccount', 'netplug-agent'],
      ['configmap', 'netplug-config'],
    ]) {
      await cluster.api.kubectl('delete', kind!, name!, IN_NAMESPACE);
      await until(
        async () =>
          cluster.api.get(kind!, name!, IN_NAMESPACE).then(
            () => true,
            () => false,
          ),
        `${kind!} exists again`,
        WATCHED_MS,
      );
    }
    await cluster.api.kubectl(
      'patch',
      'crd',
      'ippools.netplug.io',
      '--type=json',
      '--patch=[{"op":"remove","path":"/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/natOutgoing"}]',
    );
    await until(
      async () => JSON.stringify(await cluster.api.get('crd', 'ippools.netplug.io')).includes('natOutgoing'),
      'the definition has all fields again',
      WATCHED_MS,
    );
    await become(SERVES);
  }, 180_000);

  it('leaves objects with the annotation alone', async () => {
    await cluster.api.kubectl(
      'annotate',
      'deployment',
      'netplug-orch-controllers',
      'netplug.io/operator=unmanaged',
      IN_NAMESPACE,
    );
    await cluster.api.kubectl(
      'set',
      'env',
      'deployment/netplug-orch-controllers',
      'HTTP_PROXY=http://proxy',
      'NETPLUG_ORCHCONFIG=/other',
      IN_NAMESPACE,
    );
    await until(async () => JSON.stringify((await status()).warnings).includes('unmanaged'), 'a warning says so');
    expect(JSON.stringify(await cluster.api.get('deployment', 'netplug-orch-controllers', IN_NAMESPACE))).toContain(
      '/other',
    );
    await cluster.api.kubectl(
      'annotate',
      'deployment',
      'netplug-orch-controllers',
      'netplug.io/operator-',
      IN_NAMESPACE,
    );
    await until(
      async () =>
        !JSON.stringify((await cluster.api.get('deployment', 'netplug-orch-controllers', IN_NAMESPACE)).spec).includes(
          '/other',
        ),
      'it is managed again',
    );
    // A field that the operator does not render stays.
    expect(JSON.stringify(await cluster.api.get('deployment', 'netplug-orch-controllers', IN_NAMESPACE))).toContain(
      'HTTP_PROXY',
    );
    await become(SERVES);
  });

  it('applies later edits, and prunes what the settings no longer contain [svc-operator]', async () => {
    const ipPools = [{ cidr: '10.244.0.0/16', encapsulation: 'None' }];
    await install({ calicoNetwork: { ipPools, mtu: 1400 }, node: { env: { LOG: 'x' } } });
    await become(SERVES, await generation());
    expect((await cluster.api.get('ippool', 'default-ipv4')).spec).toMatchObject({ vxlanMode: 'Never', blockSize: 26 });
    expect((await cluster.api.get('configmap', 'netplug-config', IN_NAMESPACE)).data.conflist).toContain('"mtu": 1400');
    expect(JSON.stringify((await node()).spec)).toContain('{"name":"NETPLUG_BIRD","value":"external"}');
    await cluster.api.get('daemonset', 'netplug-bird', IN_NAMESPACE);

    const bird = ['annotate', 'daemonset', 'netplug-bird', IN_NAMESPACE];
    await cluster.api.kubectl(...bird, 'netplug.io/operator=unmanaged');
    await install({ calicoNetwork: { ipPools: [{ cidr: '10.244.0.0/16' }] } });
    await become(SERVES, await generation());
    expect(JSON.stringify((await node()).spec)).not.toContain('NETPLUG_BIRD');
    expect(JSON.stringify((await node()).spec)).not.toContain('LOG');
    await until(async () => JSON.stringify((await status()).warnings).includes('is not pruned'), 'a warning says so');
    expect((await cluster.api.get('daemonset', IN_NAMESPACE)).items).toHaveLength(2);
    await cluster.api.kubectl(...bird, 'netplug.io/operator-');
    await until(async () => (await cluster.api.get('daemonset', IN_NAMESPACE)).items.length === 1, 'it is pruned');
    expect((await cluster.api.get('daemonset', IN_NAMESPACE)).items).toHaveLength(1);
  }, 180_000);

  it('refuses what cannot be carried out with field and remedy, and keeps the last accepted settings in force', async () => {
    const refuse = async (spec: object, ...texts: readonly string[]): Promise<void> => {
      await install(spec);
      await become({ Available: 'True', Progressing: 'False', Degraded: 'True' }, await generation());
      const { reason, message } = await condition('Degraded');
      expect(reason).toBe('InvalidConfiguration');
      for (const text of texts) expect(message).toContain(text);
    };
    await refuse(
      { calicoNetwork: { ipPools: [{ cidr: '10.244.0.0/16' }, { cidr: '10.244.7.0/24' }] } },
      'spec.calicoNetwork.ipPools[1].cidr',
      'overlaps calicoNetwork.ipPools[0].cidr',
    );
    await refuse(
      { calicoNetwork: { ipPools: [{ cidr: '10.245.0.0/16' }] } },
      'spec.calicoNetwork.ipPools[0].cidr: cannot be changed from 10.244.0.0/16',
      'create another pool',
    );
    await refuse(
      { calicoNetwork: { ipPools: [{ cidr: '10.244.0.0/16', blockSize: 24 }] } },
      'spec.calicoNetwork.ipPools[0].blockSize: cannot be changed from 26 to 24',
    );
    await refuse(
      { calicoNetwork: { ipPools: [{ cidr: '10.96.0.0/20', name: 'other' }] } },
      'spec.calicoNetwork.ipPools[0].cidr: 10.96.0.0/20 overlaps 10.96.0.0/16, a range of Services',
    );
    await refuse(
      { calicoNetwork: { ipPools: [{ cidr: '192.168.0.0/16', name: 'other' }] } },
      'the address of node "n1"',
    );
    await refuse({ calicoNetwork: { mtuu: 1400 } }, 'spec.calicoNetwork.mtuu', 'did you mean "mtu"');
    await cluster.api.apply([
      {
        apiVersion: 'netplug.io/v3',
        kind: 'IPPool',
        metadata: { name: 'mine' },
        spec: { cidr: '10.9.0.0/16', natOutgoing: false },
      },
    ]);
    await refuse(
      { calicoNetwork: { ipPools: [{ cidr: '10.9.0.0/16', name: 'mine', natOutgoing: 'Enabled' }] } },
      'spec.calicoNetwork.ipPools[0]: differs from pool "mine", which the operator does not own',
      'kubectl label ippool mine',
    );
    await refuse(
      { calicoNetwork: { ipPools: [{ cidr: '10.9.1.0/24', name: 'part' }] } },
      'overlaps 10.9.0.0/16 of pool "mine"',
    );
    // Drift is repaired meanwhile.
    await cluster.api.kubectl('delete', 'daemonset', 'netplug-node', IN_NAMESPACE);
    await until(
      async () =>
        node().then(
          () => true,
          () => false,
        ),
      'the DaemonSet exists again',
    );
    await install({ calicoNetwork: { ipPools: [{ cidr: '10.244.0.0/16' }] } });
    await cluster.api.kubectl('delete', 'ippool', 'mine');
    await become(SERVES, await generation());
  }, 240_000);

  it('stops a roll-out at the node that does not become ready, and names it with the reason', async () => {
    cluster.kubelets.failOn('n2', 'ImagePullBackOff');
    // The tests that follow want nodes that work, whatever becomes of this one.
    using _ = { [Symbol.dispose]: () => cluster.kubelets.failOn('n2', undefined) };
    await install({ node: { env: { ROLL: 'out' } } });
    await become({ Available: 'True', Progressing: 'True', Degraded: 'True' }, await generation());
    // A node before it may not be ready yet.
    const says = /netplug-node: .*node "n2": container agent waits: ImagePullBackOff/;
    await until(async () => says.test((await condition('Degraded'))?.message ?? ''), 'the node is named');
    expect(await condition('Degraded')).toMatchObject({ reason: 'ComponentFailing' });
    await until(async () => (await node()).status.numberAvailable === 3, 'every node has an agent that serves');
    // Left out while it is zero.
    expect((await node()).status.updatedNumberScheduled ?? 0).toBeLessThanOrEqual(3);
    cluster.kubelets.failOn('n2', undefined);
    await become(SERVES);
  }, 180_000);

  it('sets USE_POD_CIDR with HostLocal and warns of nodes without a pod CIDR [auth-podcidr]', async () => {
    await install({ cni: { ipam: { type: 'HostLocal' } } });
    await become(SERVES, await generation());
    expect(JSON.stringify((await node()).spec)).toContain('{"name":"USE_POD_CIDR","value":"true"}');
    const { warnings } = await status();
    expect(warnings?.join('\n')).toContain('3 of 3 nodes have no pod CIDR, such as "n1"');
    expect(warnings?.join('\n')).toContain('IPPool "default-ipv4" is no longer listed and stays');
    await cluster.api.get('ippool', 'default-ipv4');
    await install({});
    await become(SERVES, await generation());
  }, 180_000);

  it('keeps working when the API server restarts', async () => {
    await cluster.api.restart();
    await cluster.api.kubectl('delete', 'configmap', 'netplug-config', IN_NAMESPACE);
    await until(
      async () =>
        cluster.api.get('configmap', 'netplug-config', IN_NAMESPACE).then(
          () => true,
          () => false,
        ),
      'the ConfigMap exists again',
    );
    await become(SERVES);
    expect(await operator.readyz()).toBe('ok');
  });

  it('leads alone: a second operator says who leads, and takes over', async () => {
    const second = await launchOperator('operator-2', cluster.kubeconfig);
    scope.use(second);
    await until(() => second.log().includes('leadership held by another operator'), 'it says so');
    expect(second.log()).toMatch(/leadership held by another operator holder=operator-1_/);
    expect(await second.metric('netplug_operator_leading')).toBe(0);
    await operator.stop('TERM');
    operator = second;
    await until(
      async () => (await second.metric('netplug_operator_leading')) === 1,
      () => `it leads:\n${operator.log()}`,
    );
    await cluster.api.kubectl('delete', 'configmap', 'netplug-config', IN_NAMESPACE);
    await until(
      async () =>
        cluster.api.get('configmap', 'netplug-config', IN_NAMESPACE).then(
          () => true,
          () => false,
        ),
      'it works',
    );
  });

  it('reports what it may not read as unknown and what it may not write as degraded, with the remedy', async () => {
    const role = await cluster.api.get('role', 'netplug-operator-namespace', IN_NAMESPACE);
    const without = (resource: string, verbs: readonly string[]): object => ({
      ...role,
      metadata: { name: role.metadata.name, namespace: 'netplug-system' },
      rules: role.rules.map((rule: { resources: string[]; verbs: string[] }) =>
        rule.resources.includes(resource)
          ? { ...rule, verbs: rule.verbs.filter((verb) => !verbs.includes(verb)) }
          : rule,
      ),
    });
    const given = without('none', []);
    await cluster.api.apply([without('daemonsets', ['patch'])]);
    await cluster.api.kubectl('set', 'image', 'daemonset/netplug-node', 'agent=example.org/other:1', IN_NAMESPACE);
    await become({ Degraded: 'True' });
    expect(await condition('Degraded')).toMatchObject({
      reason: 'NotPermitted',
      message: expect.stringMatching(
        /DaemonSet netplug-system\/netplug-node.*cannot patch.*netplugctl install manifest operator/,
      ) as string,
    });
    await cluster.api.apply([given]);
    await become(SERVES);
    await cluster.api.apply([without('daemonsets', ['get'])]);
    await cluster.api.kubectl('annotate', 'daemonset', 'netplug-node', 'a=b', IN_NAMESPACE);
    await become({ Available: 'Unknown', Degraded: 'Unknown' });
    expect((await condition('Available')).message).toContain('Cannot read DaemonSet netplug-system/netplug-node');
    await cluster.api.apply([given]);
    await become(SERVES);
  }, 240_000);
});
