import { isDeepStrictEqual } from 'node:util';
import type { NodeName } from '../model/names.ts';
import type { ResourceOf } from '../model/kinds.ts';
import type { Node } from '../model/node.ts';
import type { NodeMachine, NodeReport, NodeReportSpec } from '../model/node-report.ts';
import type { ResourceId } from '../model/resource-id.ts';
import { API_VERSION } from '../model/resource.ts';
import { given } from '../base/given.ts';
import { withFacts } from './node-facts.ts';
import type { NameClaimWrite, NodeFacts } from './node-status-store.ts';
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
    spec: { ...spec, ...given({ machine: before?.spec.machine }) },
  });
  await keepResource(store, { which: { kind: 'NodeReport', name }, after }, signal);
}

/** Implements `NameStore.claimName` where netplug stores the nodes. */
export async function claimNameResource(
  store: ResourceStore,
  { node: name, machine, mayReplace }: NameClaimWrite & { readonly node: NodeName },
  signal: AbortSignal,
): Promise<NodeMachine | undefined> {
  let refused: NodeMachine | undefined;
  const after = (before: NodeReport | undefined): NodeReport => {
    const holder = before?.spec.machine;
    refused = holder === undefined || mayReplace(holder) ? undefined : holder;
    const kept = before ?? { apiVersion: API_VERSION, kind: 'NodeReport', metadata: { name }, spec: { problems: [] } };
    return refused === undefined ? { ...kept, spec: { ...kept.spec, machine } } : kept;
  };
  await keepResource(store, { which: { kind: 'NodeReport', name }, after }, signal);
  return refused;
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
