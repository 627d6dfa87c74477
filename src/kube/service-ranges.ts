import * as v from 'valibot';
import { isUnknownKind } from './answers.ts';
import type { ApiObject } from './objects.ts';
import type { OrchApi } from './orch-api.ts';

/** Served since Kubernetes 1.33. */
export const SERVICE_CIDRS = { group: 'networking.k8s.io', version: 'v1', plural: 'servicecidrs' } as const;

const serviceCidr = v.looseObject({ spec: v.looseObject({ cidrs: v.nullish(v.array(v.string()), []) }) });

/** Returns the ranges of a ServiceCIDR. */
export function serviceRangesIn(object: ApiObject): readonly string[] {
  const decoded = v.safeParse(serviceCidr, object);
  return decoded.success ? (decoded.output.spec.cidrs ?? []) : [];
}

/** Returns the ranges of which the API server gives addresses to Services; none when it does not tell them. @throws store/* */
export async function readServiceRanges(api: OrchApi, signal: AbortSignal): Promise<readonly string[]> {
  try {
    return (await api.list(SERVICE_CIDRS, {}, signal)).flatMap(serviceRangesIn);
  } catch (cause) {
    if (isUnknownKind(cause)) return [];
    throw cause;
  }
}
