import { releaseIn } from '../../model/image-release.ts';
import { ownValue } from '../../base/own-value.ts';
import type { Manifest } from '../../model/manifest.ts';
import { isRecord } from '../../model/read-schema.ts';
import { AGENT_SET } from '../../install/cluster/names.ts';

export function metadataIn(object: Manifest): {
  readonly name: string;
  readonly namespace: string | undefined;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
} {
  const metadata = recordIn(object, 'metadata');
  return {
    name: textIn(metadata, 'name'),
    namespace: typeof metadata['namespace'] === 'string' ? metadata['namespace'] : undefined,
    labels: textsIn(metadata, 'labels'),
    annotations: textsIn(metadata, 'annotations'),
  };
}

export function findNamed(objects: readonly Manifest[], kind: string, name: string): Manifest | undefined {
  return objects.find((object) => object['kind'] === kind && metadataIn(object).name === name);
}

/** Returns the containers of a workload's template. */
export function containersIn(workload: Manifest): readonly Readonly<Record<string, unknown>>[] {
  return listIn(podSpecIn(workload), 'containers');
}

/** Returns the image of a workload's main container; empty when there is none. */
export function imageIn(workload: Manifest): string {
  return textIn(containersIn(workload)[0] ?? {}, 'image');
}

/** Returns the main container of the agent; an empty one when the objects have no agent. */
export function agentContainerIn(objects: readonly Manifest[]): Readonly<Record<string, unknown>> {
  const [container = {}] = containersIn(findNamed(objects, 'DaemonSet', AGENT_SET) ?? {});
  return container;
}

/** Returns the release of a workload: the tag of its image is what runs, and the label what its writer meant. */
export function workloadRelease(workload: Manifest): string | undefined {
  return releaseIn(imageIn(workload)) ?? metadataIn(workload).labels['app.kubernetes.io/version'];
}

/** Returns the template of a workload's pods. */
export function templateIn(workload: Manifest): Readonly<Record<string, unknown>> {
  return recordIn(recordIn(workload, 'spec'), 'template');
}

export function podSpecIn(workload: Manifest): Readonly<Record<string, unknown>> {
  return recordIn(templateIn(workload), 'spec');
}

/** Returns the value of a container's environment variable; undefined also for one that comes from elsewhere. */
export function variableIn(container: Readonly<Record<string, unknown>>, name: string): string | undefined {
  const found = listIn(container, 'env').find((variable) => variable['name'] === name);
  return typeof found?.['value'] === 'string' ? found['value'] : undefined;
}

export function recordIn(object: Readonly<Record<string, unknown>>, key: string): Readonly<Record<string, unknown>> {
  const value = ownValue(object, key);
  return isRecord(value) ? value : {};
}

/** Returns the objects of a list; others in it are left out. */
export function listIn(
  object: Readonly<Record<string, unknown>>,
  key: string,
): readonly Readonly<Record<string, unknown>>[] {
  const value = ownValue(object, key);
  return Array.isArray(value) ? value.filter(isRecord) : [];
}

export function textIn(object: Readonly<Record<string, unknown>>, key: string): string {
  const value = ownValue(object, key);
  return typeof value === 'string' ? value : '';
}

function textsIn(object: Readonly<Record<string, unknown>>, key: string): Readonly<Record<string, string>> {
  const entries = Object.entries(recordIn(object, key)).filter(([, value]) => typeof value === 'string');
  return Object.fromEntries(entries.map(([name, value]) => [name, String(value)]));
}
