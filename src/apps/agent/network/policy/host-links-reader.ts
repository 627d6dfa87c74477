import { isDeepStrictEqual } from 'node:util';
import { reasonOf } from '../../../../base/errors.ts';
import type { CompiledPolicies } from './compiled-policies.ts';
import type { EnforcementPorts } from './enforcement-ports.ts';

/** The interfaces and addresses of the host, which host endpoints are compiled with. */
export class HostLinksReader {
  readonly #ports: Pick<EnforcementPorts, 'readHost' | 'log'>;
  readonly #compiled: Pick<CompiledPolicies, 'facts' | 'useHost'>;
  #problem: string | undefined;

  constructor(
    ports: Pick<EnforcementPorts, 'readHost' | 'log'>,
    compiled: Pick<CompiledPolicies, 'facts' | 'useHost'>,
  ) {
    this.#ports = ports;
    this.#compiled = compiled;
  }

  /**
   * Reports whether the host has changed, so that everything is to be compiled anew. While it cannot be read, it counts as unchanged.
   * @throws kernel/failed when it has never been read
   */
  async read(): Promise<boolean> {
    try {
      const facts = await this.#ports.readHost();
      this.#problem = undefined;
      if (isDeepStrictEqual(facts, this.#compiled.facts)) return false;
      this.#compiled.useHost(facts);
      return true;
    } catch (cause) {
      // Without knowing its tunnels it would cut the traffic of pods.
      if (this.#compiled.facts === undefined) throw cause;
      if (this.#problem !== reasonOf(cause))
        this.#ports.log.warning('interfaces for host endpoints not read', { reason: reasonOf(cause) });
      this.#problem = reasonOf(cause);
      return false;
    }
  }
}
