import { ownValue } from '../../../base/own-value.ts';
import { nearMiss } from '../../../base/near-miss.ts';
import { at, joinPaths } from '../../../base/problem.ts';
import { decodeResource } from '../../../model/decode-resource.ts';
import { isRecord } from '../../../model/read-schema.ts';
import { API_VERSION } from '../../../model/resource.ts';
import type { ReadDocument } from '../documents.ts';
import { itemsOf } from '../resources/resource-files.ts';
import { lintAnnotations } from './lint-annotations.ts';
import type { ClusterAdvice } from './lint-in-cluster.ts';
import { lintKubernetesPolicy, lintPolicy } from './lint-policy.ts';
import { type Remark, remarksOf } from '../../../config/remark.ts';

type Raw = Readonly<Record<string, unknown>>;

/** Path of the pod template, by kind of workload. */
const TEMPLATES: Readonly<Record<string, readonly string[]>> = {
  PodTemplate: ['template'],
  ReplicationController: ['spec', 'template'],
  ReplicaSet: ['spec', 'template'],
  Deployment: ['spec', 'template'],
  StatefulSet: ['spec', 'template'],
  DaemonSet: ['spec', 'template'],
  Job: ['spec', 'template'],
  CronJob: ['spec', 'jobTemplate', 'spec', 'template'],
};

/** Checks the netplug resources of a document, Kubernetes network policies, and annotations of netplug on other objects. */
export function lintObjects({ value }: ReadDocument, advise: ClusterAdvice): readonly Remark[] {
  return itemsOf(value).flatMap(({ path, raw }) => lintObject(raw, path, advise));
}

function lintObject(raw: unknown, path: string, advise: ClusterAdvice): readonly Remark[] {
  if (!isRecord(raw) || !belongsToOthers(raw['apiVersion'])) {
    const decoded = decodeResource(raw);
    const findings =
      'problems' in decoded
        ? { problems: [...decoded.problems], warnings: [] }
        : { problems: [], warnings: lintPolicy(decoded.resource, advise) };
    return remarksOf(findings, { start: path, code: 'resource/invalid' });
  }
  const { kind, apiVersion } = raw;
  if (kind === 'NetworkPolicy' && apiVersion === 'networking.k8s.io/v1') {
    return remarksOf(lintKubernetesPolicy(raw, advise), { start: path, code: 'resource/invalid' });
  }
  if (kind === 'Pod') return lintAnnotations(raw['metadata'], { on: 'pod', path: joinPaths(path, 'metadata') });
  if (kind === 'Namespace') {
    return lintAnnotations(raw['metadata'], { on: 'namespace', path: joinPaths(path, 'metadata') });
  }
  const steps = typeof kind === 'string' ? ownValue(TEMPLATES, kind) : undefined;
  return steps === undefined ? [] : lintTemplate(raw, path, steps);
}

function lintTemplate(raw: Raw, path: string, steps: readonly string[]): readonly Remark[] {
  const template = steps.reduce<unknown>((value, step) => (isRecord(value) ? ownValue(value, step) : undefined), raw);
  const place = at('', ...steps, 'metadata');
  const spec = raw['spec'];
  const replicas = isRecord(spec) && typeof spec['replicas'] === 'number' ? spec['replicas'] : 1;
  return [
    ...lintAnnotations(raw['metadata'], { on: 'owner', path: joinPaths(path, 'metadata'), place }),
    ...lintAnnotations(isRecord(template) ? template['metadata'] : undefined, {
      on: 'template',
      path: joinPaths(path, place),
      replicas,
    }),
  ];
}

/** Reports whether the object belongs to another API group; a misspelt group of netplug does not count. */
export function belongsToOthers(apiVersion: unknown): boolean {
  if (typeof apiVersion !== 'string') return false;
  const [ours = ''] = API_VERSION.split('/');
  const [group = ''] = apiVersion.split('/');
  return nearMiss(group, [ours]) === undefined;
}
