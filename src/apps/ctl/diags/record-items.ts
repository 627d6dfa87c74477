import { encodeBlock } from '../../../model/ip-block-codec.ts';
import { KIND_NAMES, KINDS, type ResourceKind } from '../../../model/kinds.ts';
import { API_VERSION, type Metadata } from '../../../model/resource.ts';
import type { Sources } from '../doctor/sources.ts';
import type { DiagsItem } from './item.ts';

/** Returns the resources of each kind and the blocks, as far as the caller may read them. */
export function recordItems({ store }: Sources): readonly DiagsItem[] {
  const kinds = KIND_NAMES.map((kind): DiagsItem => ({
    path: `resources/${KINDS[kind].plural}.json`,
    gather: async (signal) => JSON.stringify(await documentOf(await store(), kind, signal)),
  }));
  return [
    ...kinds,
    {
      path: 'resources/blocks.json',
      gather: async (signal) => {
        const { blocks, problems } = await (await store()).listBlocks(signal);
        return JSON.stringify({ blocks: blocks.map(({ value }) => encodeBlock(value)), problems });
      },
    },
  ];
}

async function documentOf(
  store: Awaited<ReturnType<Sources['store']>>,
  kind: ResourceKind,
  signal: AbortSignal,
): Promise<object> {
  const { resources, problems } = await store.listResources(kind, signal);
  const items = resources.map((resource) => ({ ...resource, metadata: withoutAnnotationValues(resource.metadata) }));
  return { apiVersion: API_VERSION, kind: `${kind}List`, items, problems };
}

/** Omits the values of annotations, which may hold anything. */
function withoutAnnotationValues({ annotations, ...metadata }: Metadata): Metadata {
  if (annotations === undefined) return metadata;
  return { ...metadata, annotations: Object.fromEntries(Object.keys(annotations).map((name) => [name, '[left out]'])) };
}
