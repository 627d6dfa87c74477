import type { WorkloadEndpoint } from '../../model/workload-endpoint.ts';
import { type Address, formatAddress, parseAddress, tryParseAddress } from '../../net/address.ts';

/** What the endpoints of the node's pods ask of translation and routing. */
export interface LocalEndpoints {
  readonly floating: readonly { readonly external: Address; readonly internal: Address }[];
  /** Single addresses to be announced: floating ones, and those assigned without an address manager. */
  readonly announced: readonly Address[];
  /** The same for the same. */
  readonly text: string;
}

export const NO_ENDPOINTS: LocalEndpoints = { floating: [], announced: [], text: '' };

export function localEndpoints(endpoints: readonly WorkloadEndpoint[]): LocalEndpoints {
  const floating = endpoints
    .flatMap(({ spec }) => spec.ipNATs ?? [])
    .flatMap(({ externalIP, internalIP }) => {
      const [external, internal] = [tryParseAddress(externalIP), tryParseAddress(internalIP)];
      return external === undefined || internal === undefined ? [] : [{ external, internal }];
    });
  const unmanaged = endpoints
    .filter(({ spec }) => spec.ipam === 'none')
    .flatMap(({ spec }) => spec.ipNetworks.map((text) => parseAddress(text.split('/')[0] ?? '')));
  const announced = [...floating.map(({ external }) => external), ...unmanaged];
  const pairs = floating.map((pair) => `${formatAddress(pair.external)} ${formatAddress(pair.internal)}`);
  return { floating, announced, text: [...pairs, '', ...unmanaged.map(formatAddress)].join('\n') };
}
