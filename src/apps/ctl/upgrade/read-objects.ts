import { SYSTEM_NAMESPACE } from '../../../install/cluster/names.ts';
import type { Manifest } from '../../../model/manifest.ts';
import { objectContent } from '../../../kube/objects/content.ts';
import { collectionHolding, referenceTo } from '../../../kube/objects/reference.ts';
import type { OrchApi } from '../../../kube/orch-api.ts';
import { recordIn } from '../../../upgrade/cluster/objects-in.ts';
import { CLUSTER_WIDE_KINDS } from '../../../install/cluster/cluster-wide-kinds.ts';
import { isOwnObject, NAMESPACED, WHOLE } from '../../../upgrade/cluster/own-objects.ts';

const LABEL = 'app.kubernetes.io/part-of=netplug';

/** Reads every object of the installation whole, with its managers, status and secrets. Definitions are left out. @throws store/* */
export async function readInstalledObjects(
  api: OrchApi,
  served: readonly string[],
  signal: AbortSignal,
): Promise<readonly Manifest[]> {
  const labelled = { labelSelector: LABEL };
  const kinds = [
    ...CLUSTER_WIDE_KINDS.map((kind) => ({ of: referenceTo(kind, { name: '' }), options: labelled })),
    ...NAMESPACED.map((kind) => ({
      of: referenceTo(kind, { name: '', namespace: SYSTEM_NAMESPACE }),
      options: labelled,
    })),
    ...WHOLE.map((kind) => ({ of: referenceTo(kind, { name: '' }), options: {} })),
  ];
  const lists = await Promise.all(
    kinds.map(async ({ of, options }) => {
      const collection = collectionHolding(of);
      if (!served.includes(`${collection.group}/${collection.plural}`)) return [];
      const { apiVersion, kind } = of;
      // A listing leaves the two out.
      return (await api.list(collection, options, signal)).map((object): Manifest => ({
        ...object,
        apiVersion,
        kind,
      }));
    }),
  );
  // A user may have given the label to an object of another name.
  return lists.flat().filter(isOwnObject);
}

/** Returns what of an object is part of a snapshot: nothing secret; generation and status show a roll-out. */
export function snapshotOf(object: Manifest): Manifest {
  const { data, stringData: _, ...content } = objectContent(object);
  const { generation } = recordIn(object, 'metadata');
  return {
    ...content,
    ...(data === undefined || object['kind'] === 'Secret' ? {} : { data }),
    metadata: { ...recordIn(content, 'metadata'), ...(generation === undefined ? {} : { generation }) },
    ...(object['status'] === undefined ? {} : { status: object['status'] }),
  };
}
