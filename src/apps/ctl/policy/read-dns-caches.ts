import * as v from 'valibot';
import type { Context } from '../ports.ts';
import { readIfKnown } from './read-services.ts';
import { DNS_CACHE_LABEL, SYSTEM_NAMESPACES } from '../../../policy/reach/vital-services.ts';
import type { ApiObject } from '../../../kube/objects.ts';
import type { OrchApi } from '../../../kube/orch-api.ts';
import { PODS } from '../../../kube/paths.ts';
import { type Address, addressKey, tryParseAddress } from '../../../net/address.ts';

const LOCAL_IP = /^--?localip(?:=(.*))?$/;

const Texts = v.nullish(v.array(v.string()), []);
const Cache = v.object({
  spec: v.object({
    hostNetwork: v.literal(true),
    containers: v.array(v.object({ command: Texts, args: Texts })),
  }),
});

/**
 * Returns the addresses at which DNS caches of nodes answer their pods, as their command lines say. Packets to them end at the
 * node, also those to the address of the DNS Service. @throws store/*
 */
export async function readDnsCaches(api: OrchApi, signal: AbortSignal): Promise<readonly Address[]> {
  const found = new Map<string, Address>();
  // What pods of tenants say of themselves does not count.
  for (const namespace of SYSTEM_NAMESPACES)
    for (const pod of await api.list({ ...PODS, namespace }, { labelSelector: DNS_CACHE_LABEL }, signal))
      for (const address of addressesOf(pod)) found.set(addressKey(address), address);
  return [...found.values()];
}

/** Returns the same, and none where they cannot be read, of which it tells `onUnknown`. */
export async function readKnownDnsCaches(
  context: Context,
  onUnknown: (why: string) => void,
): Promise<readonly Address[]> {
  const read = await readIfKnown(context, async (api) => readDnsCaches(api, context.signal));
  if ('value' in read) return read.value;
  if (read.unknown !== undefined) onUnknown(`whether nodes have a DNS cache is not known: ${read.unknown}`);
  return [];
}

function addressesOf(pod: ApiObject): readonly Address[] {
  const read = v.safeParse(Cache, pod);
  if (!read.success) return [];
  return read.output.spec.containers.flatMap(({ command, args }) => {
    const words = [...command, ...args];
    return words.flatMap((word, place) => {
      const flag = LOCAL_IP.exec(word);
      const text = flag === null ? '' : (flag[1] ?? words[place + 1] ?? '');
      return text.split(',').flatMap((each) => tryParseAddress(each.trim()) ?? []);
    });
  });
}
