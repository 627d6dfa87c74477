import { NetplugError } from '../base/errors.ts';
import { Undo } from '../base/undo.ts';
import { type Address, formatAddress } from '../net/address.ts';
import { tryReadCidr } from '../net/cidr.ts';
import { refuseWishes } from '../config/annotations.ts';
import type { AddressSource } from './address-source.ts';
import type { CniCall, CniPorts } from './call.ts';
import { callDelegate, DelegateError, isVerbUnknown } from './delegate.ts';
import { releaseEndpoint } from './own-endpoint.ts';
import { parseResult } from './result.ts';
import { staleEndpoints } from './stale-endpoints.ts';

/** What a delegated address manager is told: its name and the configuration it reads. */
export interface Delegation {
  readonly plugin: string;
  /** Made for each call, because some of it only the orchestrator knows. */
  readonly confOf: (call: CniCall, command: string) => Promise<Readonly<Record<string, unknown>>>;
}

/** Addresses from another plugin (CNI 1.1.0, section 4); the endpoint record is written beside them. */
export function delegatedAddresses(ports: CniPorts, delegation: Delegation, path: readonly string[]): AddressSource {
  const { store } = ports;
  const ask = async (call: CniCall, command: string, signal: AbortSignal = call.signal): Promise<unknown> => {
    const conf = await delegation.confOf(call, command);
    return callDelegate(ports.execDelegate, { plugin: delegation.plugin, path, command, conf, signal });
  };

  return {
    async acquire(call, endpointOf) {
      refuseRequests(call);
      if (call.orchPod !== undefined) refuseWishes(call.orchPod.facts, call.orchPod.wishes, delegation.plugin);
      const known = await ports.attachments.find(call.attachment);
      if (known?.addressManager === delegation.plugin) {
        return { addresses: known.addresses, dns: {}, facts: {}, takeBack: () => Promise.resolve() };
      }
      await using undo = new Undo();
      undo.defer(async () => {
        await ask(call, 'DEL', call.cleanupSignal);
      });
      // A delegate may still hold what a call that died left behind: a DEL clears it, as the standard lets callers do.
      const answer = await ask(call, 'ADD').catch(async (cause: unknown) => {
        if (!(cause instanceof DelegateError)) throw cause;
        await ask(call, 'DEL');
        return ask(call, 'ADD');
      });
      const result = parseResult(answer);
      const addresses = addressesOf(result?.ips.map(({ address }) => address) ?? []);
      if (result === undefined || addresses.length === 0) {
        throw new NetplugError(
          'delegate/failed',
          `Cannot use the answer of plugin "${delegation.plugin}": it holds no address`,
          {
            hint: 'Correct the ipam section, so that the plugin gives at least one address',
          },
        );
      }
      await store.commit([{ kind: 'put-endpoint', endpoint: endpointOf(addresses) }], call.signal);
      undo.keep();
      return {
        addresses,
        dns: result.dns,
        facts: { ipam: delegation.plugin },
        takeBack: async (signal) => {
          await ask(call, 'DEL', signal);
          await releaseEndpoint(ports, call, signal);
        },
      };
    },

    async release(call, unlinked) {
      await unlinked;
      await ask(call, 'DEL');
      await releaseEndpoint(ports, call, call.signal);
    },

    async check(call) {
      await ask(call, 'CHECK');
    },

    async collect(call, keeps) {
      const { plugin } = delegation;
      const { records } = await ports.attachments.list();
      const stale = records
        .filter(({ addressManager }) => addressManager === plugin)
        .map(({ attachment }) => attachment)
        .filter((attachment) => attachment.network === call.attachment.network && !keeps(attachment));
      const failures: unknown[] = [];
      for (const attachment of stale) {
        try {
          const conf = await delegation.confOf(call, 'DEL');
          const exec = ports.execDelegateFor(attachment);
          await callDelegate(exec, { plugin, path, command: 'DEL', conf, signal: call.signal });
        } catch (cause) {
          failures.push(cause);
        }
      }
      for (const before of await staleEndpoints(ports, call, keeps)) {
        await store
          .commit([{ kind: 'delete-endpoint', before }], call.signal)
          .catch((cause: unknown) => failures.push(cause));
      }
      await ask(call, 'GC').catch((cause: unknown) => {
        if (!isVerbUnknown(cause)) failures.push(cause);
      });
      if (failures.length > 0) throw new AggregateError(failures, 'Cannot collect everything');
      return stale.length;
    },

    async assertReady(call) {
      await store.ping(call.signal);
      try {
        await ask(call, 'STATUS');
      } catch (cause) {
        if (!isVerbUnknown(cause)) throw cause;
      }
    },
  };
}

/** Specification, "ipam object fields": host-local supports no request for a certain address. */
function refuseRequests({ config, args }: CniCall): void {
  const asked = [...config.runtime.ips, ...args.ips];
  if (config.ipam.type !== 'host-local' || asked.length === 0) return;
  throw new NetplugError(
    'ipam/request-invalid',
    `Cannot assign ${asked.map(formatAddress).join(', ')}: host-local takes no request for a certain address`,
    { hint: 'Set ipam.type to "netplug-ipam", or ask for no address' },
  );
}

function addressesOf(cidrs: readonly string[]): Address[] {
  return cidrs.flatMap((text) => tryReadCidr(text)?.address ?? []);
}
