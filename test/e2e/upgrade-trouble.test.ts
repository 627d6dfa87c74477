// The built tool is interrupted, paused or called twice, and packets are lost, while it upgrades a cluster on a real API server.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { imageNames } from '../../src/install/cluster/names.ts';
import { RELEASE_MANIFESTS } from '../../src/install/cluster/release-manifests.ts';
import { inExtent, runsHere } from '../runs.ts';
import { stopThreads } from '../support/stop-threads.ts';
import { until } from '../support/until.ts';
import { NO_REGISTRY } from '../support/simulated-rollout.ts';
import { NETPLUGCTL } from '../support/built.ts';
import { NEW, OLD, runTool } from '../support/upgradable-cluster.ts';
import {
  ctl,
  expectStoppedAfterFirst,
  installChart,
  installOld,
  installOperator,
  killAt,
  must,
  NODES,
  probePods,
  releases,
  scene,
  settled,
  stateOfCluster,
  unreached,
  useUpgradeScene,
} from '../support/upgrade-scene.ts';

/** What the pod that sends datagrams prints, and what the tool makes of it. */
const LOSS = 'udp://SERVER:8080: 40 of 900 datagrams lost within 1.9 s from 2026-11-27T00:00:00.000Z';
const SAID = /node-b: udp:\/\/192\.168\.[\d.]+:8080: 40 of 900 datagrams lost within 1\.9 s/;
/** Each of the nine steps is recorded before and after it. */
const RECORDS = 18;
/** Records at which calls of one rollback are killed one after the other: before a step, after it, and later. */
const ROLLBACK_KILLED_AT = inExtent({
  everyday: [1, 2, 9],
  soak: Array.from({ length: 24 }, (_, call) => 1 + (call % 2)),
});
const KILLED_AT = inExtent({ everyday: [RECORDS / 2 + 1], soak: Array.from({ length: RECORDS }, (_, at) => at + 1) });

useUpgradeScene();

const IN_SOAK = runsHere('e2e/upgrade-trouble: other causes');

