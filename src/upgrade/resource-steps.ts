import { isDeepStrictEqual } from 'node:util';
import type { ResourceStore } from '../datastore/resource-store.ts';
import type { AnyResource } from '../model/kinds.ts';
import { resourceIdOf, showResourceId } from '../model/resource-id.ts';
import type { Actor } from '../plans/carry-out.ts';
import type { Plan, Step, WriteStep } from '../plans/plan.ts';

/** Changes to one resource: without `before` it is created, without `after` it is deleted. */
export type PlannedResourceChange =
  | { readonly before?: undefined; readonly after: AnyResource }
  | { readonly before: AnyResource; readonly after: AnyResource }
  | { readonly before: AnyResource; readonly after?: undefined };

export type ResourcePlan = Plan<PlannedResourceChange>;
export type ResourceStep = Step<PlannedResourceChange>;

export function createStep(after: AnyResource): WriteStep<PlannedResourceChange> {
  return { kind: 'write', text: `create ${showResourceId(resourceIdOf(after))}`, after };
}

export function deleteStep(before: AnyResource): WriteStep<PlannedResourceChange> {
  return { kind: 'write', text: `delete ${showResourceId(resourceIdOf(before))}`, before };
}

/** `what` says which part of the resource changes. */
export function updateStep(before: AnyResource, after: AnyResource, what: string): WriteStep<PlannedResourceChange> {
  return { kind: 'write', text: `change ${showResourceId(resourceIdOf(before))}: ${what}`, before, after };
}

/** Carries out steps on the resources of a datastore. */
export function resourceActor(store: ResourceStore): Actor<PlannedResourceChange> {
  const find = async (
    { before, after }: PlannedResourceChange,
    signal: AbortSignal,
  ): Promise<AnyResource | undefined> => {
    const resource = after ?? before;
    return resource === undefined ? undefined : store.findResource(resourceIdOf(resource), signal);
  };
  return {
    inspect: async (change, signal) => {
      const found = await find(change, signal);
      if (isSame(found, change.after)) return 'after';
      // In another version the write would be refused, although users have changed nothing.
      const isVersion = found?.metadata.resourceVersion === change.before?.metadata.resourceVersion;
      return isVersion && isSame(found, change.before) ? 'before' : 'differs';
    },
    apply: async ({ before, after }, signal) => write(store, { from: before, to: after }, signal),
    revert: async (change, signal) => {
      const found = await find(change, signal);
      if (isSame(found, change.before)) return;
      await write(store, { from: found, to: change.before }, signal);
    },
  };
}

/** @throws resource/changed when the resource is no longer in the version of `from` */
async function write(
  store: ResourceStore,
  { from, to }: { readonly from: AnyResource | undefined; readonly to: AnyResource | undefined },
  signal: AbortSignal,
): Promise<void> {
  const { resourceVersion } = from?.metadata ?? {};
  const version = resourceVersion === undefined ? {} : { resourceVersion };
  if (to === undefined) {
    if (from !== undefined) await store.deleteResource({ ...resourceIdOf(from), ...version }, signal);
    return;
  }
  const { resourceVersion: _, uid: _uid, creationTimestamp: _time, ...metadata } = to.metadata;
  if (from === undefined) await store.createResource({ ...to, metadata }, signal);
  else await store.updateResource({ ...to, metadata: { ...to.metadata, ...version } }, signal);
}

/** Compares what users write; versions and identity belong to the datastore. */
function isSame(a: AnyResource | undefined, b: AnyResource | undefined): boolean {
  return isDeepStrictEqual(essence(a), essence(b));
}

/** Through JSON, because an absent field and an undefined one are the same to a datastore. */
function essence(resource: AnyResource | undefined): unknown {
  if (resource === undefined) return undefined;
  const { metadata, spec } = resource;
  return JSON.parse(JSON.stringify({ labels: metadata.labels ?? {}, annotations: metadata.annotations ?? {}, spec }));
}
