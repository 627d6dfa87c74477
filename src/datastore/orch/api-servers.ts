import type { Clock } from '../../base/clock.ts';
import type { OrchApi } from '../../kube/orch-api.ts';
import { ENDPOINT_SLICES } from '../../kube/paths.ts';
import { fromEndpointSlice } from '../../model/from-kubernetes/endpoint-slice.ts';
import { servicePorts } from '../../model/service-endpoints.ts';
import { formatAddress, urlHost } from '../../net/address.ts';

/** Control planes rarely change, and every node asks. */
const LISTED_MS = 600_000;
const RETRIED_MS = 60_000;
const TIMEOUT_MS = 3000;

/** The servers behind the service of the API, to which the address of that service is translated. */
export class ApiServers {
  readonly #api: Pick<OrchApi, 'list'>;
  readonly #clock: Clock;
  #origins: readonly string[] = [];
  #nextMs = Number.NEGATIVE_INFINITY;

  constructor(api: Pick<OrchApi, 'list'>, clock: Clock) {
    this.#api = api;
    this.#clock = clock;
  }

  /** Returns their origins; those listed last when the API does not answer, or refuses the account. */
  async origins(signal: AbortSignal): Promise<readonly string[]> {
    if (this.#clock.monotonic() < this.#nextMs) return this.#origins;
    const collection = { ...ENDPOINT_SLICES, namespace: 'default' };
    const selector = { labelSelector: 'kubernetes.io/service-name=kubernetes' };
    const limit = AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]);
    const slices = await this.#api.list(collection, selector, limit).catch(() => undefined);
    this.#nextMs = this.#clock.monotonic() + (slices === undefined ? RETRIED_MS : LISTED_MS);
    if (slices === undefined) return this.#origins;
    this.#origins = slices.flatMap((slice) => {
      const { value } = fromEndpointSlice(slice);
      return (value === undefined ? [] : servicePorts(value)).map(
        ({ address, port }) => `https://${urlHost(formatAddress(address))}:${String(port)}`,
      );
    });
    return this.#origins;
  }
}
