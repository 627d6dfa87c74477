import { mapReach, type MapDivision } from '../../../policy/reach/map-reach.ts';
import { apiServerAddresses } from '../../../policy/reach/vital-services.ts';
import type { Context, Status } from '../ports.ts';
import { jsonText } from '../render-document.ts';
import { readNodeEnds } from './read-node-ends.ts';
import { withPolicyState } from './read-policy-state.ts';
import { renderMapPage, renderMapSvg } from './render-map-svg.ts';
import { renderMapText } from './render-map-text.ts';
import { type ShownMap, showMap } from './shown-map.ts';

export const MAP_OUTPUTS = ['table', 'json', 'svg', 'html'] as const;
type MapOutput = (typeof MAP_OUTPUTS)[number];

const RENDERERS: Readonly<Record<MapOutput, (map: ShownMap) => string>> = {
  table: renderMapText,
  json: jsonText,
  svg: renderMapSvg,
  html: renderMapPage,
};

export interface PolicyMapOptions {
  readonly namespace: string | undefined;
  readonly by: MapDivision;
  readonly output: MapOutput;
}

/** Prints who reaches whom by the policies of the datastore. */
export async function policyMap(context: Context, { namespace, by, output }: PolicyMapOptions): Promise<Status> {
  return withPolicyState(context, async (view, store) => {
    const named = [...(await readNodeEnds(store, view, context.signal)), ...apiServerAddresses(view)];
    const map = showMap(mapReach(view, { named, division: by, namespace }));
    context.io.stdout(RENDERERS[output](map));
    return 0;
  });
}