describe('an upgrade in trouble', () => {
  it.runIf(IN_SOAK)(
    'stops after the first node when its network fails, and goes on when it works',
    async () => {
      let isBroken = true;
      await installOld(RELEASE_MANIFESTS[0], OLD, (pod) => (isBroken ? unreached(pod) : undefined));
      await expectStoppedAfterFirst();
      isBroken = false;
      await must('upgrade apply --yes');
      await settled(NEW);
      await must('upgrade rollback --yes');
      await settled(OLD);
    },
    400_000,
  );

  it.each(inExtent({ everyday: [], soak: ['manifest', 'operator'] }))(
    'stops the roll-out by %s when packets are lost, and goes on when it is asked to',
    async (method) => {
      let isLosing = (): boolean =>
        scene.rollout.started.some(({ node, release }) => node === 'node-b' && release === NEW);
      const failure = (pod: string): string | undefined =>
        pod.startsWith('netplug-flow-client') && isLosing() ? LOSS : undefined;
      await (method === 'manifest' ? installOld(RELEASE_MANIFESTS[0], OLD, failure) : installOperator(OLD, failure));
      const stopped = await ctl('upgrade apply --yes');
      expect(stopped).toMatchObject({ status: 1, stderr: expect.stringMatching(SAID) as string });
      expect(stopped.stderr).toContain('upgrade/packets-lost');
      const isHeld = async (): Promise<boolean> =>
        (await scene.server.get('daemonset', 'netplug-node', '-n', 'netplug-system')).spec.updateStrategy.type ===
        'OnDelete';
      await until(isHeld, 'no agent is replaced any more');
      expect(await probePods()).toEqual([]);

      isLosing = () => false;
      expect((await ctl('upgrade apply --yes')).stderr).toContain('none lost');
      await settled(NEW);
      await must('upgrade rollback --yes');
      await settled(OLD);
    },
    400_000,
  );

  it.runIf(IN_SOAK)(
    'reports packets that were lost while no tool was at work, and none of a node that goes down',
    async () => {
      let isLosing = false;
      await installOld(RELEASE_MANIFESTS[0], OLD, (pod) =>
        isLosing && pod.startsWith('netplug-flow-client') ? LOSS : undefined,
      );
      const child = spawn(NETPLUGCTL, ['upgrade', 'apply', '--yes'], { env: scene.env, stdio: 'ignore' });
      const isFirstReplaced = (): boolean => scene.rollout.started.some(({ release }) => release === NEW);
      await until(async () => Promise.resolve(isFirstReplaced()), 'the first agent is replaced', 120_000);
      child.kill('SIGKILL');
      await once(child, 'exit');
      expect(await probePods()).toContain('netplug-flow-client-node-b');
      isLosing = true;
      await until(async () => (await phaseOf('netplug-flow-client-node-b')) === 'Failed', 'packets are lost');
      isLosing = false;
      expect(await ctl('upgrade apply --yes')).toMatchObject({
        status: 1,
        stderr: expect.stringMatching(SAID) as string,
      });
      const last = ctl('upgrade apply --yes');
      await until(async () => (await probePods()).includes('netplug-flow-client-node-b'), 'packets flow', 120_000);
      await goDown('node-c', 'netplug-flow-server-node-c');
      const { status, stderr } = await last;
      expect({ status, stderr }).toEqual({ status: 0, stderr: expect.anything() });
      expect(stderr).toContain('packets are watched anew');
      expect(await probePods()).toEqual([]);
    },
    400_000,
  );

  it.runIf(IN_SOAK)(
    'keeps another call out, goes back while a call is paused, and needs no pods without proof',
    async () => {
      await installOld(RELEASE_MANIFESTS[0]);
      await must('upgrade apply --yes --no-proof');
      expect(scene.rollout.started.length).toBe(2 * NODES.length);
      expect(scene.rollout.probes()).toEqual([]);
      await must('upgrade rollback --yes');
      await settled(OLD);
      const child = spawn(NETPLUGCTL, ['upgrade', 'apply', '--yes'], { env: scene.env, stdio: 'ignore' });
      const ended = once(child, 'exit');
      await until(async () => (await probePods()).includes('netplug-flow-client-node-b'), 'packets flow', 120_000);
      const elsewhere = { ...scene.env, NETPLUG_STATE_DIR: join(scene.folder, 'elsewhere') };
      const others = ['apply', 'rollback'].map(async (action) => runTool(['upgrade', action, '--yes'], elsewhere));
      const stderr = expect.stringMatching(/another call of netplugctl is at work on \S+/) as string;
      for (const other of await Promise.all(others)) expect(other).toMatchObject({ status: 75, stderr });
      await stopThreads(child.pid!);
      await must('upgrade rollback --yes');
      child.kill('SIGCONT');
      expect(await ended).toEqual([75, null]);
      await settled(OLD);
      expect(await probePods()).toEqual([]);
    },
    400_000,
  );

  it('goes on where it was when it is killed at any record of its progress, and goes back [up-methods]', async () => {
    await installOld(RELEASE_MANIFESTS[0]);
    const before = await stateOfCluster();
    for (const records of KILLED_AT) {
      expect(await killAt(records, 'upgrade apply --yes')).toBe(true);
      await must('upgrade apply --yes');
      await settled(NEW);
      await must('upgrade verify --no-proof');
      await must('upgrade rollback --yes');
      await settled(OLD);
      expect(await stateOfCluster()).toEqual(before);
    }
    expect(scene.rollout.gaps()).toBe(0);
  }, 1_200_000);

  it.runIf(IN_SOAK)(
    'goes on with a rollback that is killed before and after its steps, and leaves no record [up-methods]',
    async () => {
      await installOld(RELEASE_MANIFESTS[0]);
      const before = await stateOfCluster();
      await must('upgrade apply --yes --no-proof');
      await settled(NEW);
      for (const records of ROLLBACK_KILLED_AT) expect(await killAt(records, 'upgrade rollback --yes')).toBe(true);
      const { status, stderr, stdout } = await ctl('upgrade rollback --yes');
      expect({ status, stderr }).toEqual({ status: 0, stderr: expect.anything() });
      expect(stderr).toContain('an interrupted rollback of this cluster goes on');
      expect(stdout).toMatch(
        /^cluster: .*\nback from \S+ to \S+, as backed up at [^]*wait until netplug-node runs everywhere/,
      );
      await settled(OLD);
      expect(await stateOfCluster()).toEqual(before);
      expect(existsSync(join(scene.folder, 'state/plans'))).toBe(false);
      expect(await must('upgrade rollback --dry-run')).toContain('the cluster is as in the backup');
      expect(scene.rollout.gaps()).toBe(0);
    },
    400_000,
  );

  it.runIf(IN_SOAK)(
    'takes the options of the last call when an upgrade is resumed, and goes back to the backup of the first one',
    async () => {
      await installOld(RELEASE_MANIFESTS[0]);
      await scene.server.kubectl('cordon', 'node-c');
      const before = await stateOfCluster();
      const wrong = await ctl(`upgrade apply --yes --no-proof --registry ${NO_REGISTRY}`);
      expect(wrong).toMatchObject({ status: 69, stderr: expect.stringContaining('with --registry') as string });
      const { status, stderr } = await ctl('upgrade apply --yes --registry netplug.io');
      expect({ status, stderr }).toEqual({ status: 0, stderr: expect.anything() });
      expect(stderr).toContain('the backup from before is kept');
      expect(stderr).toMatch(/network proved: 3 nodes, .*\n[^]*network proved: 3 nodes, /);
      await settled(NEW);
      const { spec } = await scene.server.get('deployment', 'netplug-orch-controllers', '-n', 'netplug-system');
      expect(spec.template.spec.containers[0].image).toBe(imageNames(NEW).tools);

      scene.isPaused = true;
      const unfinished = await ctl('upgrade rollback --yes --timeout 15');
      expect(unfinished.status).not.toBe(0);
      const agents = await scene.server.get('daemonset', 'netplug-node', '-n', 'netplug-system');
      expect(agents.spec.template.spec.containers[0].image).toBe(imageNames(OLD).node);
      const again = await ctl('upgrade rollback --yes --timeout 8');
      expect(again.status).not.toBe(0);
      expect(again.stdout).toContain('wait until netplug-node runs everywhere');
      scene.isPaused = false;
      await must('upgrade rollback --yes');
      expect(new Set((await releases()).map((each) => each.split(' ')[1]))).toEqual(new Set([OLD]));
      expect(await stateOfCluster()).toEqual(before);
    },
    400_000,
  );

  it.runIf(IN_SOAK)(
    'ends an operation of helm that was killed with it',
    async () => {
      const release = 'v3.22.1';
      await installChart(release);
      expect(await killAt(4, 'upgrade apply --yes')).toBe(true);
      const [record] = (await scene.server.get('secrets', '-A', '-l', 'owner=helm')).items;
      const packed = Buffer.from(Buffer.from(record.data.release, 'base64').toString('latin1'), 'base64');
      const held = JSON.parse(gunzipSync(packed).toString('utf8'));
      const pending = { ...held, namespace: 'netplug-system', info: { ...held.info, status: 'pending-install' } };
      const name = 'sh.helm.release.v1.calico.v1';
      const labels = { ...record.metadata.labels, status: 'pending-install', version: '1' };
      await scene.server.apply([
        {
          apiVersion: 'v1',
          kind: 'Secret',
          type: 'helm.sh/release.v1',
          metadata: { name, namespace: 'netplug-system', labels },
          stringData: { release: gzipSync(JSON.stringify(pending)).toString('base64') },
        },
      ]);
      const { status, stderr } = await ctl('upgrade apply --yes');
      expect({ status, stderr }).toEqual({ status: 0, stderr: expect.anything() });
      expect(stderr).toContain('waiting for an operation of helm that has begun before');
      await settled(NEW);
      await must('upgrade verify');
    },
    400_000,
  );
});

async function phaseOf(pod: string): Promise<string> {
  return (await scene.server.get('pod', pod, '-n', 'netplug-system')).status.phase;
}

/** Reports a node and its pod as not ready, as when its kubelet is gone. */
async function goDown(node: string, pod: string): Promise<void> {
  const conditions = [{ type: 'Ready', status: 'False', reason: 'NodeStatusUnknown' }];
  const patch = ['--subresource=status', '--type=merge', `--patch=${JSON.stringify({ status: { conditions } })}`];
  await scene.server.kubectl('patch', 'node', node, ...patch);
  await scene.server.kubectl('patch', 'pod', pod, '-n', 'netplug-system', ...patch);
}
