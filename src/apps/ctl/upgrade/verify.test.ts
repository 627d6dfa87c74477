import { describe, expect, it } from 'vitest';
import { NEW, OLD, soundCluster, targetFor } from '../../../../test/support/sound-cluster.ts';
import { BIRD_SET } from '../../../install/cluster/names.ts';
import { metadataIn } from '../../../upgrade/cluster/objects-in.ts';
import type { ClusterSnapshot } from '../../../upgrade/cluster/snapshot.ts';
import { judgeRelease, renderVerified } from './verify.ts';

const BGP = { spec: { calicoNetwork: { ipPools: [{ cidr: '10.1.0.0/16', encapsulation: 'None' }] } } } as const;

/** A cluster whose agents and controllers have the new release; pods of BIRD have the one that is given. */
function upgraded(bird: string, updated: number): ClusterSnapshot {
  const cluster = soundCluster({ ...BGP, release: NEW });
  return {
    ...cluster,
    objects: cluster.objects.map((object) => {
      const isBird = metadataIn(object).name === BIRD_SET;
      const set = { desiredNumberScheduled: 3, updatedNumberScheduled: isBird ? updated : 3, numberAvailable: 3 };
      const deployment = { updatedReplicas: 2, availableReplicas: 2 };
      return { ...object, status: object['kind'] === 'DaemonSet' ? set : deployment };
    }),
    pods: cluster.pods.map((pod) =>
      pod.component === BIRD_SET ? { ...pod, images: pod.images.map((image) => image.replace(NEW, bird)) } : pod,
    ),
  };
}

function failed(snapshot: ClusterSnapshot): readonly string[] {
  return judgeRelease(snapshot, targetFor(BGP)).flatMap(({ isOk, what }) => (isOk ? [] : [what]));
}

describe('the verification of an upgrade', () => {
  it('accepts BIRD of the release before, whose sessions last until its pods are deleted', () => {
    expect(failed(upgraded(NEW, 3))).toEqual([]);
    expect(failed(upgraded(OLD, 0))).toEqual([]);
  });

  it('does not accept an agent of the release before', () => {
    const { pods, ...cluster } = upgraded(NEW, 3);
    const older = pods.map((pod, index) =>
      index === 0 ? { ...pod, images: pod.images.map((image) => image.replace(NEW, OLD)) } : pod,
    );
    expect(failed({ ...cluster, pods: older })).toEqual(['every pod has the release']);
  });

  it('wants every container of every pod ready, and shows the count of the manifest [up-ready]', () => {
    const { pods, ...cluster } = upgraded(NEW, 3);
    const results = judgeRelease({ ...cluster, pods }, targetFor(BGP));
    for (const name of ['netplug-node', 'netplug-orch-controllers']) {
      expect(results.find(({ what }) => what === `pods of ${name} are ready`)?.found).toMatch(
        /^\d pods, 1\/1 ready each/,
      );
    }
    const unready = pods.map((pod, index) =>
      index === 0 ? ({ ...pod, phase: 'running', readyContainers: 0 } as const) : pod,
    );
    expect(judgeRelease({ ...cluster, pods: unready }, targetFor(BGP)).filter(({ isOk }) => !isOk)).toMatchObject([
      { what: `pods of ${String(pods[0]?.component)} are ready`, found: `${String(pods[0]?.name)}: 0/1` },
    ]);
  });

  it('names older sidecars, and those of unknown release, without failing', () => {
    const of = (name: string, has: object) => ({ kind: 'Deployment', namespace: 'shop', name, ...has });
    const sidecars = [
      of('new', { version: NEW, newest: NEW }),
      of('old', { version: OLD, newest: NEW }),
      of('pinned', { unknownImage: 'x@sha256:0' }),
    ];
    const snapshot = { ...upgraded(NEW, 3), sidecars };
    expect(failed(snapshot)).toEqual([]);
    expect(renderVerified(judgeRelease(snapshot, targetFor(BGP)))).toMatch(
      /^note {4}workloads with an older sidecar: Deployment shop\/old \(v3\.26\.4\), Deployment shop\/pinned \(unknown release\): they work/m,
    );
    expect(renderVerified(judgeRelease(upgraded(NEW, 3), targetFor(BGP)))).not.toContain('sidecar');
  });

  it('wants the version of the cluster to be that of the release [up-tool]', () => {
    const { datastore, ...cluster } = upgraded(NEW, 3);
    const older = { ...cluster, datastore: { ...datastore, clusterVersion: OLD } };
    expect(failed(older)).toEqual([`cluster version ${NEW}`, 'older tools are refused']);
  });
});
