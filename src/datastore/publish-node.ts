import { isDeepStrictEqual } from 'node:util';
import type { NodeName } from '../model/names.ts';
import type { ResourceOf } from '../model/kinds.ts';
import type { Node } from '../model/node.ts';
import type { NodeReport, NodeReportSpec } from '../model/node-report.ts';
import type { ResourceId } from '../model/resource-id.ts';
import { API_VERSION } from '../model/resource.ts';
import { withFacts } from './node-facts.ts';
import type { NodeFacts } from './node-status-store.ts';
import type { ResourceStore } from './resource-store.ts';
import { isOvertaken, resourceContested } from './resource-errors.ts';

/** Number of times that a conflict with concurrent writers of a resource is retried. */
const TRIES = 8;

/** Implements `NodeStatusStore.publishNode` where netplug stores the nodes. Each write names the version that it changes. */
export async function publishNodeResource(
  store: ResourceStore,
  { node: name, facts }: { readonly node: NodeName; readonly facts: NodeFacts },
  signal: AbortSignal,
): Promise<void> {
  const after = (before: Node | undefined): Node =>
    withFacts(before ?? { apiVersion: API_VERSION, kind: 'Node', metadata: { name }, spec: {} }, facts);
  await keepResource(store, { which: { kind: 'Node', name }, after }, signal);
}

/** Implements `NodeStatusStore.publishReport` where netplug stores the nodes. */
export async function publishReportResource(
  store: ResourceStore,
  { node: name, report: spec }: { readonly node: NodeName; readonly report: NodeReportSpec },
  signal: AbortSignal,
): Promise<void> {
  const after = (before: NodeReport | undefined): NodeReport => ({
    ...(before ?? { apiVersion: API_VERSION, kind: 'NodeReport', metadata: { name } }),
    spec,
  });
  await keepResource(store, { which: { kind: 'NodeReport', name }, after }, signal);
}

async function keepResource<K extends 'Node' | 'NodeReport'>(
  store: ResourceStore,
  wanted: {
    readonly which: ResourceId<K> & { readonly kind: K };
    readonly after: (before: ResourceOf<K> | undefined) => ResourceOf<K>;
  },
  signal: AbortSignal,
): Promise<void> {
  const { which } = wanted;
  for (let attempt = 0; attempt < TRIES; attempt += 1) {
    const before = await store.findResource(which, signal);
    const after = wanted.after(before);
    if (isDeepStrictEqual(before, after)) return;
    try {
      if (before === undefined) await store.createResource(after, signal);
      else await store.updateResource(after, signal);
      return;
    } catch (cause) {
      if (!isOvertaken(cause)) throw cause;
    }
  }
  throw resourceContested(which);
}
