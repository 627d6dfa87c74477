import { NetplugError } from '../base/errors.ts';
import { Undo } from '../base/undo.ts';
import { formatAddress } from '../net/address.ts';
import { refuseAnnotations } from '../config/annotations.ts';
import type { AddressSource } from './address-source.ts';
import type { CniCall, CniPorts } from './call.ts';
import { callDelegate, DelegateError, isVerbUnknown } from './delegate.ts';
import { releaseEndpoint } from './own-endpoint.ts';
import { addressesIn, parseResult } from './result.ts';
import { staleEndpoints } from './stale-endpoints.ts';

/** A delegated address manager. */
export interface Delegation {
  readonly plugin: string;
  /** Returns the configuration for one call, parts of which may come from the orchestrator's API. */
  readonly confOf: (call: CniCall, command: string) => Promise<Readonly<Record<string, unknown>>>;
  /** Returns the addresses of which none is left for one more attachment; undefined while there are some, or when this is not known. */
  readonly findFull: (conf: Readonly<Record<string, unknown>>) => Promise<string | undefined>;
}

/** Assigns addresses through another plugin (CNI 1.1.0, section 4) and records the endpoint. */
export function delegatedAddresses(ports: CniPorts, delegation: Delegation, path: readonly string[]): AddressSource {
  const { store } = ports;
  const ask = async (call: CniCall, command: string, signal: AbortSignal = call.signal): Promise<unknown> => {
    const conf = await delegation.confOf(call, command);
    return callDelegate(ports.execDelegate, { plugin: delegation.plugin, path, command, conf, signal });
  };

  const findExhaustion = async (call: CniCall): Promise<NetplugError | undefined> => {
    const full = await delegation.findFull(await delegation.confOf(call, 'STATUS'));
    return full === undefined ? undefined : exhausted(call, delegation.plugin, full);
  };

  return {
    async assign(call, endpointOf) {
      refuseRequests(call);
      if (call.orchPod !== undefined) refuseAnnotations(call.orchPod.facts, call.orchPod.requests, delegation.plugin);
      const known = await ports.attachments.find(call.attachment);
      if (known?.addressManager === delegation.plugin) {
        return { addresses: known.addresses, dns: {}, facts: {}, rollBack: () => Promise.resolve() };
      }
      await using undo = new Undo();
      undo.defer(async () => {
        await ask(call, 'DEL', call.cleanupSignal);
      });
      // The plugin may still hold an address of an earlier ADD that was killed. DEL releases it; then ADD is retried.
      const answer = await ask(call, 'ADD').catch(async (cause: unknown) => {
        if (!(cause instanceof DelegateError)) throw cause;
        await ask(call, 'DEL');
        return ask(call, 'ADD').catch(async (again: unknown) => {
          throw (await findExhaustion(call).catch(() => undefined)) ?? again;
        });
      });
      const result = parseResult(answer);
      const addresses = addressesIn(result?.ips ?? []);
      if (result === undefined || addresses.length === 0) {
        throw new NetplugError(
          'delegate/failed',
          `Cannot use the result of plugin "${delegation.plugin}": it contains no address`,
          {
            hint: 'Correct the ipam section, so that the plugin assigns at least one address',
          },
        );
      }
      await store.commit([{ kind: 'put-endpoint', endpoint: endpointOf(addresses) }], call.signal);
      undo.disarm();
      return {
        addresses,
        dns: result.dns,
        facts: { ipam: delegation.plugin },
        rollBack: async (signal) => {
          await ask(call, 'DEL', signal);
          await releaseEndpoint(ports, call, signal);
        },
      };
    },

    async release(call, unused) {
      const known = await ports.attachments.find(call.attachment);
      await unused(known?.addresses ?? []);
      await ask(call, 'DEL');
      await releaseEndpoint(ports, call, call.signal);
    },

    async check(call) {
      await ask(call, 'CHECK');
    },

    async collect(call, isKept) {
      const { plugin } = delegation;
      const { records } = await ports.attachments.list();
      const stale = records
        .filter(({ addressManager }) => addressManager === plugin)
        .map(({ attachment }) => attachment)
        .filter((attachment) => attachment.network === call.attachment.network && !isKept(attachment));
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
      for (const before of await staleEndpoints(ports, call, isKept)) {
        await store
          .commit([{ kind: 'delete-endpoint', before }], call.signal)
          .catch((cause: unknown) => failures.push(cause));
      }
      await ask(call, 'GC').catch((cause: unknown) => {
        if (!isVerbUnknown(cause)) failures.push(cause);
      });
      if (failures.length > 0) throw new AggregateError(failures, 'Cannot release everything');
      return stale.length;
    },

    async assertReady(call) {
      await store.ping(call.signal);
      try {
        await ask(call, 'STATUS');
      } catch (cause) {
        if (!isVerbUnknown(cause)) throw cause;
      }
      const exhaustion = await findExhaustion(call);
      if (exhaustion !== undefined) throw exhaustion;
    },
  };
}

function exhausted({ attachment: { network } }: CniCall, plugin: string, full: string): NetplugError {
  return new NetplugError(
    'ipam/exhausted',
    `Cannot assign an address in network "${network}": ${plugin} holds every address of ${full}`,
    {
      hint: 'Add a range to its set in ipam.ranges, or delete pods of this node; "netplugctl ipam check" on the node names addresses that leaked',
      facts: { network, plugin },
    },
  );
}

/** @throws ipam/request-invalid when host-local is asked for a specific address (specification, "ipam object fields") */
function refuseRequests({ config, args }: CniCall): void {
  const asked = [...config.runtime.ips, ...args.ips];
  if (config.ipam.type !== 'host-local' || asked.length === 0) return;
  throw new NetplugError(
    'ipam/request-invalid',
    `Cannot assign ${asked.map(formatAddress).join(', ')}: host-local does not support requests for specific addresses`,
    { hint: 'Set ipam.type to "netplug-ipam", or remove the request' },
  );
}
