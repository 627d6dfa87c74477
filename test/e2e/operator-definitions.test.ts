import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  installationDefinition,
  installationIn,
  launchOperator,
  type OperatorCluster,
  type RunningOperator,
  SERVES,
  startOperatorCluster,
} from '../support/operator.ts';
import { until } from '../support/until.ts';

const scope = new AsyncDisposableStack();
let cluster: OperatorCluster;
let operator: RunningOperator;

const { install, status, condition, become } = installationIn(
  () => cluster.api,
  () => operator.log(),
);

beforeAll(async () => {
  cluster = scope.use(await startOperatorCluster(1));
  await cluster.api.apply([installationDefinition()]);
  operator = scope.use(await launchOperator('operator-1', cluster.kubeconfig));
  await install({});
  await become(SERVES);
}, 240_000);
afterAll(async () => scope.disposeAsync());

describe('the operator and CRDs', () => {
  it('leaves a definition of a newer release as it is, and restores one that lacks fields, has others, or tells no release', async () => {
    const place = '/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties';
    const patchPools = async (...operations: object[]): Promise<unknown> =>
      cluster.api.kubectl('patch', 'crd', 'ippools.netplug.io', '--type=json', `--patch=${JSON.stringify(operations)}`);
    const fields = async (): Promise<string> =>
      JSON.stringify((await cluster.api.get('crd', 'ippools.netplug.io')).spec.versions[0].schema);
    const label = '/metadata/labels/netplug.io~1release';
    const edits = [
      { op: 'add', path: `${place}/weight`, value: { type: 'integer' } },
      { op: 'add', path: `${place}/ipipMode/enum`, value: ['Never'] },
      { op: 'remove', path: `${place}/natOutgoing` },
    ];
    const expectRestored = async (): Promise<void> => {
      await until(async () => (await fields()) === given, 'the definition is restored');
      await become(SERVES);
      expect(await releaseOf()).toBe('v3.27.0');
    };
    const releaseOf = async (): Promise<string> =>
      (await cluster.api.get('crd', 'ippools.netplug.io')).metadata.labels['netplug.io/release'];
    const given = await fields();
    for (const release of ['v3.28.0', 'v3.27.1-rc.1']) {
      await patchPools({ op: 'add', path: label, value: release }, ...edits);
      await until(
        async () =>
          JSON.stringify((await status()).warnings).includes(`it is of release ${release}, this operator is v3.27.0`),
        'a warning names both releases',
      );
      expect(await fields()).not.toContain('natOutgoing');
      await become(SERVES);
      await patchPools({ op: 'remove', path: label });
      await expectRestored();
    }
    for (const release of ['v3.27.0', 'v3.27.0-rc.1', 'v3.26.3', 'nightly']) {
      await patchPools({ op: 'add', path: label, value: release }, ...edits);
      await expectRestored();
    }
  }, 240_000);

  it('reports an older definition that it may not change', async () => {
    const role = await cluster.api.get('clusterrole', 'netplug-operator');
    const { name } = role.metadata;
    const rules = role.rules.map((rule: { apiGroups: string[]; verbs: string[] }) =>
      rule.apiGroups.includes('apiextensions.k8s.io') ? { ...rule, verbs: ['get', 'list', 'watch'] } : rule,
    );
    await cluster.api.apply([{ ...role, metadata: { name }, rules }]);
    await cluster.api.kubectl(
      'patch',
      'crd',
      'ippools.netplug.io',
      '--type=json',
      '--patch=[{"op":"remove","path":"/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/natOutgoing"}]',
    );
    await become({ Degraded: 'True' });
    expect((await condition('Degraded')).message).toMatch(/CustomResourceDefinition ippools.netplug.io/);
    await cluster.api.apply([{ ...role, metadata: { name } }]);
    await become(SERVES);
  });
});
