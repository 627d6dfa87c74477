import { ownValue } from '../../../base/own-value.ts';
import { at } from '../../../base/problem.ts';
import { isRecord } from '../../../model/read-schema.ts';
import type { ObjectReference } from '../../../kube/objects/reference.ts';

/** A document of a manifest with a name. */
export interface NamedDocument extends ObjectReference {
  readonly index: number;
  readonly key: string;
  readonly value: Readonly<Record<string, unknown>>;
}

export type ReportRemark = (remark: {
  readonly document: number;
  readonly path: string;
  readonly message: string;
  readonly hint?: string;
  readonly severity?: 'warning';
}) => void;

export interface PlacedContainer {
  readonly container: Readonly<Record<string, unknown>>;
  readonly path: string;
}

/** Returns the containers of a workload with their paths. */
export function containersOf(workload: Readonly<Record<string, unknown>>): readonly PlacedContainer[] {
  const spec = ['spec', 'template', 'spec'].reduce<unknown>(
    (value, key) => (isRecord(value) ? ownValue(value, key) : undefined),
    workload,
  );
  if (!isRecord(spec)) return [];
  return ['initContainers', 'containers'].flatMap((list) => {
    const containers = ownValue(spec, list);
    if (!Array.isArray(containers)) return [];
    return containers.flatMap((container: unknown, index) =>
      isRecord(container) ? [{ container, path: at('spec.template.spec', list, index) }] : [],
    );
  });
}
