// What keeps netplug from working on a node of a real cluster: what the installation says, what it leaves, how it recovers.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CONF_DIR, CONF_NAME } from '../../src/install/places.ts';
import type { Cluster } from '../support/cluster.ts';
import { mustRunCtl, runCtl, startEmptyCluster } from '../support/install-scenes.ts';
import { type Json, until } from '../support/node.ts';

const BIN_DIR = '/opt/cni/bin';
const FOREIGN = `${CONF_DIR}/05-other.conflist`;
const SYSTEM = '--namespace=netplug-system';

describe('a node that is not fit for netplug', () => {
  let cluster: Cluster;

  beforeAll(async () => {
    cluster = await startEmptyCluster();
  }, 300_000);
  afterAll(async () => cluster?.[Symbol.asyncDispose]());

  const onNode = async (index: number, script: string): Promise<string> =>
    cluster.node(index).machine.exec('sh', '-c', script);
  const listing = async (index: number, folder: string): Promise<readonly string[]> =>
    (await onNode(index, `ls -A ${folder}`)).split('\n').filter((name) => name !== '');
  const degraded = async (): Promise<Json> => {
    // At the beginning there is no such kind.
    const { status } = await cluster.get('installations.netplug.io', 'default').catch(() => ({}));
    return status?.conditions?.find(({ type }: Json) => type === 'Degraded');
  };
  /** What the agent of a node answers to its readiness probe. */
  const readyzOf = async (node: string): Promise<string> => {
    const { items } = await cluster.get(
      'pods',
      SYSTEM,
      '--selector=app.kubernetes.io/name=netplug-node',
      `--field-selector=spec.nodeName=${node}`,
    );
    const [pod] = items;
    if (pod === undefined) return 'no pod';
    return cluster
      .kubectl('exec', SYSTEM, '--container=agent', pod.metadata.name, '--', 'netplug-probe', '/readyz')
      .catch(String);
  };
  /** Waits until the condition Degraded says it. */
  const becomeDegraded = async (says: RegExp): Promise<void> => {
    let last: Json;
    await until(
      async () => {
        last = await degraded();
        return last?.status === 'True' && says.test(last.message);
      },
      () => `Degraded says ${String(says)}: ${JSON.stringify(last)}`,
      120_000,
    );
  };

  it('is refused when the runtime reads the configuration of another plugin first', async () => {
    await onNode(1, `mkdir -p ${CONF_DIR} && echo '{"cniVersion":"1.0.0","name":"other","plugins":[]}' > ${FOREIGN}`);
    const { status, stderr } = await runCtl(cluster, ['install', 'cluster', '--method', 'operator', '--yes']);
    expect({ status, stderr }).toMatchObject({ status: 69 });
    expect(stderr).toContain(
      `node-b: ${FOREIGN}: the runtime reads this configuration of another plugin first; remove it, or use --variant second-plugin`,
    );
    const { items } = await cluster.get('crds,clusterroles,daemonsets,deployments,pods', '--all-namespaces');
    expect(items.filter(({ metadata }: Json) => metadata.name.includes('netplug'))).toEqual([]);
    await onNode(1, `rm ${FOREIGN}`);
  });

  it('is named while its folder of plugins is read-only or that of configurations is full, and recovers by itself', async () => {
    // Read-only as a whole, so that no mount of it can be written.
    await onNode(
      0,
      `mkdir /run/kept && cp -a ${BIN_DIR}/. /run/kept && mount -t tmpfs tmpfs ${BIN_DIR} && cp -a /run/kept/. ${BIN_DIR} && mount -o remount,ro ${BIN_DIR}`,
    );
    const plugins = await listing(0, BIN_DIR);
    await onNode(1, `mount -t tmpfs -o size=16k tmpfs ${CONF_DIR}`);
    await cluster.node(1).machine.run(['dd', 'if=/dev/zero', `of=${CONF_DIR}/fill`]);
    // It watches the folder that it finds when it starts.
    await cluster.node(1).containerd.restart();

    const install = runCtl(cluster, ['install', 'cluster', '--method', 'operator', '--yes', '--timeout', '400']);
    await becomeDegraded(
      /node "node-a": container install waits: CrashLoopBackOff \(Cannot write "\/opt\/cni\/bin\/[^"]*": the file system is read-only; hint: Mount it read-write/,
    );
    let ready = '';
    await until(
      async () => (ready = await readyzOf('node-b')).includes(`Cannot write "${CONF_DIR}/`),
      () => `the agent of node-b says what it cannot write: ${ready}`,
      120_000,
    );
    expect(ready).toMatch(/: no space left on device \(Free disk space/);
    // Nothing is half written, and the runtimes have no network to use.
    expect(await listing(0, BIN_DIR)).toEqual(plugins);
    expect(await listing(0, CONF_DIR)).toEqual([]);
    expect(await listing(1, CONF_DIR)).toEqual(['fill']);
    expect((await cluster.get('installation', 'default')).status.conditions).toContainEqual(
      expect.objectContaining({ type: 'Available', status: 'False' }),
    );

    await onNode(0, `mount -o remount,rw ${BIN_DIR}`);
    await onNode(1, `rm ${CONF_DIR}/fill`);
    const { status, stdout, stderr } = await install;
    expect({ status, stdout, stderr }).toMatchObject({ status: 0 });
    expect(stderr).toContain('container install');
    for (const index of [0, 1]) expect(await listing(index, CONF_DIR)).toContain(CONF_NAME);
    await until(async () => (await degraded())?.status === 'False', 'nothing is degraded any more');
  }, 600_000);

  it('is named when a later configuration of another plugin comes first, until it goes', async () => {
    await onNode(1, `echo '{"cniVersion":"1.0.0","name":"other","plugins":[]}' > ${FOREIGN}`);
    const says = async (): Promise<string> => mustRunCtl(cluster, ['install', 'status']).catch(String);
    expect(await says()).toContain('netplug-node: ready');
    const { items } = await cluster.get('pods', SYSTEM, '--selector=app.kubernetes.io/name=netplug-node');
    const { metadata } = items.find(({ spec }: Json) => spec.nodeName === 'node-b');
    await until(
      async () =>
        (await cluster.kubectl('logs', SYSTEM, metadata.name)).includes(
          `\\"${FOREIGN}\\" sorts before \\"${CONF_NAME}\\": a runtime that reads one configuration reads that one`,
        ),
      'the log of the agent names the file',
    );
    await onNode(1, `rm ${FOREIGN}`);
  });

  it('gets back a definition that is missing', async () => {
    await cluster.kubectl('delete', 'crd', 'networksets.netplug.io');
    await until(
      async () => (await cluster.kubectl('get', 'networksets').catch(() => 'none')) !== 'none',
      'the operator restores the definition',
    );
    await until(async () => (await degraded())?.status === 'False', 'nothing is degraded');
    expect(await cluster.kubectl('get', 'networksets')).toBe('');
  }, 180_000);
});
