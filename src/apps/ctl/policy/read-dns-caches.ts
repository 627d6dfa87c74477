import * as v from 'valibot';
import type { Context } from '../ports.ts';
import { readIfKnown } from './read-services.ts';
import { type DnsCache, DNS_CACHE_LABEL, SYSTEM_NAMESPACES } from '../../../policy/reach/vital-services.ts';
import type { ApiObject } from '../../../kube/objects.ts';
import type { OrchApi } from '../../../kube/orch-api.ts';
import { PODS } from '../../../kube/paths.ts';
import { isConditionTrue } from '../../../kube/status/conditions.ts';
import { tryParseAddress } from '../../../net/address.ts';

const FINISHED = ['Succeeded', 'Failed'];
const LOCAL_IP = /^--?localip(?:=(.*))?$/;

const Texts = v.nullish(v.array(v.string()), []);
const Cache = v.object({
  spec: v.object({
    hostNetwork: v.literal(true),
    nodeName: v.string(),
    containers: v.array(v.object({ command: Texts, args: Texts })),
  }),
  status: v.nullish(v.object({ phase: v.nullish(v.string(), '') }), {}),
});

/**
 * Returns the addresses at which DNS caches of nodes answer pods of their node, as their command lines say. Packets to them end
 * at the node, also those to the address of the DNS Service. @throws store/*
 */
export async function readDnsCaches(api: OrchApi, signal: AbortSignal): Promise<readonly DnsCache[]> {
  const found: DnsCache[] = [];
  // What pods of tenants say of themselves does not count.
  for (const namespace of SYSTEM_NAMESPACES)
    for (const pod of await api.list({ ...PODS, namespace }, { labelSelector: DNS_CACHE_LABEL }, signal))
      found.push(...cachesOf(pod));
  return found;
}

/** Returns the same, and none where they cannot be read, of which it tells `onUnknown`. */
export async function readKnownDnsCaches(
  context: Context,
  onUnknown: (why: string) => void,
): Promise<readonly DnsCache[]> {
  const read = await readIfKnown(context, async (api) => readDnsCaches(api, context.signal));
  if ('value' in read) return read.value;
  if (read.unknown !== undefined) onUnknown(`whether nodes have a DNS cache is not known: ${read.unknown}`);
  return [];
}

/** A pod that has finished answers nothing any more. */
function cachesOf(pod: ApiObject): readonly DnsCache[] {
  const read = v.safeParse(Cache, pod);
  if (!read.success || FINISHED.includes(read.output.status.phase)) return [];
  const cache = { node: read.output.spec.nodeName, isReady: isConditionTrue(pod, 'Ready') };
  return read.output.spec.containers.flatMap(({ command, args }) => {
    const words = [...command, ...args];
    return words.flatMap((word, place) => {
      const flag = LOCAL_IP.exec(word);
      const text = flag === null ? '' : (flag[1] ?? words[place + 1] ?? '');
      return text.split(',').flatMap((each) => {
        const address = tryParseAddress(each.trim());
        return address === undefined ? [] : [{ ...cache, address }];
      });
    });
  });
}
